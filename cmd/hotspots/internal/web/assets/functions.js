// The list of functions: what is called most, where, right now.
import { color, h, scaled, text } from "./dom.js";
import { matcher, nanoseconds, share, short, shorten, thousands } from "./format.js";
import { List } from "./list.js";

// orders are what the list can be sorted by, and which way at first.
const orders = { rate: false, calls: false, since: false, time: false, object: true, name: true, size: false };

export class Functions {
  constructor(app) {
    this.app = app;
    this.list = new List({
      label: "Functions",
      onSelect: (line) => app.select(this.order[line]),
      onOpen: (line) => app.openDetail(this.order[line]),
      onSort: (key) => this.sortBy(key),
    });
    this.el = this.list.el;
    this.order = []; // numbers of functions, by line
    this.keys = "";
  }

  get sorted() {
    const { model, state } = this.app;
    const first = model.state?.running ? "rate" : "calls";
    const none = (/since/.test(state.s) && !model.range && !model.mark) || (/time/.test(state.s) && !model.times); // a mark is not in a link
    const s = none || state.s === "" ? first : state.s;
    const key = s.replace(/^-/, "");
    return { key, up: s.startsWith("-") !== orders[key] };
  }

  sortBy(key) {
    const now = this.app.state.s || this.sorted.key;
    this.app.set({ s: now === key ? "-" + key : key });
    this.list.el.scrollTop = 0;
  }

  nextOrder() {
    const keys = this.columns().map((c) => c.sort).filter(Boolean);
    this.sortBy(keys[(keys.indexOf(this.sorted.key) + 1) % keys.length]);
  }

  columns() {
    const { model } = this.app;
    const width = this.el.clientWidth || innerWidth;
    const digits = Math.max(9, thousands(model.state?.total ?? 0).length);
    const dim = (cell, on) => cell.classList.toggle("dim", on);
    const of = (line) => this.order[line];
    const running = model.state?.running;
    const list = [{
      key: "rate", title: "Calls/s", title2: "calls a second since the last reading", width: "4.4rem", right: true, sort: "rate", class: "strong",
      fill: (cell, line) => { const r = model.rates[of(line)]; text(cell, r > 0 ? short(r) : "0"); dim(cell, r === 0); },
    }, {
      key: "calls", title: "Calls", title2: "all, exactly, since the program began or was reset", width: `${digits * 0.56 + 0.9}rem`, right: true, sort: "calls",
      fill: (cell, line) => { const i = of(line), n = model.calls[i]; text(cell, model.isCounted(i) ? thousands(n) : "–"); dim(cell, n === 0n); },
    }];
    if (!running) list.shift(); // nothing is called now
    if (model.range || model.mark) {
      list.push({
        key: "since", title: model.range ? "In range" : "Since mark", width: `${digits * 0.56 + 3}rem`, right: true, sort: "since", class: "warm",
        fill: (cell, line) => { const i = of(line), n = model.since(i); text(cell, (model.isNew(i) ? "new " : "") + thousands(n)); dim(cell, n === 0n); },
      });
    }
    if (width > 640) {
      list.push({
        key: "share", title: "Share", title2: "of all calls", width: "7rem", right: true, class: "share",
        make: (cell) => cell.append(h("i"), h("b")),
        fill: (cell, line) => {
          const n = model.sortable[of(line)], all = Number(model.state.total);
          cell.firstChild.style.transform = `scaleX(${this.most > 0 ? n / this.most : 0})`;
          text(cell.lastChild, share(n, all));
        },
      });
    }
    if (model.times && width > 640) {
      list.push({
        key: "time", title: "Time", title2: "CPU time of the function itself, of all, sampled", width: "4.6rem", right: true, sort: "time",
        fill: (cell, line) => { const t = model.times[of(line)]; text(cell, share(t, model.totalTime)); dim(cell, t === 0); },
      }, {
        key: "each", title: "A call", title2: "CPU time of a call", width: "4.4rem", right: true,
        fill: (cell, line) => { const i = of(line), t = model.times[i], n = model.sortable[i]; text(cell, t === 0 || n === 0 || model.state.reset ? "–" : nanoseconds(t / n)); dim(cell, t === 0); },
      });
    }
    if (width > 900 && running) {
      list.push({
        key: "trend", title: "Trend", title2: "the last readings", width: "88px",
        make: (cell) => cell.append(h("canvas", { class: "trend" })),
        fill: (cell, line) => this.drawTrend(cell.firstChild, of(line)),
      });
    }
    list.push({
      key: "object", title: "Object", width: width > 900 ? "11rem" : width > 500 ? "7rem" : "4.5rem", sort: "object", class: "object",
      fill: (cell, line) => { const i = of(line); text(cell, model.objectNames[model.object[i]]); cell.title = model.objects[model.object[i]].path; },
    }, {
      key: "name", title: "Function", width: "minmax(8rem, 1fr)", sort: "name", class: "name",
      make: (cell) => cell.append(h("span"), h("em")),
      fill: (cell, line) => {
        const i = of(line), name = model.names[i], reason = model.words[model.reason[i]].word;
        text(cell.firstChild, shorten(name, this.letters));
        cell.title = name;
        cell.lastChild.className = model.hot.has(i) ? "hot" : "reason";
        text(cell.lastChild, model.hot.has(i) ? "hot" : reason);
      },
    });
    return list;
  }

