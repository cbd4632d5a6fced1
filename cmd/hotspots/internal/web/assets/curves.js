// How many pages were used, and when: below the picture, by the same instructions.
import { color, h, scaled } from "./dom.js";
import { thousands } from "./format.js";

export class Curves {
  constructor(memory) {
    this.memory = memory;
    this.canvas = h("canvas", { class: "curves", "aria-label": "pages used, working set" });
    this.legend = h("div", { class: "curved" });
    this.head = null;
  }

  take(head, buffer, start) {
    this.head = head;
    this.lists = Object.fromEntries(head.curves.map((name, i) => [name, new Float64Array(buffer, start + 8 * i * head.n, head.n)]));
    this.lists.faults = this.lists.minor_faults.map((n, i) => n + this.lists.major_faults[i]);
    this.offs = this.paused();
  }

  // paused are the times in which counting was off, as far as slices tell: instructions that had run
  // by then, which are mostly the same at its end, and nanoseconds.
  paused() {
    const { instructions, ns, counting } = this.lists, list = [];
    for (let i = 0; i < counting.length; i++) {
      if (!(counting[i] & 2)) continue;
      const last = list[list.length - 1], before = i > 0 ? [instructions[i - 1], ns[i - 1]] : [0, 0], off = counting[i] === 2 ? ns[i] - before[1] : 0;
      if (last && last.slice === i - 1) Object.assign(last, { slice: i, to: instructions[i], ns: last.ns + off });
      else list.push({ slice: i, from: before[0], to: instructions[i], ns: off });
    }
    return list;
  }

  // pausedAt is one of them at so many instructions, give or take some.
  pausedAt(instructions, around) { return this.offs?.find((o) => o.from - around <= instructions && instructions <= o.to + around); }

  draw() {
    if (!this.head) return;
    const { canvas, lists } = this, { n, window: back } = this.head, [from, to] = this.memory.range();
    const width = canvas.clientWidth, height = canvas.clientHeight, c = scaled(canvas, width, height);
    const { state } = this.memory.app;
    const shown = [["touched", "--accent-soft", "in a slice"], ["working_set", "--accent", "working set"], ["used", "--text", "used so far"], ...(state.mr ? [["resident", "--warm", "resident"]] : []), ...(state.mf ? [["faults", "--rose", "page faults so far"]] : []), ...(state.mt ? [["threads", "--dim", "threads"]] : [])];
    const at = lists.instructions;
    let first = 0, last = n - 1, most = 1;
    while (first < n - 1 && at[first] < from) first++;
    while (last > 0 && at[last - 1] >= to) last--;
    const top = (name) => { let n = 1; for (let i = first; i <= last; i++) n = Math.max(n, lists[name][i]); return n; };
    for (const [name] of shown) if (name !== "threads") most = Math.max(most, top(name));
    const x = (i) => (at[i] - from) / (to - from) * width;
    for (const [name, paint] of shown) {
      const scale = name === "threads" ? top(name) : most, y = (v) => height - 1 - v / scale * (height - 6); // threads are no pages
      c.beginPath();
      const begin = first > 0 ? x(first - 1) : Math.max(0, -from / (to - from) * width);
      let before = begin;
      c.moveTo(begin, first > 0 ? y(lists[name][first - 1]) : height);
      for (let i = first; i <= last; i++) {
        const v = y(lists[name][i]), end = Math.max(x(i), before);
        c.lineTo(before, v);
        c.lineTo(end, v);
        before = end;
      }
      if (name === "touched") {
        c.lineTo(before, height);
        c.lineTo(begin, height);
        c.fillStyle = color(paint);
        c.fill();
      } else {
        c.strokeStyle = color(paint);
        c.lineWidth = 1.5;
        c.stroke();
      }
    }
    const what = JSON.stringify([shown.map(([name, paint]) => [lists[name][last], color(paint)]), back, most]);
    if (what === this.told) return;
    this.told = what;
    this.legend.replaceChildren(...shown.toReversed().map(([name, paint, title]) => {
      const swatch = h("i");
      swatch.style.background = color(paint);
      const what = { working_set: `pages touched within ${thousands(back)} instructions`, faults: `of the program's first process; ${thousands(lists.major_faults[last] ?? 0)} of them read something`, threads: "of the program's first process, at the end of each slice, on a scale of their own" }[name] ?? "pages";
      return h("span", { title: what }, title + " ", h("b", {}, thousands(lists[name][last] ?? 0)), swatch);
    }));
  }
}
