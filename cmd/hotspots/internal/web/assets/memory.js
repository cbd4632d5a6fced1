// Which pages of memory the program touches, over the instructions that it has executed, while
// it does so.
import { json } from "./api.js";
import { Cells } from "./cells.js";
import { Curves } from "./curves.js";
import { even, levelOf, levels, part, shaded } from "./density.js";
import { color, h, scaled, text } from "./dom.js";
import { base, count, nanoseconds, short, thousands } from "./format.js";
import { lasts } from "./lasts.js";
import { Layers } from "./layers.js";
import { DataObjects } from "./objects.js";
import { painter } from "./paint.js";
import { noun, Part } from "./part.js";
import { RowNames } from "./rownames.js";
import { Stream } from "./stream.js";

// The colours of hotspots heat picture, by what was done: 1 read, 2 written, 4 executed; the
// last is where there is no time.
const palettes = {
  paper: ["#000000", "#ff2020", "#00e5e5", "#ffffff", "#f5d020", "#ff9020", "#60d040", "#fff0b0", "#26262b"],
  blind: ["#000000", "#e69f00", "#56b4e9", "#ffffff", "#009e73", "#f0e442", "#0072b2", "#cc79a7", "#26262b"],
};
const rgbs = Object.fromEntries(Object.entries(palettes).map(([name, list]) => {
  const all = list.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return [name, { shaded: shaded(all), even: even(all) }];
}));
export const names = ["not touched", "load", "store", "load and store", "executed", "executed, load", "executed, store", "executed, load and store"];
const columns = 4096, rows = 2048; // cells
const widest = 4096; // points
const least = 64; // instructions that are shown
const hex = (n) => "0x" + n.toString(16);
const bytes = (n) => { for (const unit of [" bytes", " KB", " MB", " GB"]) { if (n < 10240) return thousands(n) + unit; n = Math.round(n / 1024); } return thousands(n) + " TB"; };

export class Memory {
  constructor(app) {
    this.app = app;
    this.palette = "paper";
    this.cells = new Cells();
    this.bands = [];
    this.number = 0;
    this.head = h("div", { class: "says" });
    this.legend = h("div", { class: "legend" });
    this.over = h("canvas", { class: "over", tabindex: "0", "aria-label": "pages by executed instructions" });
    this.canvas = h("canvas", { class: "cells" });
    this.stack = h("div", { class: "stacked" }, this.over, this.canvas);
    this.gutter = h("canvas", { class: "gutter", title: "a double click shows this memory alone" });
    this.axis = h("canvas", { class: "axis" });
    this.curves = new Curves(this);
    this.part = new Part(this);
    this.names = new RowNames(this);
    this.layers = new Layers(this);
    this.objects = new DataObjects(this);
    this.says = h("div", { class: "says", role: "status" });
    this.plot = h("div", { class: "plot" }, this.gutter, this.stack, h("div", { class: "unit" }, "instructions"), this.axis, this.curves.legend, this.curves.canvas);
    const toggle = (key, label, title, click) => h("button", { class: "toggle", title: `${title} (${key})`, click }, label);
    this.toggles = {
      whole: toggle("0", "whole", "all of it", () => this.reset()),
      mapped: toggle("u", "all that is mapped", "also pages that nothing touched", () => this.set({ mm: app.state.mm ? "" : "1" })),
      last: toggle("l", "streaming", "the last instructions, flowing to the left", () => this.stream_()),
      resident: toggle("r", "resident", "how many pages of the process are in memory", () => this.set({ mr: app.state.mr ? "" : "1" })),
      faults: toggle("f", "faults", "how many page faults there were so far, and, at the top, in which slices", () => this.set({ mf: app.state.mf ? "" : "1" })),
      threads: toggle("a", "threads", "how many threads there were", () => this.set({ mt: app.state.mt ? "" : "1" })),
      whose: toggle("w", "whose", "which threads touched each row, of a program run with --heat=threads", () => this.set({ mw: app.state.mw ? "" : "1" })),
      objects: toggle("v", "objects", "data objects: variables and blocks", () => this.set({ mo: app.state.mo ? "" : "1" })),
      named: toggle("y", "names", "functions and variables at rows that are tall enough", () => this.set({ mn: app.state.mn ? "" : "0" })),
      shaded: toggle("i", "how much", "fainter where less of what a point stands for was touched", () => this.set({ mi: app.state.mi ? "" : "0" })),
      other: toggle("b", "other colours", "colours that all can tell apart", () => this.nextPalette()),
    };
    this.el = h("div", { class: "memory" }, this.head, h("div", { class: "tops" }, this.legend, h("div", { class: "toggles" }, ...Object.values(this.toggles))), this.layers.el, this.objects.el, h("div", { class: "middle" }, this.plot, this.part.el), this.says);
    this.listen();
    new ResizeObserver(() => this.later(true)).observe(this.stack);
    addEventListener("visibilitychange", () => { if (document.hidden) this.leave(); else if (this.el.isConnected) this.update(); });
  }

