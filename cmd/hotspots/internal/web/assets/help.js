// The keys.
import { h } from "./dom.js";

const keys = [
  ["1 … 7", "functions, map, threads, events, coverage, compare, memory"],
  ["/", "only names, aliases and objects with this in them, as you type; capitals matter if there are some; /a regular expression/"],
  ["j k ↑ ↓", "one line; PgUp PgDn a page, g G the first and last"],
  ["Enter", "all about a function; in the map go in"],
  ["Esc", "back: details, the map, a range, filters, the search"],
  ["s S", "sort by the next column; the other way round"],
  ["m M", "mark: count from now on, and tell what is new; no mark"],
  ["n", "only functions that were called for the first time since the mark"],
  ["z", "freeze what is shown, and go on"],
  ["c", "also functions that were not called"],
  ["o", "only the object of the selected function; all"],
  ["h", "hide the timeline, and show it"],
  ["x", "save what is shown: CSV, JSON, a picture of the map"],
  ["t", "another table"],
  ["d", "dark or light"],
];

const memory = [
  ["+ − ↑ ↓ ← →", "zoom, move; the wheel does, too: with Shift instructions only, with Alt addresses only"],
  ["Enter", "show the part that was brushed alone; a double click on a name at the left: that memory"],
  ["0 Esc", "the whole; one step back"],
  ["u l r b", "all that is mapped; streaming; resident pages; other colours"],
  ["f a w y", "page faults; threads; which threads touched each row; names of functions and variables at rows that are tall enough"],
  ["i", "fainter where less of what a point stands for was touched, or all the same"],
  ["v", "data objects: variables, and blocks of malloc of a program run with --allocs, at the right"],
];

const facts = [
  ["Calls", "all, exactly, since the program began or was reset"],
  ["Calls/s", "since the last reading"],
  ["Timeline", "drag to choose a range: then functions show their calls in it; a double click ends that"],
  ["Memory", "drag for the table behind a part, click for a row's; Shift and drag moves"],
  ["Links", "the address keeps what is shown, but for the mark: copy it, reload it"],
];

export class Help {
  constructor() {
    const list = (rows) => h("dl", {}, ...rows.flatMap(([k, v]) => [h("dt", {}, ...k.split(" ").flatMap((key) => (key === "…" ? [" … "] : [h("kbd", {}, key), " "]))), h("dd", {}, v)]));
    const plain = (rows) => h("dl", {}, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
    this.dialog = h("dialog", { id: "help", click: () => this.hide() }, h("h2", {}, "Every call of every function, counted"), list(keys), h("h3", {}, "In memory"), list(memory), h("h3", {}, "What is shown"), plain(facts), h("p", { class: "note" }, "any key goes back"));
    document.body.append(this.dialog);
  }

  get open() { return this.dialog.open; }
  show() { this.dialog.showModal(); }
  hide() { this.dialog.close(); }
}
