// Which pages of memory the program has touched, over the instructions that it has executed.
import { json } from "./api.js";
import { h, text } from "./dom.js";
import { base, count, short, thousands } from "./format.js";

// The colours of hotspots heat picture, by what was done: 1 read, 2 written, 4 executed.
const palettes = {
  paper: ["#000000", "#ff2020", "#00e5e5", "#ffffff", "#f5d020", "#ff9020", "#60d040", "#fff0b0"],
  blind: ["#000000", "#e69f00", "#56b4e9", "#ffffff", "#009e73", "#f0e442", "#0072b2", "#cc79a7"],
};
const names = ["not touched", "load", "store", "load and store", "executed", "executed, load", "executed, store", "executed, load and store"];
const often = 1000; // ms between two questions, at least
const rest = 4; // times as long as an answer takes

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

export class Memory {
  constructor(app) {
    this.app = app;
    this.palette = "paper";
    this.head = h("div", { class: "says" });
    this.legend = h("div", { class: "legend" });
    this.canvas = h("canvas", { tabindex: "0", "aria-label": "pages by executed instructions", mousemove: (e) => this.hover(e), mouseleave: () => text(this.says, "") });
    this.labels = h("div", { class: "labels" });
    this.says = h("div", { class: "says", role: "status" });
    this.el = h("div", { class: "memory" }, this.head, this.legend, h("div", { class: "plot" }, this.labels, this.canvas), this.says);
    this.next = 0;
  }

  async update() {
    const { app } = this, { model } = app;
    const what = `${model.id} ${model.state.running}`;
    if (this.asking || what === this.what && (!model.state.running || app.frozen || performance.now() < this.next)) return;
    this.asking = true;
    const began = performance.now();
    try {
      const answer = await json(`tables/${model.id}/memory`);
      if (app.model !== model) return;
      this.show(answer);
    } catch (err) {
      if (err.status !== 404) app.trouble(err);
      else if (app.model === model) this.none(err.message);
    } finally {
      this.what = what;
      this.next = performance.now() + Math.max(often, rest * (performance.now() - began));
      this.asking = false;
    }
  }

  none(why) {
    this.cells = null;
    this.canvas.hidden = true;
    this.labels.replaceChildren();
    this.legend.replaceChildren();
    text(this.head, why);
  }

  show(answer) {
    this.cells = answer;
    this.done = Uint8Array.from(atob(answer.what), (c) => c.charCodeAt(0));
    this.canvas.hidden = false;
    text(this.head, `${count(answer.touched, "page")} touched in ${short(answer.instructions)} instructions, ${count(answer.slices, "slice")} of time. A row is ${thousands(answer.bytes_per_row)} bytes, the highest address at the top, a column ${thousands(answer.instructions_per_column)} instructions; pages that were never touched are left out.`);
    const height = this.canvas.clientHeight;
    this.labels.replaceChildren(...answer.memory.map((m) => {
      const room = m.rows / answer.rows * height >= 12;
      const el = h("span", { title: `${m.name}, ${count(m.pages, "page")}` }, room ? `${base(m.name)} ${thousands(m.pages)}` : "");
      el.style.flexGrow = m.rows;
      return el;
    }));
    this.draw();
  }

  draw() {
    const { cells, done: what } = this;
    const colours = palettes[this.palette].map(rgb), seen = new Set([0]);
    this.canvas.width = cells.columns;
    this.canvas.height = cells.rows;
    const c = this.canvas.getContext("2d"), image = c.createImageData(cells.columns, cells.rows);
    for (let i = 0; i < what.length; i++) {
      const [r, g, b] = colours[what[i]];
      seen.add(what[i]);
      image.data.set([r, g, b, 255], 4 * i);
    }
    c.putImageData(image, 0, 0);
    this.legend.replaceChildren(...[...seen].sort().map((w) => {
      const swatch = h("i");
      swatch.style.background = palettes[this.palette][w];
      return h("span", {}, swatch, names[w]);
    }), h("button", { class: "toggle", title: "colours that all can tell apart (b)", "aria-pressed": String(this.palette === "blind"), click: () => this.nextPalette() }, "other colours"));
  }

  nextPalette() {
    this.palette = this.palette === "blind" ? "paper" : "blind";
    if (this.cells) this.draw();
  }

  hover(e) {
    const { cells } = this, box = this.canvas.getBoundingClientRect();
    if (!cells) return;
    const column = Math.min(cells.columns - 1, Math.floor((e.clientX - box.left) / box.width * cells.columns));
    const row = Math.min(cells.rows - 1, Math.floor((e.clientY - box.top) / box.height * cells.rows));
    const m = cells.memory.findLast((m) => m.first <= row);
    if (column < 0 || row < 0 || !m) return;
    text(this.says, [`${cells.addresses[row]}  ${m.name}`, cells.functions[row], names[this.done[row * cells.columns + column]], `from ${short(column * cells.instructions_per_column)} instructions on`].filter((s) => s).join("  ·  "));
  }

  key(e) {
    if (e.key !== "b") return false;
    this.nextPalette();
    return true;
  }

  rows() { return (this.cells?.memory ?? []).map((m) => ({ memory: m.name, pages: m.pages, address: this.cells.addresses[m.first + m.rows - 1] })); }
}
