// What may lie upon the picture of memory: which threads have touched a row, and where page faults
// were.
import { json } from "./api.js";
import { h } from "./dom.js";
import { thousands } from "./format.js";

const often = 1000; // ms
const shown = 8; // threads that the legend names
const sharedColor = "#ffffff";

// hueOf are colours that neighbours in a list tell apart.
export const hueOf = (i) => `hsl(${(i * 137.5 + 210) % 360} 85% 60%)`;

// stripe is how wide one is.
export const stripe = (width) => Math.max(14, Math.min(40, width / 30));

export class Layers {
  constructor(memory) {
    this.memory = memory;
    this.el = h("div", { class: "legend whose", hidden: true });
    this.begin();
  }

  begin() {
    this.whose = null;
    this.asked = 0;
  }

  // draw draws those that are on.
  draw(c, width, height) {
    const { state } = this.memory.app;
    this.el.hidden = !state.mw;
    if (state.mf) this.drawFaults(c, width);
    if (state.mw) this.drawWhose(c, width, height);
  }

  // drawFaults draws marks at the top, as high as there were faults in a slice.
  drawFaults(c, width) {
    const { curves } = this.memory, [from, to] = this.memory.range(), tall = 40;
    if (!curves.lists) return;
    const { instructions: at, faults } = curves.lists, per = new Float64Array(Math.ceil(width) + 1);
    for (let i = 0; i < at.length; i++) {
      const n = faults[i] - (i > 0 ? faults[i - 1] : 0), x = Math.floor(((i > 0 ? at[i - 1] : 0) - from) / (to - from) * width);
      if (n > 0 && x >= 0 && x <= width) per[x] += n;
    }
    const most = per.reduce((a, b) => Math.max(a, b), 1);
    c.fillStyle = "#ff4fa3";
    per.forEach((n, x) => { if (n > 0) c.fillRect(x, 0, 1, Math.max(3, Math.sqrt(n / most) * tall)); });
  }

  // faultsAt is how many page faults there were in the slice that so many instructions are in.
  faultsAt(instructions) {
    const { lists } = this.memory.curves;
    if (!lists || !this.memory.app.state.mf) return "";
    const i = lists.instructions.findIndex((n) => n > instructions);
    const n = i < 0 ? 0 : lists.faults[i] - (i > 0 ? lists.faults[i - 1] : 0);
    return n > 0 ? `${thousands(n)} page faults in this slice` : "";
  }

  // taken is how wide what lies at the right is.
  taken(width) { return this.memory.app.state.mw && this.whose?.noted ? stripe(width) + 4 : 0; }

  // drawWhose draws a stripe at each row: a colour for each thread, white where more than one was.
  drawWhose(c, width, height) {
    this.ask();
    const { whose } = this, { cells } = this.memory, n = cells.order.length, wide = stripe(width);
    if (!whose?.noted || n === 0) return;
    c.fillStyle = "#000000";
    c.fillRect(width - wide - 2, 0, wide + 2, height);
    let k = whose.runs.length - 1;
    for (let row = 0; row < n; row++) {
      const from = cells.address(row), to = from + cells.head.row;
      while (k >= 0 && whose.runs[k].from >= to) k--;
      let one = -1, many = false;
      for (let i = k; i >= 0 && whose.runs[i].to > from; i--) {
        const r = whose.runs[i];
        if (r.threads > 1 || one >= 0 && one !== r.thread) many = true;
        one = r.thread;
      }
      if (one < 0 && !many) continue;
      const y = Math.floor(row / n * height), bottom = Math.max(y + 1, Math.floor((row + 1) / n * height));
      c.fillStyle = many ? sharedColor : hueOf(one);
      c.fillRect(width - wide, y, wide, bottom - y);
    }
  }

  ask() {
    const { memory } = this, { id } = memory.app.model, now = performance.now();
    if (this.asking || this.whose && (!memory.app.model.state.running && this.asked === Infinity || now - this.asked < often)) return;
    this.asking = true;
    const last = !memory.app.model.state.running;
    json(`tables/${id}/memory/whose`).then((whose) => {
      if (id !== memory.app.model.id) return;
      this.whose = whose;
      this.asked = last ? Infinity : performance.now();
      this.legend();
      memory.later(true);
    }).catch((err) => {
      this.whose = { noted: false, runs: [], threads: [] };
      this.asked = Infinity;
      memory.app.trouble(err);
    }).finally(() => { this.asking = false; });
  }

  legend() {
    const { whose } = this, part = (paint, name) => {
      const swatch = h("i");
      swatch.style.background = paint;
      return h("span", {}, swatch, name);
    };
    if (!whose.noted) return this.el.replaceChildren("which threads touched a page was not noted: hotspots run --heat=threads");
    const left = whose.threads.length - shown;
    this.el.replaceChildren(h("span", {}, "at the right:"), part(sharedColor, "pages of several threads, or a row of pages of several"), ...whose.threads.slice(0, shown).map((name, i) => part(hueOf(i), `thread ${name} alone`)), left > 0 ? `and ${thousands(left)} more` : "");
  }
}
