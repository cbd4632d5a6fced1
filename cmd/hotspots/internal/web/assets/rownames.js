// What lies at the rows of the picture of memory: functions and variables, where rows are tall
// enough for a name.
import { json } from "./api.js";
import { thousands } from "./format.js";

const tall = 13; // points
const atOnce = 64; // rows that are asked for
const most = 4096; // that are kept
const largest = 4096; // bytes of a row of which it is asked

export class RowNames {
  constructor(memory) {
    this.memory = memory;
    this.begin();
  }

  begin() {
    this.row = 0;
    this.known = new Map(); // by address: what lies there
    this.asked = false;
  }

  // label is what lies in a row, for people.
  label(address, { symbols, more_symbols: more }) {
    const shown = symbols.slice(0, 3).map((s) => s.name + (s.from < address ? `+0x${(address - s.from).toString(16)}` : "")), left = symbols.length + more - shown.length;
    return shown.join(", ") + (left > 0 ? ` and ${thousands(left)} more` : "");
  }

  // draw draws the names that are known, and asks for others.
  draw(c, width, height) {
    const { cells } = this.memory, n = cells.order.length, { row } = cells.head;
    if (n === 0 || height / n < tall || row > largest) return;
    if (this.row !== row || this.known.size > most) {
      this.begin();
      this.row = row;
    }
    const unknown = [];
    c.font = '11px system-ui, "Segoe UI", Cantarell, "Liberation Sans", sans-serif';
    c.textBaseline = "middle";
    for (let i = 0; i < n; i++) {
      const address = cells.address(i), text = this.known.get(address);
      if (text === undefined) unknown.push(address);
      if (!text) continue;
      const y = (i + 0.5) / n * height, room = width * 0.4;
      c.fillStyle = "rgb(0 0 0 / 0.6)";
      c.fillRect(2, y - 7, Math.min(c.measureText(text).width, room) + 6, 14);
      c.fillStyle = "#ffffff";
      c.fillText(text, 5, y, room);
    }
    if (unknown.length > 0) this.ask(unknown.slice(0, atOnce));
  }

  ask(list) {
    const { memory, row, known } = this, { id } = memory.app.model;
    if (this.asked) return;
    this.asked = true;
    json(`tables/${id}/memory/names?row=${row}&at=${list.map((a) => a.toString(16))}`).then(({ rows }) => {
      list.forEach((address, i) => known.set(address, this.label(address, rows[i])));
    }).catch((err) => {
      for (const address of list) known.set(address, "");
      memory.app.trouble(err);
    }).finally(() => {
      if (known !== this.known) return;
      this.asked = false;
      memory.later(true);
    });
  }
}