  // What is seen: the link keeps it.

  // range is the instructions that are shown.
  range() {
    const { mx } = this.app.state, all = Math.max(1, this.cells.head?.instructions ?? 1);
    if (mx[0] === "l") return [Math.max(0, all - Number(mx.slice(1))), all];
    const [after, before] = mx.split("-").map(Number), from = after || 0;
    if (before) return [from, before];
    // While it grows there is some room at the right, so that what is drawn can stay.
    const room = this.app.model.state.running ? 2 ** (Math.floor(Math.log2(Math.max(least, all - from))) - 5) : 1;
    return [from, Math.max(Math.ceil(all / room) * room, from + 1)];
  }

  // addresses are those that are shown, 0 for the end.
  addresses() {
    const [from, to] = this.app.state.my.split("-").map((n) => parseInt(n, 16));
    return [from || 0, to || 0];
  }

  set(changes) {
    this.app.set(changes);
    this.see();
    this.later(true);
  }

  setRange(from, to) {
    const all = this.cells.head.instructions;
    from = Math.max(0, Math.round(from));
    to = Math.round(to);
    if (to - from < least) to = from + least;
    const open = to >= all;
    this.set({ mx: from === 0 && open ? "" : `${from}-${open ? "" : to}` });
  }

  setAddresses(from, to) { this.set({ my: from || to ? `${from.toString(16)}-${to ? to.toString(16) : ""}` : "" }); }

  reset() {
    this.way = null;
    this.part.close();
    this.set({ mx: "", my: "" });
  }

  stream_() {
    if (this.app.state.mx[0] === "l") return this.set({ mx: "" });
    const [from, to] = this.range();
    const all = this.app.state.mx === "";
    this.set({ mx: `l${Math.max(least, Math.round((to - from) / (all ? 4 : 1)))}` });
  }

  // view is what is seen.
  view() {
    const { state } = this.app, [from, to] = this.addresses();
    const last = state.mx[0] === "l" ? Number(state.mx.slice(1)) : 0;
    const [after, before] = last ? [0, 0] : state.mx.split("-").map((n) => Number(n) || 0);
    return { columns, rows, after, before: before ?? 0, last, from, to, mapped: state.mm !== "", ...this.way };
  }

  // see tells the server.
  see() {
    const view = this.view(), what = JSON.stringify(view);
    if (!this.stream || what === this.seen) return;
    this.seen = what;
    this.stream.see({ view: ++this.number, ...view });
  }

  // navigate asks for other addresses: these are chosen by the rows that there are, of which the
  // server knows more.
  navigate(grow, at, move = 0) {
    const w = this.way ?? { grow: 1, at, move: 0 };
    this.way = { grow: Math.min(65536, Math.max(1 / 65536, w.grow * grow)), at, move: Math.min(16, Math.max(-16, w.move + move)) };
    this.see();
  }

