// The table behind a part of the picture of memory.
import { json } from "./api.js";
import { h } from "./dom.js";
import { base, count, short, thousands } from "./format.js";

// noun is what so many bytes are called.
export const noun = (granule) => ({ 4096: "page", 64: "line" })[granule] ?? "granule";

const most = 300; // lines: files have all

export class Part {
  constructor(memory) {
    this.memory = memory;
    this.el = h("aside", { class: "part", hidden: true, "aria-label": "pages in this part" });
    this.answer = null;
  }

  get isOpen() { return !this.el.hidden; }

  close() {
    this.el.hidden = true;
    this.answer = this.memory.box = null;
    this.memory.later(true);
  }

  async open(box) {
    const { app } = this.memory;
    try {
      const answer = await json(`tables/${app.model.id}/memory/part?from=${box.from}&to=${box.to}&after=${box.after}&before=${box.before}`);
      if (this.memory.box !== box) return;
      this.answer = answer;
      this.show(box);
    } catch (err) {
      app.trouble(err, true);
    }
  }

  show(box) {
    const a = this.answer, { app } = this.memory;
    const what = (p) => (p.read ? "r" : "-") + (p.written ? "w" : "-") + (p.executed ? "x" : "-");
    const button = (label, title, click) => h("button", { title, click }, label);
    const line = (p) => h("tr", {}, h("td", { class: "mono" }, p.address), h("td", { class: "right" }, thousands(p.pages)), h("td", { class: "mono" }, what(p)),
      h("td", { class: "right" }, p.first ? thousands(p.first) : "–"), h("td", { class: "right" }, p.last ? thousands(p.last) : "–"),
      h("td", { class: "what", title: p.memory }, base(p.memory), p.symbols.length > 0 ? h("span", { class: "dim", title: p.symbols.join("\n") }, " " + p.symbols.slice(0, 3).join(", ") + (p.symbols.length + p.more_symbols > 3 ? ` and ${thousands(p.symbols.length + p.more_symbols - 3)} more` : "")) : null));
    const more = a.parts.length + a.more - most;
    this.el.replaceChildren(
      h("div", { class: "bar" }, h("h2", {}, `${count(a.touched, noun(a.page))} touched`), button("Zoom in", "show this alone (Enter)", () => this.zoom()), button("CSV", "save this table (x)", () => app.export("csv")), button("✕", "close (Esc)", () => this.close())),
      h("p", { class: "note" }, `from ${short(box.after)} to ${short(box.before)} instructions, 0x${box.from.toString(16)} to 0x${box.to.toString(16)}: ${thousands(a.read)} read, ${thousands(a.written)} written, ${thousands(a.executed)} executed${a.first ? `; slices ${thousands(a.first)} to ${thousands(a.last)}` : ""}`),
      h("table", {}, h("thead", {}, h("tr", {}, ...["Address", `${noun(a.page)[0].toUpperCase()}${noun(a.page).slice(1)}s`, "", "First", "Last", "Memory, symbols"].map((t, i) => h("th", { class: [1, 3, 4].includes(i) ? "right" : "" }, t)))), h("tbody", {}, ...a.parts.slice(0, most).map(line))),
      more > 0 ? h("p", { class: "note" }, `and ${thousands(more)} more${a.more ? `, of which the last ${thousands(a.more)} are in no file either: choose a smaller part` : ": CSV and JSON have them"}`) : "");
    this.el.hidden = false;
  }

  zoom() {
    const { box } = this.memory;
    if (!box) return;
    this.close();
    this.memory.setAddresses(box.from, box.to);
    this.memory.setRange(box.after, box.before);
  }

  rows() { return (this.answer?.parts ?? []).map(({ pages, ...p }) => ({ memory: p.memory, address: p.address, [`${noun(this.answer.page)}s`]: pages, ...p, symbols: p.symbols.join(" ") })); }
}
