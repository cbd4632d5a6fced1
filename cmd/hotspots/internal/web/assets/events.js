// Functions that became hot, the latest first.
import { json } from "./api.js";
import { h, text } from "./dom.js";
import { matcher, shorten, thousands } from "./format.js";
import { List } from "./list.js";

export class Events {
  constructor(app) {
    this.app = app;
    this.events = [];
    this.list = new List({ label: "Functions that became hot", onSelect: (line) => app.select(this.shown[line].function), onOpen: (line) => app.openDetail(this.shown[line].function), onSort: () => {} });
    this.el = h("div", { class: "stack" }, (this.note = h("p", { class: "note" })), this.list.el);
    this.shown = [];
  }

  name(e) { return e.function < 0 ? "a function that came later" : this.app.model.names[e.function]; }

  async update() {
    const { app } = this, { model } = app;
    const what = `${model.id} ${model.state.events} ${model.reading}`;
    if (what !== this.what && !this.asking) {
      this.asking = true;
      try {
        const answer = await json(`tables/${model.id}/events`);
        if (app.model !== model) return;
        this.what = what;
        this.events = answer.events.reverse();
        this.all = answer.all;
      } catch (err) {
        app.trouble(err);
      } finally {
        this.asking = false;
      }
    }
    const matches = matcher(app.state.q);
    this.shown = this.events.filter((e) => matches(this.name(e)));
    if (this.list.columns.length === 0) {
      this.list.setColumns([
        { key: "time", title: "Time", width: "8rem", fill: (c, l) => { const e = this.shown[l]; text(c, new Date(e.time).toLocaleTimeString("en-GB") + "." + String(Math.floor(e.time % 1000)).padStart(3, "0")); } },
        { key: "calls", title: "Calls", width: "9rem", right: true, fill: (c, l) => text(c, thousands(this.shown[l].calls)) },
        { key: "thread", title: "Thread", width: "6rem", right: true, fill: (c, l) => text(c, String(this.shown[l].tid)) },
        { key: "outcome", title: "Translator", width: "8rem", class: "object", fill: (c, l) => text(c, this.shown[l].outcome) },
        { key: "name", title: "Function", width: "minmax(8rem, 1fr)", class: "name", fill: (c, l) => { const n = this.name(this.shown[l]); text(c, shorten(n)); c.title = n; } },
      ], null);
    }
    const { threshold } = model.state;
    text(this.note, this.all > this.events.length ? `The last ${thousands(this.events.length)} of ${thousands(this.all)}; hotspots events has all.` : threshold > 0 ? `A function becomes hot at ${thousands(threshold)} calls.` : "");
    this.list.show(this.shown.length, threshold > 0 || this.all > 0 ? "No function has become hot yet." : "To be told when functions become hot, start the program with: hotspots run --threshold 100000 -- PROG");
  }

  key(e) { return this.list.key(e); }
  rows() { return this.shown.map((e) => ({ time: new Date(e.time).toISOString(), calls: BigInt(e.calls), tid: e.tid, outcome: e.outcome, name: this.name(e) })); }
}