  // update shows what is known, and begins to watch.
  update() {
    const { app } = this, { model } = app;
    if (app.frozen || document.hidden) this.leave();
    else if (this.stream?.id !== model.id) {
      this.leave();
      if (this.shown !== model.id) {
        this.shown = model.id;
        this.cells.begin();
        this.bands = [];
        this.names.begin();
        this.layers.begin();
        this.objects.begin();
        this.part.close();
      }
      this.seen = "";
      this.stream = new Stream(model.id, (...frame) => this.take(...frame), (why) => text(this.says, why));
    }
    this.see();
    this.later(true);
  }

  leave() {
    this.stream?.close();
    this.stream = null;
  }

  // take takes a frame.
  take(head, buffer, start) {
    if (!this.el.isConnected) return this.leave();
    if (head.kind === "none") {
      this.cells.begin();
      this.plot.hidden = true;
      this.legend.replaceChildren();
      text(this.head, head.why);
      return;
    }
    this.plot.hidden = false;
    if (head.kind === "memory") this.bands = head.memory;
    else if (head.kind === "curve") this.curves.take(head, buffer, start);
    else if (head.kind === "cells") {
      if (head.view !== this.number && this.cells.head) return; // of what was seen before
      this.cells.take(head, buffer, start);
      this.behind = head.behind;
      this.heard = performance.now();
      if (head.whole && this.way) {
        this.way = null;
        const [from, to] = this.addresses();
        if (from !== head.from || to !== head.to) {
          const { state } = this.app;
          state.my = head.from || head.to ? `${head.from.toString(16)}-${head.to ? head.to.toString(16) : ""}` : "";
          this.app.writeLink(false);
        }
        this.seen = JSON.stringify(this.view()); // it is what the server has
      }
    }
    this.later(head.kind !== "cells" || head.whole || head.new > 0);
  }

