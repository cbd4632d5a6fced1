// The page: what is shown, of which table, and what keys do. All that a link is to keep is in
// the address behind the #.
import { json, Refused } from "./api.js";
import { Compare } from "./compare.js";
import { Coverage } from "./coverage.js";
import { Memory } from "./memory.js";
import { Detail, Line } from "./detail.js";
import { h, save, text } from "./dom.js";
import { Events } from "./events.js";
import { base, clock, count, moment, short, thousands } from "./format.js";
import { Functions } from "./functions.js";
import { Help } from "./help.js";
import { Map_ } from "./map.js";
import { Model, points } from "./model.js";
import { Threads } from "./threads.js";
import { Timeline } from "./timeline.js";

// defaults is the state that a link keeps, as it is without one: table, view, text looked
// for, order, object, reason or tactic, all functions, only new ones, function, its details,
// range, namespace in the map, tables that are compared, their order, what the map measures,
// time that is shown, no timeline; of memory instructions and addresses that are shown, all
// that is mapped, resident pages.
const defaults = { t: "", v: "functions", q: "", s: "", o: "", w: "", all: "", n: "", f: -1, d: "", r: "", z: "", a: "", b: "", cs: "", m: "", span: "", h: "", mx: "", my: "", mm: "", mr: "", mf: "", mt: "", mn: "", mw: "", mo: "", mi: "" };

// forms are those of what is no free text: a link may say anything.
const forms = { s: /^-?(rate|calls|since|time|object|name|size)$/, cs: /^-?(delta|before|after|name)$/, m: /^(calls|rate|since)$/, span: /^(1|10)$/, r: /^\d{1,15}-\d{1,15}$/, all: /^1$/, n: /^1$/, d: /^1$/, h: /^1$/, f: /^\d{1,9}$/, mx: /^(\d{1,15}-\d{0,15}|l\d{1,15})$/, my: /^[0-9a-f]{1,12}-[0-9a-f]{0,12}$/, mm: /^1$/, mr: /^1$/, mf: /^1$/, mt: /^1$/, mw: /^1$/, mo: /^1$/, mn: /^0$/, mi: /^0$/, v: /^(functions|map|threads|events|coverage|compare|memory)$/ };

const titles = { functions: "Functions", map: "Map", threads: "Threads", events: "Events", coverage: "Coverage", compare: "Compare", memory: "Memory" };

