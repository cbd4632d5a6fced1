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
  }

  draw() {
    if (!this.head) return;
    const { canvas, lists } = this, { n, window: back } = this.head, [from, to] = this.memory.range();
    const width = canvas.clientWidth, height = canvas.clientHeight, c = scaled(canvas, width, height);
    const resident = this.memory.app.state.mr !== "";
    const shown = [["touched", "--accent-soft", "in a slice"], ["working_set", "--accent", "working set"], ["used", "--text", "used so far"], ...(resident ? [["resident", "--warm", "resident"]] : [])];
    const at = lists.instructions;
    let first = 0, last = n - 1, most = 1;
    while (first < n - 1 && at[first] < from) first++;
    while (last > 0 && at[last - 1] >= to) last--;
    for (const [name] of shown) for (let i = first; i <= last; i++) most = Math.max(most, lists[name][i]);
    const x = (i) => (at[i] - from) / (to - from) * width, y = (v) => height - 1 - v / most * (height - 6);
    for (const [name, paint] of shown) {
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
      return h("span", { title: name === "working_set" ? `pages touched within ${thousands(back)} instructions` : "pages" }, title + " ", h("b", {}, thousands(lists[name][last] ?? 0)), swatch);
    }));
  }
}
