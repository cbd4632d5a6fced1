// Data objects at the right of the picture of memory: which variables, and which blocks of malloc, lie at
// each row, to a byte, and where one ends and the next begins.
import { json } from "./api.js";
import { h } from "./dom.js";
import { count, short, thousands } from "./format.js";
import { hueOf, stripe } from "./layers.js";

const often = 1000; // ms
const tall = 11; // points: of one that has a name

const isBlock = (o) => o.block !== null;
const paintOf = (o) => (isBlock(o) ? `hsl(${(o.hue * 137.5 + 20) % 360} 60% 45%)` : hueOf(o.hue));

// saidBlock is a block, for people.
const saidBlock = (o) => `a block of ${count(o.to - o.from, "byte")} allocated by ${o.name}, at ${short(o.block.born)} to ${short(o.block.by)} instructions${o.block.died === undefined ? "" : `, freed by ${short(o.block.died)}`}`;

export class DataObjects {
  constructor(memory) {
    this.memory = memory;
    this.el = h("div", { class: "legend whose", hidden: true });
    this.begin();
  }

  begin() {
    this.list = []; // by address
    this.drawn = []; // of the list that there was then
    this.more = 0;
    this.asked = 0;
    this.of = "";
  }

  // draw draws them, if the layer is on: a colour for each, next to that of its neighbours.
  draw(c, width, height) {
    const { memory } = this, { cells } = memory, { state } = memory.app, n = cells.order.length;
    this.el.hidden = !state.mo;
    if (!state.mo || n === 0) return;
    this.ask();
    const right = width - memory.layers.taken(width), wide = stripe(width), left = right - wide;
    c.fillStyle = "#000000";
    c.fillRect(left - 2, 0, wide + 2, height);
    this.drawn = this.places(height);
    for (const { o, top, bottom } of this.drawn) {
      c.fillStyle = paintOf(o);
      c.fillRect(left, top, wide, Math.max(bottom - top, 0.5));
    }
    c.font = '11px system-ui, "Segoe UI", Cantarell, "Liberation Sans", sans-serif';
    c.textBaseline = "middle";
    c.textAlign = "right";
    let free = Infinity; // from the bottom up: above what has a name already
    for (const { o, top, bottom } of this.drawn) {
      if (bottom - top >= 3) {
        c.fillStyle = "#000000";
        c.fillRect(left, Math.round(top), wide, 1);
      }
      const middle = (top + bottom) / 2;
      if (bottom - top < tall || middle + 7 > free) continue;
      c.fillStyle = paintOf(o);
      for (const y of [top, bottom]) c.fillRect(0, Math.round(y), left, 1);
      const room = width * 0.4, label = o.name;
      c.fillStyle = "rgb(0 0 0 / 0.7)";
      const long = Math.min(c.measureText(label).width, room);
      c.fillRect(left - long - 10, middle - 7, long + 8, 14);
      c.fillStyle = "#ffffff";
      c.fillText(label, left - 6, middle, room);
      free = middle - 7;
    }
    c.textAlign = "left";
  }

  // places are where they lie, from the bottom up: points of the picture. What is in several rows that
  // touch is one.
  places(height) {
    const { cells } = this.memory, n = cells.order.length, { row: size } = cells.head, all = [];
    let k = 0;
    for (let row = n - 1; row >= 0; row--) {
      const from = cells.address(row), to = from + size, y = (address) => (row + 1 - (address - from) / size) / n * height;
      while (k < this.list.length && this.list[k].to <= from) k++;
      for (let i = k; i < this.list.length && this.list[i].from < to; i++) {
        const o = this.list[i];
        if (o.to <= from) continue;
        const top = y(Math.min(o.to, to)), bottom = y(Math.max(o.from, from));
        const last = all.length - 1;
        if (last >= 0 && all[last].o === o && Math.abs(all[last].top - bottom) < 0.01) all[last].top = top;
        else all.push({ o, top, bottom });
      }
    }
    return all;
  }

  // at is what lies where somebody points at, to a byte as far as rows are that fine.
  at(pointer) {
    const { memory } = this;
    if (!memory.app.state.mo || !pointer) return "";
    const found = this.drawn.filter(({ top, bottom }) => pointer.y >= top && pointer.y < Math.max(bottom, top + 1));
    if (found.length === 0) return "";
    const { o } = found.reduce((a, b) => (b.o.to - b.o.from < a.o.to - a.o.from ? b : a));
    if (isBlock(o)) return `in ${saidBlock(o)}`;
    return `in ${o.name}: ${thousands(o.to - o.from)} bytes from 0x${o.from.toString(16)} on`;
  }

  // said is blocks of a row, if not one of them is said already.
  said({ blocks, more }) {
    if (blocks.length === 0 || this.at(this.memory.pointer).startsWith("in a block")) return "";
    const left = blocks.length - 1 + more;
    return `in ${saidBlock(blocks[0])}${left > 0 ? `, and ${count(left, "block")} more` : ""}`;
  }

  ask() {
    const { memory } = this, { cells } = memory, { id, state } = memory.app.model, now = performance.now();
    const from = cells.address(cells.order.length - 1), to = cells.address(0) + cells.head.row;
    const [after, before] = memory.range().map(Math.round), of = `${id} ${from} ${to} ${after} ${state.running ? "" : before}`;
    if (this.asking || this.of === of && (this.asked === Infinity || now - this.asked < often)) return;
    this.asking = true;
    json(`tables/${id}/memory/objects?from=${from}&to=${to}&after=${after}&before=${Math.max(before, after + 1)}`).then(({ objects, more }) => {
      if (id !== memory.app.model.id) return;
      this.list = objects;
      this.more = more;
      this.of = of;
      this.asked = state.running ? performance.now() : Infinity;
      this.legend();
      memory.later(true);
    }).catch((err) => {
      Object.assign(this, { of, asked: Infinity });
      memory.app.trouble(err);
    }).finally(() => { this.asking = false; });
  }

  // legend is what neighbours' colours mean, and who has asked for the most bytes of what is shown.
  legend() {
    const part = (o, name) => {
      const swatch = h("i");
      swatch.style.background = paintOf(o);
      return h("span", {}, swatch, name);
    };
    if (this.list.length === 0) return this.el.replaceChildren("no data objects are known here");
    const variables = this.list.filter((o) => !isBlock(o)), askers = new Map();
    for (const o of this.list) {
      if (!isBlock(o)) continue;
      const one = askers.get(o.name) ?? { o, n: 0, bytes: 0 };
      one.n++;
      one.bytes += o.to - o.from;
      askers.set(o.name, one);
    }
    const most = [...askers.values()].sort((a, b) => b.bytes - a.bytes), shown = most.slice(0, 4);
    this.el.replaceChildren(h("span", {}, "at the right:"),
      ...(variables.length > 0 ? [h("span", {}, `${count(variables.length, "variable")}, neighbours in other colours`)] : []),
      ...(most.length > 0 ? [h("span", {}, "blocks allocated by")] : []),
      ...shown.map(({ o, n, bytes }) => part(o, `${o.name}: ${thousands(n)}, ${thousands(bytes)} bytes`)),
      most.length > shown.length ? `and ${thousands(most.length - shown.length)} more` : "",
      this.more > 0 ? `; ${thousands(this.more)} smaller ones are left out: zoom in` : "");
  }
}
