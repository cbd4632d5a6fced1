// A list of any number of lines, of which only those that are seen are elements.
import { h } from "./dom.js";

export const rowHeight = 26;
const tallest = 8_000_000; // pixels; browsers know no larger ones

// List shows lines 0 to length-1. Columns are {key, title, width, right, sort, make(cell),
// fill(cell, line)}; width is a track of a CSS grid.
export class List {
  constructor({ label, onSelect, onOpen, onSort }) {
    Object.assign(this, { onSelect, onOpen, onSort, length: 0, cursor: 0, columns: [], rows: [], moved: 0 });
    this.head = h("div", { class: "head", role: "row" });
    this.body = h("div", { class: "body" });
    this.none = h("div", { class: "none" });
    this.el = h("div", { class: "list", role: "grid", tabindex: "0", "aria-label": label }, this.head, this.body, this.none);
    this.el.addEventListener("scroll", () => {
      this.moved = performance.now();
      this.draw();
    }, { passive: true });
    this.el.addEventListener("click", (e) => this.click(e, false));
    this.el.addEventListener("dblclick", (e) => this.click(e, true));
    new ResizeObserver(() => this.draw()).observe(this.el);
  }

  // scrolling tells that the user is: then no line changes its place.
  get scrolling() { return performance.now() - this.moved < 250; }

  click(e, open) {
    const row = e.target.closest(".row");
    if (!row) return;
    this.cursor = row.line;
    this.draw();
    this.onSelect(row.line);
    if (open) this.onOpen(row.line);
  }

  setColumns(columns, sorted) {
    this.columns = columns;
    this.body.replaceChildren();
    this.rows = [];
    this.el.style.setProperty("--columns", columns.map((c) => c.width).join(" "));
    this.head.replaceChildren(...columns.map((c) => {
      const by = sorted && c.sort && sorted.key === c.sort;
      const cell = h(c.sort ? "button" : "span", { class: "cell" + (c.right ? " right" : "") + (by ? " sorted" : ""), title: c.title2 ?? "", role: "columnheader" }, (by ? (sorted.up ? "▲ " : "▼ ") : "") + c.title);
      if (by) cell.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
      if (c.sort) cell.addEventListener("click", () => this.onSort(c.sort));
      return cell;
    }));
  }

  // show shows so many lines; why is said if there are none.
  show(length, why = "") {
    this.length = length;
    this.el.setAttribute("aria-rowcount", String(length));
    this.cursor = Math.max(0, Math.min(this.cursor, length - 1));
    this.height = Math.min(length * rowHeight, tallest);
    this.body.style.height = this.height + "px";
    this.none.textContent = length === 0 ? why : "";
    this.draw(true);
  }

  // first is the line at the top, and offset where that is in the body.
  place() {
    const page = Math.max(1, this.el.clientHeight - this.head.offsetHeight);
    const real = this.length * rowHeight;
    const top = this.el.scrollTop;
    if (real <= tallest) return { first: Math.floor(top / rowHeight), offset: 0, page };
    const part = top / Math.max(1, this.height - page); // a scroll bar cannot tell all lines apart
    const first = Math.floor((part * (real - page)) / rowHeight);
    return { first, offset: top - first * rowHeight - (top % 1), page };
  }

  draw(all = false) {
    const { first, offset, page } = this.place();
    const n = Math.min(this.length - first, Math.ceil(page / rowHeight) + 2);
    while (this.rows.length < n) this.rows.push(this.makeRow());
    // A line keeps its element as long as it is seen.
    const free = [], kept = new Map();
    for (const row of this.rows) {
      if (!all && row.line >= first && row.line < first + n) kept.set(row.line, row);
      else free.push(row);
    }
    for (let i = first; i < first + n; i++) {
      const row = kept.get(i) ?? free.pop();
      if (!kept.has(i)) {
        row.line = i;
        row.hidden = false;
        row.setAttribute("aria-rowindex", String(i + 1));
        this.columns.forEach((c, k) => c.fill(row.children[k], i, row));
      }
      row.style.transform = `translateY(${i * rowHeight + offset}px)`;
      row.classList.toggle("cursor", i === this.cursor);
      row.setAttribute("aria-selected", String(i === this.cursor));
    }
    for (const row of free) {
      row.hidden = true;
      row.line = -1;
    }
  }

  makeRow() {
    const row = h("div", { class: "row", role: "row" }, ...this.columns.map((c) => {
      const cell = h("span", { class: "cell" + (c.right ? " right" : "") + (c.class ? " " + c.class : ""), role: "gridcell" });
      c.make?.(cell);
      return cell;
    }));
    row.line = -1;
    this.body.append(row);
    return row;
  }

  // move puts the cursor on a line, and has it seen.
  move(line, select = true) {
    if (this.length === 0) return;
    this.cursor = Math.max(0, Math.min(line, this.length - 1));
    this.reveal();
    this.draw();
    if (select) this.onSelect(this.cursor);
  }

  reveal() {
    const { first, page } = this.place();
    const whole = Math.floor(page / rowHeight);
    let to = first;
    if (this.cursor < first) to = this.cursor;
    else if (this.cursor >= first + whole) to = this.cursor - whole + 1;
    else return;
    const real = this.length * rowHeight;
    this.el.scrollTop = real <= tallest ? to * rowHeight : (to * rowHeight * (this.height - page)) / (real - page);
  }

  // key does what a key is for, and tells whether it is for anything.
  key(e) {
    const whole = Math.max(1, Math.floor((this.el.clientHeight - this.head.offsetHeight) / rowHeight) - 1);
    const to = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: whole, PageUp: -whole, g: -Infinity, Home: -Infinity, G: Infinity, End: Infinity }[e.key];
    if (to !== undefined) this.move(this.cursor + to);
    else if (e.key === "Enter" && this.length > 0) this.onOpen(this.cursor);
    else return false;
    return true;
  }
}
