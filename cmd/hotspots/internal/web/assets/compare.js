// How the calls of two tables differ. More is orange, fewer blue, and both have their signs.
import { json } from "./api.js";
import { h, text } from "./dom.js";
import { base, count, matcher, shorten, thousands } from "./format.js";
import { List } from "./list.js";

const orders = { delta: false, before: false, after: false, name: true };
const size = (n) => (n < 0n ? -n : n);
const signed = (n) => (n < 0n ? "−" : n > 0n ? "+" : "") + thousands(size(n));

export class Compare {
  constructor(app) {
    this.app = app;
    this.before = h("select", { "aria-label": "before", change: () => app.set({ a: this.before.value }) });
    this.after = h("select", { "aria-label": "after", change: () => app.set({ b: this.after.value }) });
    this.note = h("span", { class: "note" });
    this.list = new List({ label: "Functions that differ", onSelect: () => {}, onOpen: (line) => this.open(line), onSort: (key) => this.sortBy(key) });
    this.el = h("div", { class: "stack" },
      h("div", { class: "choose" }, h("label", {}, "before ", this.before), h("button", { title: "the other way round", click: () => app.set({ a: this.b, b: this.a }) }, "⇄"), h("label", {}, "after ", this.after), h("button", { click: () => this.read(true) }, "compare anew"), this.note),
      this.list.el);
    this.shown = [];
    this.sorted = { key: "delta", up: false };
  }

  // As on the command line: before, after.
  get a() { return this.app.state.a || (this.app.tables.length > 1 ? this.app.tables[0].id : ""); }
  get b() { return this.app.state.b || this.app.tables.find((t) => t.id !== this.a)?.id || ""; }

  choices() {
    const what = JSON.stringify([this.app.tables.map((t) => [t.id, t.state]), this.app.others.map((t) => t.id), this.a, this.b]);
    if (what === this.chosen) return;
    this.chosen = what;
    for (const [select, at] of [[this.before, this.a], [this.after, this.b]]) {
      select.replaceChildren(h("option", { value: "" }, "choose a table"), ...this.app.options());
      select.value = at;
    }
  }

  async read(again = false) {
    const { a, b } = this;
    const what = `${a} ${b}`;
    if (a === "" || b === "" || this.asking || (!again && what === this.what)) return;
    this.asking = true;
    text(this.note, "comparing …");
    try {
      await this.app.openTables([a, b]);
      const d = await json(`diff?before=${a}&after=${b}`);
      const names = d.names === "" ? [] : d.names.split("\n");
      this.all = names.map((name, i) => ({ name, object: d.objects[d.object[i]], before: BigInt(d.calls_before[i]), after: BigInt(d.calls_after[i]), delta: BigInt(d.calls_after[i]) - BigInt(d.calls_before[i]) }));
      this.largest = Number(this.all.reduce((m, c) => (size(c.delta) > m ? size(c.delta) : m), 1n));
      this.what = what;
      const delta = BigInt(d.after.total) - BigInt(d.before.total);
      text(this.note, `${thousands(d.before.total)} → ${thousands(d.after.total)} calls (${signed(delta)}); ${count(names.length, "function differs", "functions differ")}, ${thousands(d.same)} do not${(d.unread ?? []).map((line) => "; " + line).join("")}`);
      this.failed = "";
    } catch (err) {
      this.all = [];
      this.what = what;
      this.failed = err.message;
      text(this.note, "");
    } finally {
      this.asking = false;
    }
    this.show();
  }

  sortBy(key) {
    this.sorted = { key, up: this.sorted.key === key ? !this.sorted.up : orders[key] };
    this.app.set({ cs: (this.sorted.up !== orders[key] ? "-" : "") + key });
    this.show();
  }

  columns() {
    const of = (line) => this.shown[line];
    const wide = (this.el.clientWidth || innerWidth) > 800;
    return [
      { key: "before", title: "Before", width: "9.5rem", right: true, sort: "before", fill: (c, l) => { text(c, thousands(of(l).before)); c.classList.toggle("dim", of(l).before === 0n); } },
      { key: "after", title: "After", width: "9.5rem", right: true, sort: "after", fill: (c, l) => { text(c, thousands(of(l).after)); c.classList.toggle("dim", of(l).after === 0n); } },
      { key: "delta", title: "Difference", width: "10rem", right: true, sort: "delta", fill: (c, l) => { const d = of(l).delta; text(c, signed(d)); c.classList.toggle("warm", d > 0n); c.classList.toggle("cool", d < 0n); } },
      { key: "change", title: "Change", width: "6rem", right: true, fill: (c, l) => { const { before, after, delta } = of(l); text(c, before === 0n ? "new" : after === 0n ? "gone" : (delta > 0n ? "+" : "−") + ((Number(size(delta)) / Number(before)) * 100).toFixed(1) + "%"); } },
      ...(wide ? [{ key: "bar", title: "", width: "100px", class: "diverging", make: (c) => c.append(h("i")), fill: (c, l) => { const d = Number(of(l).delta) / this.largest; c.firstChild.style.transform = `scaleX(${Math.sign(d) * Math.sqrt(Math.abs(d))})`; c.firstChild.className = d < 0 ? "cool" : "warm"; } }, { key: "object", title: "Object", width: "10rem", class: "object", fill: (c, l) => { text(c, base(of(l).object)); c.title = of(l).object; } }] : []),
      { key: "name", title: "Function", width: "minmax(8rem, 1fr)", class: "name", sort: "name", fill: (c, l) => { text(c, shorten(of(l).name)); c.title = of(l).name; } },
    ];
  }

  show() {
    const cs = this.app.state.cs;
    if (cs) {
      const key = cs.replace(/^-/, "");
      if (key in orders) this.sorted = { key, up: orders[key] !== cs.startsWith("-") };
    }
    const matches = matcher(this.app.state.q);
    const { key, up } = this.sorted;
    const by = { delta: (x, y) => order(size(y.delta), size(x.delta)), before: (x, y) => order(y.before, x.before), after: (x, y) => order(y.after, x.after), name: (x, y) => order(y.name, x.name) }[key];
    this.shown = (this.all ?? []).filter((c) => matches(c.name) || matches(c.object));
    this.shown.sort((x, y) => (up ? -1 : 1) * by(x, y) || order(y.after, x.after) || order(x.name, y.name));
    this.list.setColumns(this.columns(), this.sorted);
    this.list.show(this.shown.length, this.failed || (this.a === "" || this.b === "" ? "Choose two tables, or start hotspots web with both: hotspots web yesterday.dynprof today.dynprof" : this.asking ? "" : this.all?.length ? "Nothing that differs has that in its name." : "No function differs."));
  }

  update() {
    this.choices();
    if (`${this.a} ${this.b}` !== this.what) this.read();
    const what = [this.what, this.app.state.q, this.app.state.cs, this.el.clientWidth > 800].join("\0");
    if (what !== this.drawn) {
      this.drawn = what;
      this.show();
    }
  }

  open(line) {
    const c = this.shown[line], { model } = this.app;
    const i = model.names.findIndex((name, k) => name === c.name && model.objects[model.object[k]].path === c.object);
    if (i >= 0) this.app.openDetail(i);
  }

  key(e) { return this.list.key(e); }
  rows() { return this.shown.map((c) => ({ object: c.object, name: c.name, calls_before: c.before, calls_after: c.after, delta: c.delta })); }
}

const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