  // later draws with the next frame of the screen; around: also what is around the cells.
  later(around = false) {
    this.around ||= around;
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      if (this.el.isConnected) this.draw();
    });
  }

  draw() {
    const { cells, stack, canvas } = this;
    if (!cells.head || stack.clientWidth === 0) return;
    const ratio = Math.min(devicePixelRatio || 1, widest / stack.clientWidth);
    const width = Math.max(1, Math.round(stack.clientWidth * ratio)), height = Math.max(1, Math.min(widest, Math.round(stack.clientHeight * ratio)));
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, { width, height });
      cells.changed = "all";
    }
    this.painter ??= painter(canvas, location.search.slice(1));
    if (this.painter.lost) {
      const other = h("canvas", { class: "cells" });
      canvas.replaceWith(other);
      this.canvas = other;
      this.painter = null;
      cells.changed = "all";
      return this.later(true);
    }
    this.painter.draw(cells, this.edges(width), this.rows_(height), rgbs[this.palette][this.app.state.mi ? "even" : "shaded"]);
    this.drawn = cells.head.instructions;
    this.sayHead();
    if (this.around || this.app.state.mx.slice(-1) === "-" || this.app.state.mx === "" || this.app.state.mx[0] === "l") {
      this.around = false;
      this.drawLegend();
      this.drawGutter();
      this.drawAxis();
      this.curves.draw();
      this.drawOver();
      this.moved();
    }
  }

  // moved says what is pointed at now, where the picture has moved and the pointer has not.
  moved() {
    if (!this.pointer || this.drag || performance.now() - this.said < 250) return;
    this.pointer = this.place(this.pointer);
    this.hover(this.pointer);
  }

  // edges are the columns, counted from the first, that points of the canvas begin with, and 1.
  edges(width) {
    const { first, column } = this.cells.head, [from, to] = this.range();
    const what = `${width} ${first} ${column} ${from} ${to}`;
    if (what !== this.edgesOf) {
      this.edgesOf = what;
      this.across = Uint16Array.from({ length: width + 1 }, (_, x) => Math.min(65535, Math.max(0, Math.floor((from + (to - from) * x / width) / column - first) + 1)));
    }
    return this.across;
  }

  rows_(height) {
    const n = this.cells.order.length, what = `${height} ${n}`;
    if (what !== this.rowsOf) {
      this.rowsOf = what;
      this.down = Uint16Array.from({ length: height + 1 }, (_, y) => Math.floor(n * y / height) + 1);
    }
    return this.down;
  }

  sayHead() {
    const { head } = this.cells, c = this.curves.head;
    const live = this.app.model.state.running && this.stream ? `; live, ${this.behind + performance.now() - this.heard < 2000 ? `${thousands(this.behind)} ms behind` : "nothing new"}` : "";
    text(this.head, `${c ? `${count(c.touched, "page")} touched: ${thousands(c.read)} read, ${thousands(c.written)} written, ${thousands(c.executed)} executed${c.granule < c.page ? `; ${count(c.granules, noun(c.granule))} of ${c.granule} bytes` : ""}; ` : ""}${short(head.instructions)} instructions, ${count(head.slices, "slice")} of time${live}. A row is ${bytes(head.row)}, the highest address at the top, a column ${count(head.column, "instruction")}.`);
  }

  drawLegend() {
    const { state } = this.app, { toggles } = this;
    const list = names.map((_, i) => i).filter((i) => i === 0 || this.cells.seen & (1 << i));
    const what = `${this.palette} ${list} ${state.mi}`;
    for (const [name, on] of [["mapped", state.mm], ["last", state.mx[0] === "l"], ["resident", state.mr], ["faults", state.mf], ["threads", state.mt], ["whose", state.mw], ["objects", state.mo], ["named", !state.mn], ["shaded", !state.mi], ["other", this.palette === "blind"]]) toggles[name].setAttribute("aria-pressed", String(!!on));
    toggles.whole.disabled = state.mx === "" && state.my === "";
    if (what === this.legendOf) return;
    this.legendOf = what;
    const swatch = (background, name, props = {}, title = "") => {
      const i = h("i", props);
      i.style.background = background;
      return h("span", { title }, i, name);
    };
    this.legend.replaceChildren(...list.map((i) => swatch(palettes[this.palette][i], names[i])));
    if (!state.mi) this.legend.append(swatch(`linear-gradient(to right, rgb(${rgbs.paper.shaded[3]}), #fff)`, "little to all of it", { class: "wide" }, "how much was touched of what a point stands for, in each slice of time that it stands for"));
  }

  bandAt(address) {
    let low = 0, high = this.bands.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.bands[middle].to > address) high = middle;
      else low = middle + 1;
    }
    const b = this.bands[low];
    return b && b.from <= address ? b : null;
  }

  // groups are rows of the same memory: the first, how many, and what it is.
  groups() {
    const { cells } = this, list = [];
    for (let row = 0; row < cells.order.length; row++) {
      const address = cells.address(row), band = this.bandAt(address) ?? this.bandAt(address + cells.head.row - 1);
      const last = list[list.length - 1];
      if (last && last.band === band) last.n++;
      else list.push({ band, first: row, n: 1 });
    }
    return list;
  }

  drawGutter() {
    const { cells, gutter } = this, width = gutter.clientWidth, height = gutter.clientHeight;
    const c = scaled(gutter, width, height), n = cells.order.length;
    this.list = this.groups();
    c.font = '11px system-ui, "Segoe UI", Cantarell, "Liberation Sans", sans-serif';
    c.textBaseline = "middle";
    c.textAlign = "right";
    const dim = color("--dim"), ink = color("--text"), line = color("--line");
    let free = 0, last = -1;
    for (const g of this.list) {
      const top = g.first / n * height, tall = g.n / n * height;
      c.fillStyle = line;
      c.fillRect(0, Math.round(top), width, 1);
      const name = base(g.band?.name ?? "[unmapped]"), room = Math.max(top + 8, free + 6);
      if (room + 5 > top + tall) continue;
      c.fillStyle = ink;
      c.fillText(name, width - 6, room, width - 8);
      free = room + 6;
      for (let y = room + 14, step = Math.max(14, tall / Math.max(1, Math.floor(tall / 64))); y < top + tall - 6; y += step) {
        const row = Math.min(n - 1, Math.floor(y / height * n));
        if (row === last) continue; // a row may be higher than that
        last = row;
        c.fillStyle = dim;
        c.fillText(hex(cells.address(row)), width - 6, y, width - 8);
        free = y + 6;
      }
    }
  }

  drawAxis() {
    const { axis } = this, width = axis.clientWidth, height = axis.clientHeight, [from, to] = this.range();
    const c = scaled(axis, width, height);
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = color("--dim");
    c.textBaseline = "middle";
    c.textAlign = "center";
    const all = ticks(from, to, width / 90), step = all[1] - all[0];
    for (const n of all) {
      const x = (n - from) / (to - from) * width, label = tick(n, step || n);
      c.fillRect(Math.round(x), 0, 1, 4);
      const half = c.measureText(label).width / 2;
      if (x - half >= 0 && x + half <= width) c.fillText(label, x, 12);
    }
  }

  // drawOver draws what lies upon the cells: where memory ends, what is pointed at and brushed.
  drawOver() {
    const { over, cells } = this, width = over.clientWidth, height = over.clientHeight;
    const c = scaled(over, width, height), n = cells.order.length;
    c.fillStyle = "rgb(160 160 170 / 0.55)";
    for (const g of this.list ?? []) if (g.first > 0) c.fillRect(0, Math.round(g.first / n * height), width, 1);
    this.drawPaused(c, width, height);
    this.layers.draw(c, width, height);
    this.objects.draw(c, width, height);
    if (!this.app.state.mn) this.names.draw(c, width, height);
    if (this.box) {
      const { x0, x1, y0, y1 } = this.placed(this.box);
      c.fillStyle = "rgb(255 255 255 / 0.14)";
      c.fillRect(x0, y0, x1 - x0, y1 - y0);
      c.strokeStyle = "#ffb347";
      c.lineWidth = 1.5;
      c.strokeRect(x0, y0, x1 - x0, y1 - y0);
    } else if (this.pointer) {
      c.fillStyle = "rgb(255 255 255 / 0.25)";
      c.fillRect(this.pointer.x, 0, 1, height);
      c.fillRect(0, this.pointer.y, width, 1);
    }
  }

  // drawPaused draws where counting was off: mostly no instruction of what is counted ran then.
  drawPaused(c, width, height) {
    const [from, to] = this.range();
    c.save();
    c.setLineDash([4, 4]);
    c.strokeStyle = "#b8b8c0";
    c.fillStyle = "rgb(184 184 192 / 0.22)";
    for (const o of this.curves.offs ?? []) {
      const x = (o.from - from) / (to - from) * width, end = (o.to - from) / (to - from) * width;
      if (end < 0 || x > width) continue;
      if (end - x > 2) c.fillRect(x, 0, end - x, height);
      c.beginPath();
      c.moveTo(Math.round(x) + 0.5, 0);
      c.lineTo(Math.round(x) + 0.5, height);
      c.stroke();
    }
    c.restore();
  }

  // placed is where a box of addresses and instructions is.
  placed({ from, to, after, before }) {
    const { cells, over } = this, [a, b] = this.range(), n = cells.order.length;
    const x = (i) => (i - a) / (b - a) * over.clientWidth, y = (row) => row / n * over.clientHeight;
    return { x0: x(after), x1: x(before), y0: y(cells.rowOf(to - 1)), y1: y(cells.rowOf(from) + 1) };
  }

  nextPalette() {
    this.palette = this.palette === "blind" ? "paper" : "blind";
    this.later(true);
  }

  restyle() { this.later(true); }

  // What the user does.

  listen() {
    const { over, gutter } = this;
    over.addEventListener("pointerdown", (e) => this.down_(e));
    over.addEventListener("pointermove", (e) => this.move(e));
    over.addEventListener("pointerup", (e) => this.up(e));
    over.addEventListener("pointerleave", () => { this.pointer = null; if (!this.drag) { text(this.says, ""); this.drawOver(); } });
    over.addEventListener("dblclick", (e) => { e.preventDefault(); this.zoom(e, 0.25, true, true); });
    over.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    gutter.addEventListener("wheel", (e) => this.wheel(e, true), { passive: false });
    gutter.addEventListener("dblclick", (e) => {
      const n = this.cells.order.length, row = Math.floor(e.offsetY / gutter.clientHeight * n);
      const g = this.list?.find((g) => row >= g.first && row < g.first + g.n);
      if (g) this.setAddresses(this.cells.address(g.first + g.n - 1), this.cells.address(g.first) + this.cells.head.row);
    });
  }

  // place is what a point is of.
  place(e) {
    const box = this.over.getBoundingClientRect(), { cells } = this, [from, to] = this.range();
    const x = Math.min(box.width - 0.01, Math.max(0, e.clientX - box.left)), y = Math.min(box.height - 0.01, Math.max(0, e.clientY - box.top));
    return { clientX: e.clientX, clientY: e.clientY, x, y, instructions: from + (to - from) * x / box.width, row: Math.floor(y / box.height * cells.order.length), part: 1 - y / box.height };
  }

  // sharePointed is how much was touched of the cells of the point of the canvas that is pointed at.
  sharePointed({ x, y }) {
    const { cells, canvas, over } = this, { first, end } = cells.head, across = this.edges(canvas.width), down = this.rows_(canvas.height);
    const i = Math.min(canvas.width - 1, Math.floor(x / over.clientWidth * canvas.width)), k = Math.min(canvas.height - 1, Math.floor(y / over.clientHeight * canvas.height));
    const left = first + across[i] - 1, top = down[k] - 1;
    const { sum, cells: n } = cells.sum(left, Math.min(end, Math.max(left + 1, first + across[i + 1] - 1)), top, Math.min(cells.order.length, Math.max(top + 1, down[k + 1] - 1)));
    if (n < 1 || sum === 0 || levelOf(sum, n) === levels - 1) return "";
    const percent = Math.round(part(sum, n) * 100);
    return percent < 1 ? "less than 1 % of this point touched" : `about ${percent} % of this point touched`;
  }

  // wheel zooms: with Shift instructions only, with Alt or beside the picture addresses only.
  wheel(e, only = false) {
    if (!this.cells.head) return;
    e.preventDefault();
    const delta = (e.deltaY || e.deltaX) * (e.deltaMode === 1 ? 30 : 1);
    this.zoom(e, Math.exp(Math.max(-2, Math.min(2, delta / 300))), !(e.altKey || only), !e.shiftKey);
  }

  zoom(e, factor, x, y) {
    const at = this.place(e), [from, to] = this.range();
    if (x) this.setRange(at.instructions - (at.instructions - from) * factor, at.instructions + (to - at.instructions) * factor);
    if (y) this.navigate(factor, at.part);
  }

  down_(e) {
    if (!this.cells.head || e.button > 1) return;
    this.over.focus({ preventScroll: true });
    this.over.setPointerCapture(e.pointerId);
    this.drag = { from: this.place(e), range: this.range(), pan: e.shiftKey || e.button === 1, moved: 0 };
  }

  move(e) {
    if (!this.cells.head) return;
    const at = this.place(e), { drag } = this;
    this.pointer = at;
    if (!drag) {
      this.hover(at);
      return this.drawOver();
    }
    if (drag.pan) {
      const [from, to] = drag.range, by = (at.x - drag.from.x) / this.over.clientWidth * (to - from);
      this.shift(from - by, to - by);
      const rows = (at.y - drag.from.y) / this.over.clientHeight - drag.moved;
      if (Math.abs(rows) > 0.02) {
        drag.moved += rows;
        this.navigate(1, 0, rows);
      }
      return;
    }
    this.box = this.boxed(drag.from, at);
    this.drawOver();
  }

  up(e) {
    const { drag } = this;
    this.drag = null;
    if (!drag || drag.pan) return;
    const at = this.place(e);
    if (Math.hypot(at.x - drag.from.x, at.y - drag.from.y) < 4) { // a click: this row, all the time that is shown
      const [after, before] = this.range();
      this.box = { ...this.boxed(at, at), after: Math.floor(after), before: Math.ceil(before) };
    } else this.box = this.boxed(drag.from, at);
    this.drawOver();
    this.part.open(this.box);
  }

  boxed(a, b) {
    const { cells } = this, top = Math.min(a.row, b.row), bottom = Math.max(a.row, b.row);
    const after = Math.floor(Math.min(a.instructions, b.instructions));
    return { from: cells.address(bottom), to: cells.address(top) + cells.head.row, after, before: Math.max(after + 1, Math.ceil(Math.max(a.instructions, b.instructions))) };
  }

  // shift shows as much as before, elsewhere.
  shift(from, to) {
    const all = this.cells.head.instructions, by = from < 0 ? -from : to > all ? Math.max(all - to, -from) : 0;
    this.setRange(from + by, to + by);
  }

  // hover says what is pointed at: at once what is known here, then what the server knows.
  hover({ row, instructions }) {
    const { cells } = this, { head } = cells;
    if (!head || row >= cells.order.length) return;
    this.said = performance.now();
    const address = cells.address(row), column = Math.floor(instructions / head.column);
    const band = this.bandAt(address) ?? this.bandAt(address + head.row - 1);
    const inside = column >= head.first && column < head.end;
    const first = [hex(address), band?.name ?? "[unmapped]", inside ? names[cells.at(column, row) & 7] : "", inside ? this.sharePointed(this.pointer) : "", `${short(column * head.column)} instructions`, this.sayPaused(instructions), this.layers.faultsAt(instructions), this.objects.at(this.pointer)].filter((s) => s).join("  ·  ");
    const what = `${address} ${head.row} ${column}`;
    if (this.more?.address !== address) this.more = { address, texts: [] }; // of another column it is nearly so
    text(this.says, [first, ...this.more.texts].join("  ·  "));
    if (what === this.asked || this.asking) {
      this.next = what === this.asked ? null : { row, instructions };
      return;
    }
    this.asked = what;
    this.asking = true;
    json(`tables/${this.app.model.id}/memory/at?from=${address}&to=${address + head.row}&after=${column * head.column}&before=${(column + 1) * head.column}`).then((a) => {
      if (this.asked !== what || !this.pointer) return;
      const symbols = a.symbols.length > 0 ? a.symbols.slice(0, 3).join(", ") + (a.symbols.length + a.more_symbols > 3 ? ` and ${thousands(a.symbols.length + a.more_symbols - 3)} more` : "") : "";
      const who = (name, t) => (t ? `last ${name} in slice ${thousands(t.slice)}, up to ${short(t.instructions)} instructions${t.ns ? `, ${nanoseconds(t.ns)}` : ""}` : `not ${name} before`);
      const by = a.threads ? `${a.threads.threads > 1 ? `shared by ${thousands(a.threads.threads)} threads` : "one thread"}${few(", read by ", a.threads.readers)}${few(", written by ", a.threads.writers)}` : "";
      this.more = { address, texts: [this.sayTouched(a.touched, head.row), symbols, this.objects.said(a.blocks), by, ...lasts(a), who("read", a.read), who("written", a.written), a.executed ? who("executed", a.executed) : ""].filter((s) => s) };
      text(this.says, [first, ...this.more.texts].join("  ·  "));
    }).catch((err) => { if (err.status !== 404) this.app.trouble(err); }).finally(() => {
      this.asking = false;
      const { next } = this;
      this.next = null;
      if (next && this.pointer) this.hover(next);
    });
  }

  // sayTouched says how much of a row was touched in some slices.
  sayTouched({ granule, granules, slices, times }, row) {
    const n = row / granule;
    if (granules === 0 || n * slices <= 1) return "";
    const of = (k, all) => `${thousands(k)} of ${thousands(all)}`;
    if (n === 1) return `touched in ${of(times, slices)} slices`;
    return `touched: ${of(granules, n)} ${noun(granule)}s${slices > 1 ? `, ${of(times, n * slices)} in ${thousands(slices)} slices` : ""}`;
  }

  // sayPaused says whether counting was off there.
  sayPaused(instructions) {
    const [from, to] = this.range(), o = this.curves.pausedAt(instructions, (to - from) / this.over.clientWidth * 2);
    return o ? `counting was off here${o.ns > 0 ? ` for ${nanoseconds(o.ns)}` : ""}` : "";
  }

  key(e) {
    const [from, to] = this.range(), step = (to - from) / 8;
    const action = {
      b: () => this.nextPalette(), u: () => this.toggles.mapped.click(), l: () => this.toggles.last.click(), r: () => this.toggles.resident.click(), f: () => this.toggles.faults.click(), a: () => this.toggles.threads.click(), w: () => this.toggles.whose.click(), v: () => this.toggles.objects.click(), y: () => this.toggles.named.click(), i: () => this.toggles.shaded.click(), 0: () => this.reset(),
      "+": () => this.zoomKey(0.5), "=": () => this.zoomKey(0.5), "-": () => this.zoomKey(2),
      ArrowLeft: () => this.shift(from - step, to - step), ArrowRight: () => this.shift(from + step, to + step),
      ArrowUp: () => this.navigate(1, 0, 0.125), ArrowDown: () => this.navigate(1, 0, -0.125),
      Enter: () => this.part.zoom(), Escape: () => this.back(),
    }[e.key];
    return this.cells.head && action ? action() ?? true : false;
  }

  zoomKey(factor) {
    const [from, to] = this.range(), middle = (from + to) / 2;
    this.setRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
    this.navigate(factor, 0.5);
  }

  // back is one step: no part any more, then the whole. It is false where there is no step.
  back() {
    if (this.part.isOpen) this.part.close();
    else if (this.app.state.mx || this.app.state.my) this.reset();
    else return false;
    return true;
  }

  // rows are for files: the part that was brushed, else what there is of each memory.
  rows() {
    if (this.part.isOpen) return this.part.rows();
    return this.groups().map((g) => ({ memory: g.band?.name ?? "[unmapped]", rows: g.n, bytes_per_row: this.cells.head.row, from: hex(this.cells.address(g.first + g.n - 1)), to: hex(this.cells.address(g.first) + this.cells.head.row) }));
  }
}

// few are the first of a list, if it has any.
const few = (before, list) => (list.length > 0 ? before + list.slice(0, 4).join(" ") + (list.length > 4 ? ` and ${thousands(list.length - 4)} more` : "") : "");

// ticks are round numbers between two.
export function ticks(from, to, most) {
  let step = 1;
  while ((to - from) / step > most) step *= /^[15]/.test(String(step)) ? (String(step)[0] === "1" ? 2 : 2) : 2.5;
  const list = [];
  for (let n = Math.ceil(from / step) * step; n <= to; n += step) list.push(n);
  return list;
}

// tick writes a number so exactly that it is told from those a step away.
function tick(n, step) {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n < unit) continue;
    let digits = 0;
    while (digits < 12 && step * 10 ** digits % unit > 0) digits++;
    return (n / unit).toFixed(digits) + name;
  }
  return String(n);
}
