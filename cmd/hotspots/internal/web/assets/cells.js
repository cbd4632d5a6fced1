// What was done with pages, and how much of them, by row and column: what frames have told of it.
import { shares } from "./density.js";

const join = (a, b) => (a ? { from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) } : b);

export class Cells {
  constructor() {
    this.what = new Uint8Array(0); // cells: see density.js
    this.begin();
  }

  begin() {
    this.addresses = []; // of rows, as they came
    this.order = new Uint16Array(0); // rows by address, the highest first
    this.head = null;
    this.changed = null; // columns that are to be drawn: from, up to and without to; "all"
    this.fresh = null; // likewise, those that are others
    this.seen = 0; // a bit for each of what was done
  }

  // take takes a frame.
  take(head, buffer, start) {
    const size = head.columns * head.rows;
    if (head.whole) {
      this.begin();
      if (this.what.length === size) this.what.fill(0);
      else this.what = new Uint8Array(size);
    }
    const before = this.head;
    this.head = head;
    const bytes = new Uint8Array(buffer), view = new DataView(buffer);
    let at = start;
    for (let i = 0; i < head.new; i++, at += 8) this.addresses.push(view.getFloat64(at, true));
    if (head.new > 0 || head.whole) this.order = Uint16Array.from(this.addresses.keys()).sort((a, b) => this.addresses[b] - this.addresses[a]);
    const uvarint = () => {
      let n = 0, scale = 1, b;
      do {
        b = bytes[at++];
        n += (b & 127) * scale;
        scale *= 128;
      } while (b & 128);
      return n;
    };
    for (let c = head.begin; c < head.begin + head.n; c++) {
      const line = (c % head.columns) * head.rows;
      this.what.fill(0, line, line + head.rows);
      let runs = view.getUint16(at, true), row = 0;
      for (at += 2; runs > 0; runs--) {
        row += uvarint();
        const run = uvarint(), length = Math.floor(run / 128);
        this.what.fill(run & 127, line + row, line + row + length);
        this.seen |= 1 << (run & 7);
        row += length;
      }
    }
    const told = { from: head.begin, to: head.begin + head.n };
    this.changed = head.whole || head.new > 0 || before?.first !== head.first || this.changed === "all" ? "all" : join(this.changed, told);
    this.fresh = head.whole ? { from: head.first, to: head.end } : join(this.fresh, told);
  }

  // at is the cell of a column, and of a row by address.
  at(column, row) { return this.what[(column % this.head.columns) * this.head.rows + this.order[row]]; }

  // sum is that of the shares of cells, and how many these are: columns from a first one on up to a
  // last one, which is not one of them, and rows likewise.
  sum(left, right, top, bottom) {
    let sum = 0;
    for (let c = left; c < right; c++) for (let r = top; r < bottom; r++) if (this.at(c, r) > 0) sum += shares[this.at(c, r) >> 3];
    return { sum, cells: (right - left) * (bottom - top) };
  }

  // rowOf is the row by address that an address is in, or the next below it.
  rowOf(address) {
    let low = 0, high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.addresses[this.order[middle]] <= address) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  address(row) { return this.addresses[this.order[row]]; }
}
