// All that is known of one function.
import { json, Refused } from "./api.js";
import { h, text } from "./dom.js";
import { nanoseconds, share, short, thousands } from "./format.js";
import { points } from "./model.js";

const most = { threads: 12, edges: 12 }; // that are shown at first

export class Detail {
  constructor(app, el) {
    this.app = app;
    this.el = el;
    this.facts = h("dl");
    this.name = h("h2");
    this.more = h("div");
    el.append(h("div", { class: "bar" }, h("span", { class: "label" }, "Function"), h("button", { click: () => this.copy(), title: "copy the name" }, "copy"), h("button", { click: () => app.set({ d: "" }), title: "Esc", "aria-label": "close" }, "✕")), this.name, this.facts, this.more);
  }

  copy() { navigator.clipboard?.writeText(this.app.model.names[this.app.state.f]); }

  // update shows what is known, and has the rest read where that is due.
  update() {
    const { state, model } = this.app;
    const open = state.d !== "" && state.f >= 0 && state.f < model.size;
    if (this.el.hidden === open) {
      this.el.hidden = !open;
      document.body.classList.toggle("detailed", open);
    }
    if (!open) return;
    const i = state.f, reason = model.words[model.reason[i]];
    text(this.name, model.names[i]);
    const facts = [
      ["Calls", model.isCounted(i) ? `${thousands(model.calls[i])}  (${share(model.calls[i], model.total)} of all)` : "not counted"],
      ["Now", model.state.running ? `${short(model.rates[i])} a second` : "the program has ended"],
    ];
    if (model.since(i) !== null) facts.push([model.range ? "In range" : "Since mark", thousands(model.since(i))]);
    if (model.times) facts.push(["CPU time", `${nanoseconds(model.times[i])}, ${share(model.times[i], model.totalTime)} of all, sampled`]);
    facts.push(["Object", model.objects[model.object[i]].path], ["Address", `0x${model.addresses[i]}, ${thousands(model.bytes[i])} bytes`]);
    if (model.aliases[i]) facts.push(["Aliases", model.aliases[i].split("\n").join(", ")]);
    facts.push(["Known by", model.words[model.source[i]].word], reason.word === "" ? ["Counted by", model.words[model.tactic[i]].word] : ["Not counted", `${reason.word}${reason.why ? ": " + reason.why : ""}`]);
    if (model.hot.has(i)) facts.push(["Hot", "it has crossed its threshold"]);
    const shape = facts.map((f) => f[0]).join();
    if (shape !== this.shape) {
      this.shape = shape;
      this.facts.replaceChildren(...facts.flatMap(([k]) => [h("dt", {}, k), h("dd")]));
    }
    this.facts.querySelectorAll("dd").forEach((dd, k) => text(dd, facts[k][1]));
    this.read(model, i);
  }

  async read(model, i) {
    const what = `${model.id} ${i}`;
    const due = what !== this.what || (model.state.running && performance.now() - this.at > 2000 && !this.app.frozen);
    if (!due || this.asking === what) return;
    if (what !== this.what) this.more.replaceChildren(h("p", { class: "note" }, "reading …"));
    this.asking = this.what = what;
    this.at = performance.now();
    try {
      const d = await json(`tables/${model.id}/functions/${i}`);
      if (this.what === what) this.show(d);
    } catch (err) {
      if (this.what === what && err instanceof Refused) this.more.replaceChildren(h("p", { class: "note" }, err.message));
      this.app.trouble(err);
    } finally {
      if (this.asking === what) this.asking = "";
    }
  }

  section(title, note, rows, key) {
    const all = this.open?.has(key);
    const shown = all ? rows : rows.slice(0, most.edges);
    const rest = rows.length - shown.length;
    return h("section", {}, h("h3", {}, title), note ? h("p", { class: "note" }, note) : null,
      rows.length > 0 ? h("table", {}, h("tbody", {}, ...shown)) : null,
      rest > 0 ? h("button", { class: "link", click: () => { (this.open ??= new Set()).add(key); this.show(this.last); } }, `${thousands(rest)} more`) : null);
  }

  show(d) {
    this.last = d;
    const at = this.more.querySelector("pre")?.scrollTop ?? 0;
    const threads = d.threads.map((t) => h("tr", {}, h("td", { class: "right" }, thousands(t.calls)), h("td", {}, t.pid === 0 ? "threads that nobody has told apart" : `${t.pid} / ${t.tid}${t.tid === t.pid ? " (first)" : ""}`)));
    const edges = (list) => list.map((e) => h("tr", {}, h("td", { class: "right" }, thousands(e.calls)), h("td", { class: "dim" }, e.kind), h("td", { class: "wrap" }, e.name)));
    const code = h("pre", { tabindex: "0" }, ...d.code.flatMap((l) => [l.hot ? h("mark", {}, l.text) : l.text, "\n"]));
    this.more.replaceChildren(
      this.section("By thread (process / thread)", d.shared ? "Some of these had others before them." : "", threads, "threads"),
      this.section("Callers", d.no_edges, edges(d.callers), "callers"),
      d.no_edges ? "" : this.section("Callees", "", edges(d.callees), "callees"),
      h("section", {}, h("h3", {}, "Code"), d.no_code ? h("p", { class: "note" }, d.no_code) : code));
    code.scrollTop = at;
  }
}

// Line is the timeline of the selected function.
export class Line {
  constructor(app) {
    this.app = app;
    this.of = "";
  }

  // follow has it read if another function is selected, soon: who runs over many wants none.
  follow() {
    const { state, model } = this.app;
    const what = state.f >= 0 ? `${model.id} ${state.f}` : "";
    if (what === this.of) return;
    this.of = what;
    this.points = null;
    clearTimeout(this.timer);
    if (what !== "") this.timer = setTimeout(() => this.read(what, model, state.f), 120);
  }

  async read(what, model, i) {
    try {
      const line = await json(`tables/${model.id}/timeline?function=${i}`);
      if (this.of !== what) return;
      this.points = points(line);
      this.app.render();
    } catch (err) {
      this.app.trouble(err);
    }
  }

  // add adds what a reading tells.
  add(from, to, rate) {
    const p = this.points;
    if (!p || (p.to.length > 0 && to <= p.to[p.to.length - 1])) return;
    p.from.push(from);
    p.to.push(to);
    p.rates.push(rate);
  }
}