class App {
  constructor() {
    this.state = this.readLink();
    this.tables = [];
    this.others = [];
    this.model = null;
    this.frozen = false;
    this.views = { functions: new Functions(this), map: new Map_(this), threads: new Threads(this), events: new Events(this), coverage: new Coverage(this), compare: new Compare(this), memory: new Memory(this) };
    this.timeline = new Timeline(this, document.getElementById("timeline"));
    this.detail = new Detail(this, document.getElementById("detail"));
    this.line = new Line(this);
    this.help = new Help();
    this.main = document.getElementById("main");
    this.foot = h("span");
    document.getElementById("foot").append(this.foot, ...[["/", "search"], ["j k", "move"], ["Enter", "details"], ["s", "sort"], ["m", "mark"], ["z", "freeze"], ["?", "help"]].map(([k, what]) => h("span", { class: "hint" }, h("kbd", {}, k), " " + what)));
    this.makeTop();
    this.makeBar();
    this.theme(localStorage.getItem("hotspots.theme") ?? "");
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (e) => this.key(e));
    addEventListener("visibilitychange", () => { if (!document.hidden) this.wake?.(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    new ResizeObserver(() => { if (this.model?.state) this.render(); }).observe(this.main);
  }

  // The link.

  readLink() {
    const hash = new URLSearchParams(location.hash.slice(1));
    const state = { ...defaults };
    for (const k of Object.keys(defaults)) if (hash.has(k) && (forms[k]?.test(hash.get(k)) ?? true)) state[k] = hash.get(k);
    state.f = Number(state.f);
    return state;
  }

  writeLink(push) {
    const hash = new URLSearchParams();
    for (const [k, v] of Object.entries(this.state)) if (v !== defaults[k]) hash.set(k, v);
    const url = "#" + hash;
    if (url !== location.hash) history[push ? "pushState" : "replaceState"](null, "", url);
  }

  // follow shows what the link says after the user has gone back, or changed it.
  follow() {
    const table = this.state.t;
    this.state = this.readLink();
    this.search.value = this.state.q;
    if (this.state.t !== table) this.start(this.state.t);
    else {
      if (this.state.r === "" && this.model) this.model.range = null;
      this.render(true);
    }
  }

  set(changes, push = false) {
    Object.assign(this.state, changes);
    if ("q" in changes && this.search.value !== changes.q) this.search.value = changes.q;
    this.writeLink(push || "v" in changes || "t" in changes);
    this.render(true);
  }

  // Reading.

  async run() {
    for (;;) {
      try {
        await this.list();
        await this.start(this.state.t);
        break;
      } catch (err) {
        this.trouble(err);
        await this.sleep(1000);
      }
    }
    setInterval(() => { if (!document.hidden) this.list().catch((err) => this.trouble(err)); }, 3000);
    for (;;) {
      let wait = 1000;
      const { model } = this;
      try {
        if (!this.frozen) {
          const before = model.reading, time = model.time;
          wait = await model.read();
          this.trouble(null);
          if (model === this.model && model.reading !== before) {
            if (model.points.to.length > 4096) await this.thin(model);
            if (this.state.f >= 0) this.line.add(time, model.time, model.rates[this.state.f]);
            this.render();
          } else if (model === this.model) this.renderTop();
        }
      } catch (err) {
        this.trouble(err);
      }
      await this.sleep(Math.min(2000, Math.max(100, wait + 20)));
      while (document.hidden) await this.sleep(1e9); // all that came meanwhile is in the next reading
    }
  }

  // thin takes the timeline anew from the server, which puts its older half together.
  async thin(model) {
    model.points = points(await json(`tables/${model.id}/timeline`));
    this.line.of = "";
  }

  sleep(ms) {
    return new Promise((done) => {
      const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
      this.wake = () => { clearTimeout(timer); done(); };
    });
  }

  async list() {
    const answer = await json("tables");
    this.tables = answer.tables;
    this.others = answer.others;
    this.moreOthers = answer.more;
    this.trouble(null);
    this.fillChoice();
  }

  // start shows a table: the one named, or the first.
  async start(id) {
    if (id !== "" && !this.tables.some((t) => t.id === id) && this.others.some((t) => t.id === id)) await this.openTables([id]);
    const known = this.tables.find((t) => t.id === id);
    if (id !== "" && !known) this.say(`The table of this link, ${id}, is not open here: it is another one that is shown.`);
    const model = new Model((known ?? this.tables[0]).id);
    for (;;) {
      try {
        await model.load();
        break;
      } catch (err) {
        if (!(err instanceof Refused && err.status === 503)) throw err;
        await this.sleep(100);
      }
    }
    this.model = model;
    this.state.t = this.tables.length > 1 || known ? model.id : "";
    const range = /^(\d+)-(\d+)$/.exec(this.state.r);
    if (range) await model.setRange(Number(range[1]), Number(range[2]));
    this.writeLink(false);
    this.fillChoice();
    this.render(true);
    performance.mark("shown");
  }

  async openTables(ids) {
    for (const id of ids) if (!this.tables.some((t) => t.id === id)) await json(`tables/${id}`, "POST");
    await this.list();
  }

  async switchTo(id) {
    this.frozen = false;
    const { v, s, all, a, b, m, span } = this.state;
    this.state = { ...defaults, t: id, v, s, all, a, b, m, span };
    this.search.value = "";
    try {
      await this.start(id);
    } catch (err) {
      this.trouble(err, true);
    }
  }

  // trouble says what is wrong, until it is right again.
  trouble(err, loud = false) {
    if (err === null) {
      if (this.away) this.message.hidden = true;
      this.away = false;
      return;
    }
    if (err instanceof Refused && err.status !== 403) {
      if (loud) this.say(err.message);
      return;
    }
    if (!(err instanceof Refused) && !(err instanceof TypeError)) {
      console.error(err);
      this.say(`BUG: ${err.message}`);
      return;
    }
    this.away = true;
    text(this.message.firstChild, err instanceof Refused ? err.message : "hotspots web does not answer: it has ended, or the connection is gone. What is shown stays; it goes on when it answers again.");
    this.message.hidden = false;
  }

  // say shows a message for a while.
  say(message) {
    text(this.message.firstChild, message);
    this.message.hidden = false;
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => { if (!this.away) this.message.hidden = true; }, 8000);
  }

  // What is around the view.

  makeTop() {
    this.choice = h("select", { id: "choice", "aria-label": "table", change: () => this.switchTo(this.choice.value) });
    this.status = h("span", { class: "status" });
    this.figures = { rate: h("b"), total: h("b"), threads: h("b"), functions: h("b") };
    this.remarks = h("div", { class: "remarks", role: "status" });
    this.message = h("div", { class: "message", role: "alert", hidden: true }, h("span"), h("button", { click: () => { this.message.hidden = true; }, "aria-label": "close" }, "✕"));
    const figure = (el, name) => h("div", { class: "figure" }, el, h("span", {}, name));
    this.threads = h("span");
    document.getElementById("top").append(
      h("div", { class: "line" }, h("a", { class: "brand", href: "#", title: "the first view", click: (e) => { e.preventDefault(); this.set({ ...defaults, t: this.state.t }); this.clearRange(); } }, h("img", { src: "icon.svg", alt: "", width: 20, height: 20 }), "hotspots"),
        this.choice, this.status,
        h("div", { class: "figures" }, figure(this.figures.rate, "calls/s"), figure(this.figures.total, "calls"), h("div", { class: "figure" }, this.figures.threads, this.threads), figure(this.figures.functions, "called"))),
      this.remarks, this.message);
  }

  options() {
    // Its file's name is told where that is not made of the program's.
    const file = (t) => { const name = base(t.table).replace(/\.dynprof$/, ""); return name === `${base(t.program)}.${t.pid}` ? "" : name + ", "; };
    const option = (t, state) => h("option", { value: t.id }, `${base(t.program || t.table)} ${t.pid || ""}: ${file(t)}${state}`);
    const others = this.others.map((t) => option(t, `${t.status}, ${new Date(t.started).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "short" })}`));
    if (this.moreOthers > 0) others.push(h("option", { disabled: true }, `and ${thousands(this.moreOthers)} older: name them on the command line`));
    return [h("optgroup", { label: "Open here" }, ...this.tables.map((t) => option(t, t.state || t.error))), ...(others.length > 0 ? [h("optgroup", { label: "Other tables of yours" }, ...others)] : [])];
  }

  fillChoice() {
    const what = JSON.stringify([this.tables.map((t) => [t.id, t.state]), this.others.map((t) => [t.id, t.status]), this.model?.id]);
    if (what === this.choices || document.activeElement === this.choice) return;
    this.choices = what;
    this.choice.replaceChildren(...this.options());
    if (this.model) this.choice.value = this.model.id;
  }

  makeBar() {
    this.tabs = h("div", { role: "tablist", class: "tabs" }, ...Object.entries(titles).map(([v, title], i) => h("button", { role: "tab", "data-view": v, title: `${i + 1}`, click: () => this.set({ v }) }, title, h("sup"))));
    this.search = h("input", { type: "search", placeholder: "Search   /", "aria-label": "search names", spellcheck: false, autocomplete: "off", input: () => this.typed() });
    this.search.value = this.state.q;
    this.chips = h("div", { class: "chips" });
    this.menu = h("div", { class: "menu", id: "export", popover: "auto", toggle: () => { this.menu.style.top = `${this.exporting.getBoundingClientRect().bottom + 4}px`; } }, h("button", { click: () => this.export("csv") }, "CSV"), h("button", { click: () => this.export("json") }, "JSON"), (this.png = h("button", { click: () => this.export("png") }, "PNG")));
    const button = (title, label, click) => h("button", { title, "aria-label": title, click }, label);
    document.getElementById("bar").append(this.tabs, this.search, this.chips, h("div", { class: "tools" },
      (this.exporting = h("button", { title: "save what is shown (x)", popovertarget: "export" }, "Export")), this.menu,
      button("dark or light (d)", h("i", { class: "moon" }), () => this.nextTheme()), button("help (?)", "?", () => this.help.show())));
  }

  // typed looks for what has been typed, when it has been.
  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.set({ q: this.search.value }), this.model?.size > 20_000 ? 60 : 0);
  }

  theme(name) {
    document.documentElement.dataset.theme = name;
    localStorage.setItem("hotspots.theme", name);
    this.restyle();
  }

  nextTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, now = document.documentElement.dataset.theme;
    const shown = now || (dark ? "dark" : "light");
    const other = shown === "dark" ? "light" : "dark";
    this.theme(other === (dark ? "dark" : "light") ? "" : other);
  }

  restyle() {
    this.timeline.restyle();
    if (this.model?.state) this.render(true);
  }

  // What is measured in the map.
  measure() {
    const { m } = this.state;
    if (m) return m === "since" && !this.model.range && !this.model.mark ? "calls" : m;
    return this.model.range || this.model.mark ? "since" : "calls";
  }

  renderTop() {
    const { model } = this, { state } = model;
    const ended = !state.running;
    text(this.status, this.frozen ? `frozen at ${moment(model.time)}` : ended ? state.state : `${state.state}  ${clock((state.time - state.started) / 1000)}`);
    this.status.className = "status" + (this.frozen ? " frozen" : ended ? " ended" : " running");
    this.figures.rate.parentNode.hidden = ended;
    text(this.figures.rate, short(model.rate));
    text(this.figures.total, thousands(state.total));
    text(this.figures.threads, thousands(state.threads));
    text(this.threads, state.threads === 1 ? "thread" : "threads");
    let called = 0;
    for (const n of model.sortable) if (n > 0) called++;
    text(this.figures.functions, `${thousands(called)} of ${thousands(model.size)}`);
    const remarks = [...state.remarks, ...(state.error ? [state.error] : []), ...(state.reset ? [`The counts were reset at ${moment(state.reset)}.`] : [])];
    if (this.remarks.textContent !== remarks.join("")) this.remarks.replaceChildren(...remarks.map((r) => h("p", {}, r)));
    document.title = `${base(state.program)}${ended ? "" : ` ${short(model.rate)}/s`} – hotspots`;
  }

  renderBar() {
    const { state, model } = this;
    for (const tab of this.tabs.children) {
      tab.setAttribute("aria-selected", String(tab.dataset.view === state.v));
      if (tab.dataset.view === "events") text(tab.lastChild, model.state.events > 0 ? thousands(model.state.events) : "");
    }
    const chips = [];
    const chip = (label, title, undo) => chips.push([label, title, undo]);
    if (state.o) chip(state.o, "only this object", () => this.set({ o: "" }));
    if (state.w) chip(state.w, "only these", () => this.set({ w: "", all: "" }));
    if (model.range) chip(`${((model.range.to - model.range.from) / 1000).toFixed(1)} s from ${moment(model.range.from)}`, "calls in this range of time", () => this.clearRange());
    if (model.mark) chip(`since ${moment(model.mark.time)}`, "calls since the mark", () => this.unmark());
    if (state.n) chip("new ones", "functions that were called for the first time since the mark", () => this.set({ n: "" }));
    const toggles = [];
    if (state.v === "functions" && !state.w) toggles.push(["all functions", "also those that were not called (c)", state.all !== "", () => this.set({ all: state.all ? "" : "1" })]);
    if (state.v === "map") {
      const now = this.measure();
      for (const [m, title] of [["calls", "calls"], ["rate", "calls/s"], ...(model.range || model.mark ? [["since", model.range ? "in range" : "since mark"]] : [])]) toggles.push([title, "what is measured", now === m, () => this.set({ m })]);
    }
    const what = JSON.stringify([chips, toggles]);
    if (what !== this.chipped) {
      this.chipped = what;
      this.chips.replaceChildren(...toggles.map(([label, title, on, click]) => h("button", { class: "toggle", title, "aria-pressed": String(on), click }, label)), ...chips.map(([label, title, click]) => h("button", { class: "chip", title: title + ": click to undo", click }, label, h("i", {}, "✕"))));
    }
    text(this.foot, state.v === "functions" ? count(this.views.functions.order.length, "function") : "");
    this.png.hidden = state.v !== "map" && state.v !== "memory";
  }

  // render shows what is known. force: the user has asked for it.
  render(force = false) {
    const { model, state } = this;
    if (!model?.state || !model.names) return;
    document.body.dataset.view = state.v;
    this.renderTop();
    const view = this.views[state.v];
    if (state.v !== "memory") this.views.memory.leave();
    if (this.main.firstChild !== view.el) {
      this.main.replaceChildren(view.el);
      if (document.activeElement === document.body) this.focus();
    }
    this.line.follow();
    this.timeline.of(this.line.points);
    this.timeline.update();
    this.detail.update();
    view.update(force);
    this.renderBar();
  }

  focus() { (this.main.querySelector(".list, canvas, .scroll") ?? this.main).focus({ preventScroll: true }); }

  // What the user does.

  select(i) {
    if (i === undefined || i < 0 || i === this.state.f) return;
    this.state.f = i;
    this.writeLink(false);
    this.line.follow();
    this.timeline.of(this.line.points);
    this.timeline.update();
    this.detail.update();
  }

  openDetail(i) {
    if (i >= 0) this.set({ f: i, d: "1" });
  }

  async setRange(from, to) {
    const { model } = this;
    try {
      await model.setRange(from, to);
      this.state.r = `${Math.floor(model.range.from)}-${Math.ceil(model.range.to)}`;
      this.set({ s: this.state.s || "since" });
    } catch (err) {
      this.trouble(err, true);
    }
  }

  clearRange() {
    if (!this.model?.range) return;
    this.model.range = null;
    this.set({ r: "", s: this.state.s === "since" && !this.model.mark ? "" : this.state.s });
  }

  mark() {
    this.model.setMark();
    this.model.range = null;
    this.set({ r: "", s: "since" });
  }

  unmark() {
    this.model.mark = null;
    this.set({ n: "", s: this.state.s === "since" ? "" : this.state.s });
  }

  async export(kind) {
    this.menu.hidePopover();
    const view = this.views[this.state.v];
    const name = `hotspots-${base(this.model.state.program)}-${this.state.v}`;
    if (kind === "png") {
      view.canvas?.toBlob((blob) => save(name + ".png", blob));
      return;
    }
    const rows = view.rows(), head = Object.keys(rows[0] ?? {});
    const plain = (v) => (typeof v === "bigint" ? `${v}` : v);
    if (kind === "json") {
      // Counts are integers, as everywhere in docs/json.md; JSON.stringify knows none so large.
      const lines = rows.map((r) => "{" + head.map((k) => JSON.stringify(k) + ":" + (typeof r[k] === "bigint" ? r[k] : JSON.stringify(r[k]))).join(",") + "}");
      const { program, pid, total } = this.model.state;
      save(name + ".json", new Blob([`{"schema":1,"program":${JSON.stringify(program)},"pid":${pid},"total_calls":${total},"view":"${this.state.v}","rows":[\n${lines.join(",\n")}\n]}\n`], { type: "application/json" }));
      return;
    }
    const cell = (v) => (/[",\n\r]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
    save(name + ".csv", new Blob([[head, ...rows.map((r) => head.map((k) => String(plain(r[k]))))].map((r) => r.map(cell).join(",") + "\n").join("")], { type: "text/csv" }));
  }

  back() {
    const { state, model } = this;
    if (state.d) this.set({ d: "" });
    else if (this.views[state.v].key({ key: "Escape" })) return;
    else if (model.range) this.clearRange();
    else if (state.w || state.o || state.n) this.set({ w: "", o: "", n: "", all: state.w ? "" : state.all });
    else if (state.q) this.set({ q: "" });
    else if (state.f >= 0) this.set({ f: -1 });
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.model?.state) return;
    if (this.help.open) {
      this.help.hide();
      e.preventDefault();
      return;
    }
    const { target } = e;
    if (target === this.search) {
      if (e.key === "Escape") {
        if (this.search.value !== "") this.set({ q: "" });
        this.focus();
      } else if (e.key === "Enter" || e.key === "ArrowDown") {
        this.focus();
        this.views[this.state.v].list?.move(0);
      } else return;
      e.preventDefault();
      return;
    }
    if (target.matches("select, input, textarea")) return;
    if (target.matches("button, a") && (e.key === "Enter" || e.key === " ")) return;
    const views = Object.keys(titles);
    const action = {
      "/": () => { this.search.focus(); this.search.select(); },
      Escape: () => this.back(),
      "?": () => this.help.show(),
      m: () => this.mark(), M: () => this.unmark(),
      n: () => { if (this.model.mark) this.set({ n: this.state.n ? "" : "1" }); else this.say("Press m first: what is new is new since a mark."); },
      z: () => { this.frozen = !this.frozen; this.render(true); this.wake?.(); },
      c: () => this.set({ all: this.state.all ? "" : "1" }),
      d: () => this.nextTheme(),
      x: () => this.menu.showPopover(),
      t: () => this.choice.focus(),
      h: () => this.set({ h: this.state.h ? "" : "1" }),
      o: () => { const { f, o } = this.state; if (o) this.set({ o: "" }); else if (f >= 0) this.set({ o: this.model.objectNames[this.model.object[f]] }); },
    }[e.key];
    const n = Number(e.key);
    if (n >= 1 && n <= views.length) this.set({ v: views[n - 1] });
    else if (action && !(e.key === "Escape" && e.repeat)) action();
    else if (!target.closest("#detail") || !["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown"].includes(e.key)) {
      if (!this.views[this.state.v].key(e)) return;
    } else return;
    e.preventDefault();
  }
}

const app = new App();
globalThis.hotspots = app; // for who looks into it, and for tests
app.run();
