// Which functions are counted, and why others are not.
import { json } from "./api.js";
import { h } from "./dom.js";
import { base, count, thousands } from "./format.js";

const sum = (o) => Object.values(o).reduce((a, b) => a + b, 0);

export class Coverage {
  constructor(app) {
    this.app = app;
    this.el = h("div", { class: "coverage scroll", tabindex: "0" });
  }

  async update() {
    const { app } = this, { model } = app;
    const what = `${model.id} ${model.size} ${model.state.running}`;
    if (what === this.what || this.asking) return;
    this.asking = true;
    try {
      const answer = await json(`tables/${model.id}/coverage`);
      if (app.model !== model) return;
      this.show(model, answer);
      this.what = what;
    } catch (err) {
      app.trouble(err);
    } finally {
      this.asking = false;
    }
  }

  // reasons is a list of words with how many functions have each; a click shows these.
  reasons(title, words, model, object) {
    const list = Object.entries(words).sort((a, b) => b[1] - a[1]);
    if (list.length === 0) return null;
    return h("section", {}, h("h3", {}, title), h("table", { class: "reasons" }, h("tbody", {}, ...list.map(([word, n]) => {
      const why = model.words.find((w) => w.word === word)?.why ?? "";
      return h("tr", {}, h("td", { class: "right" }, thousands(n)), h("td", {}, h("button", { class: "link", click: () => this.app.set({ v: "functions", w: word, all: "1", o: object, q: "" }, true) }, word)), h("td", { class: "dim" }, why));
    }))));
  }

  show(model, answer) {
    const objects = answer.objects.filter((o) => o.functions > 0 || o.selected);
    const left = answer.objects.filter((o) => !(o.functions > 0 || o.selected));
    const t = answer.total;
    const row = (o) => {
      const selected = o.functions - o.not_selected;
      const bar = h("div", { class: "ratio", title: `${thousands(o.counted)} of ${thousands(selected)}` }, h("i"));
      bar.firstChild.style.transform = `scaleX(${selected > 0 ? o.counted / selected : 0})`;
      return h("tr", {}, h("td", { title: o.object }, base(o.object)), h("td", { class: "right" }, thousands(o.functions)), h("td", { class: "right" }, thousands(o.counted)), h("td", { class: "right" }, o.percent === null ? "–" : o.percent.toFixed(2) + "%"), h("td", {}, bar),
        h("td", { class: "dim" }, Object.entries(o.tactics).sort((a, b) => b[1] - a[1]).map(([w, n]) => `${w} ${thousands(n)}`).join(", ")),
        h("td", { class: "right" }, o.untold_bytes >= 16 ? thousands(o.untold_bytes) : ""));
    };
    this.table = answer.objects;
    const selected = t.functions - t.not_selected;
    this.el.replaceChildren(
      h("section", { class: "big" }, h("b", {}, t.percent === null ? "–" : t.percent.toFixed(2) + "%"), h("span", {}, `${thousands(t.counted)} of ${count(selected, "function")} are counted${sum(t.uncounted) === 0 ? "" : `; ${thousands(sum(t.uncounted))} are not`}.`)),
      this.reasons("Not counted", t.uncounted, model, "") ?? "",
      this.reasons("Counted by", t.tactics, model, "") ?? "",
      this.reasons("No functions, or never to be changed", t.excluded, model, "") ?? "",
      h("section", {}, h("h3", {}, "Objects"), h("table", { class: "objects" }, h("thead", {}, h("tr", {}, ...["Object", "Functions", "Counted", "", "", "By", "Bytes in no function"].map((x, i) => h("th", { class: [1, 2, 3, 6].includes(i) ? "right" : "" }, x)))), h("tbody", {}, ...objects.map(row)))),
      left.length > 0 ? h("section", {}, h("h3", {}, "Objects that were left out"), h("table", { class: "reasons" }, h("tbody", {}, ...left.map((o) => h("tr", {}, h("td", { title: o.object }, o.object), h("td", {}, o.reason)))))) : "");
  }

  key() { return false; }
  rows() { return (this.table ?? []).map((o) => ({ object: o.object, functions: o.functions, counted: o.counted, percent: o.percent ?? "", uncounted: sum(o.uncounted), not_selected: o.not_selected, untold_bytes: o.untold_bytes })); }
}