  drawTrend(canvas, i) {
    const { trends } = this.app.model;
    const c = scaled(canvas, 80, 18);
    let most = 0;
    for (const t of trends) most = Math.max(most, t[i]);
    if (most === 0) return;
    c.fillStyle = this.accent;
    const step = 80 / 24;
    trends.forEach((t, k) => {
      const tall = t[i] > 0 ? Math.max(1.5, (t[i] / most) * 17) : 0;
      c.fillRect((24 - trends.length + k) * step, 18 - tall, step - 0.7, tall);
    });
  }

  // find tells of all functions which have a text in their names, aliases or objects' names;
  // null without a text.
  find(q) {
    const { model } = this.app;
    if (q === "") return null;
    const what = `${model.id} ${model.size} ${q}`;
    if (what !== this.what) {
      const matches = matcher(q);
      const objects = model.objectNames.map(matches);
      this.what = what;
      this.found = Uint8Array.from(model.names, (name, i) => objects[model.object[i]] || matches(name) || (model.aliases[i]?.split("\n").some(matches) ?? false));
    }
    return this.found;
  }

  // pick is the functions that are listed.
  pick() {
    const { model, state } = this.app;
    const { q, o, w, all, n } = state;
    const found = this.find(q);
    const list = [];
    for (let i = 0; i < model.size; i++) {
      if (w !== "") {
        if (model.words[model.reason[i]].word !== w && !(model.words[model.reason[i]].word === "" && model.words[model.tactic[i]].word === w)) continue;
      } else if (!all && model.sortable[i] === 0) continue;
      else if (model.isExcluded(i)) continue;
      if (o !== "" && model.objectNames[model.object[i]] !== o) continue;
      if (n && !model.isNew(i)) continue;
      if (found && !found[i]) continue;
      list.push(i);
    }
    return list;
  }

  // arrange makes the list anew. Those that were in it stay in their order at first, so that
  // there is little to sort.
  arrange() {
    const { model, state } = this.app;
    const { key, up } = this.sorted;
    let fresh = false;
    const what = [model.id, model.size, state.q, state.o, state.w, state.all, state.n, state.n && model.version].join("\0");
    if (what !== this.picked || !state.all) {
      const list = this.pick();
      if (what === this.picked && list.length >= this.order.length) {
        const known = new Uint8Array(model.size);
        for (const i of this.order) known[i] = 1;
        for (const i of list) if (!known[i]) this.order.push(i);
      } else {
        this.order = list;
        fresh = true;
      }
      this.picked = what;
    }
    const sign = up ? 1 : -1, { rates, sortable, calls } = model;
    const rest = (a, b) => rates[b] - rates[a] || sortable[b] - sortable[a] || a - b;
    // Numbers above 2^53 are only nearly sorted by their doubles.
    const numbers = { rate: rates, calls: sortable, size: model.bytes, time: model.times ?? sortable }[key];
    if (numbers) {
      const exact = key === "calls" && model.total > 2n ** 53n ? (a, b) => compare(calls[a], calls[b]) : () => 0;
      if (fresh) presort(this.order, numbers === rates && model.busy.length === 0 ? sortable : numbers, up);
      this.order.sort((a, b) => sign * (numbers[a] - numbers[b] || exact(a, b)) || rest(a, b));
      return;
    }
    const of = { since: (i) => model.since(i) ?? 0n, object: (i) => model.objectNames[model.object[i]], name: (i) => model.names[i] }[key];
    this.order.sort((a, b) => sign * compare(of(a), of(b)) || rest(a, b));
  }

  // update shows what is known now. Where the user scrolls it waits: nothing is to move there.
  update(force) {
    const { model, state } = this.app;
    this.accent = color("--accent");
    this.most = model.sortable.reduce((a, b) => Math.max(a, b), 0);
    const columns = this.columns();
    const keys = columns.map((c) => c.key + c.title + c.width).join() + JSON.stringify(this.sorted);
    if (keys !== this.keys) {
      this.keys = keys;
      this.list.setColumns(columns, this.sorted);
    }
    // As many letters as the last column has room for, with a badge behind some.
    this.letters = Math.max(24, Math.floor(((this.list.head.lastChild?.clientWidth ?? 700) - 30) / 7.25));
    if (!force && this.list.scrolling) {
      clearTimeout(this.later);
      this.later = setTimeout(() => this.update(false), 300);
      return;
    }
    this.arrange();
    const at = this.order.indexOf(state.f);
    if (at >= 0) this.list.cursor = at;
    this.list.show(this.order.length, this.why());
    if (force && at >= 0) this.list.reveal();
  }

  why() {
    const { state } = this.app;
    if (state.n) return "Nothing was called for the first time since the mark.";
    if (state.q !== "" || state.o !== "" || state.w !== "") return state.all ? "No function has that in its name." : "Nothing that was called has that in its name. Press c for all functions.";
    return "Nothing has been called yet.";
  }

  key(e) {
    const { app } = this;
    if (e.key === "s") this.nextOrder();
    else if (e.key === "S") app.set({ s: (app.state.s || this.sorted.key).startsWith("-") ? this.sorted.key : "-" + this.sorted.key });
    else return this.list.key(e);
    return true;
  }

  // rows is what is shown, for a file.
  rows() {
    const { model } = this.app;
    return this.order.map((i) => ({
      object: model.objects[model.object[i]].path, address: "0x" + model.addresses[i], name: model.names[i], size: model.bytes[i],
      calls: model.calls[i], calls_per_second: Math.round(model.rates[i] * 1000) / 1000, ...(model.range || model.mark ? { since: model.since(i) } : {}), ...(model.times ? { time_ns: model.times[i] } : {}),
      tactic: model.words[model.tactic[i]].word, reason: model.words[model.reason[i]].word,
    }));
  }
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// presort brings a long list nearly in the order of its numbers, none below 0, so that sorting
// it has little to compare: a radix sort by their bits as floats of 32, which rise as they do.
function presort(list, numbers, up) {
  if (list.length < 5000) return;
  let from = Uint32Array.from(list), to = new Uint32Array(list.length);
  const bits = new Uint32Array(Float32Array.from(numbers).buffer);
  for (let shift = 0; shift < 32; shift += 8) {
    const places = new Uint32Array(257);
    for (const i of from) places[((bits[i] >>> shift) & 255) + 1]++;
    for (let k = 0; k < 256; k++) places[k + 1] += places[k];
    for (const i of from) to[places[(bits[i] >>> shift) & 255]++] = i;
    [from, to] = [to, from];
  }
  for (let k = 0; k < list.length; k++) list[k] = from[up ? k : list.length - 1 - k];
}
