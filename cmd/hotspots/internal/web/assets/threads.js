// Which thread calls what: the functions that head the list, and the threads that call most.
import { json } from "./api.js";
import { h } from "./dom.js";
import { short, shorten, share, thousands } from "./format.js";

const most = { functions: 40, threads: 32 };
const id = (t) => `${t.pid} ${t.tid}`;

export class Threads {
  constructor(app) {
    this.app = app;
    this.el = h("div", { class: "threads scroll", tabindex: "0" });
  }

  async update() {
    if (this.asking) return;
    this.asking = true;
    const { app } = this, { model } = app;
    try {
      app.views.functions.arrange();
      const list = app.views.functions.order.filter((i) => model.sortable[i] > 0).slice(0, most.functions);
      const answer = await json(`tables/${model.id}/threads?functions=${list.join(",")}`);
      if (app.model === model && this.el.isConnected) this.show(model, list, answer);
    } catch (err) {
      app.trouble(err);
    } finally {
      this.asking = false;
    }
  }

  show(model, list, answer) {
    const threads = new Map();
    for (const t of answer.threads) {
      const have = threads.get(id(t));
      threads.set(id(t), { pid: t.pid, tid: t.tid, calls: BigInt(t.calls) + (have?.calls ?? 0n) });
    }
    const all = [...threads.values()].sort((a, b) => (a.calls < b.calls ? 1 : a.calls > b.calls ? -1 : a.tid - b.tid));
    const shown = all.slice(0, most.threads), others = all.length - shown.length;
    const seconds = this.lastTime && model.time > this.lastTime && this.of === model.id ? (model.time - this.lastTime) / 1000 : 0;
    const rate = (t) => (seconds > 0 && this.before?.has(id(t)) ? Number(t.calls - this.before.get(id(t))) / seconds : null);
    const rates = shown.map(rate);
    if (model.time !== this.lastTime) {
      this.before = new Map(all.map((t) => [id(t), t.calls]));
      this.lastTime = model.time;
      this.of = model.id;
      this.rates = rates;
    }
    const several = new Set(all.map((t) => t.pid)).size > 1;
    const name = (t) => (t.pid === 0 ? "ended" : t.tid === t.pid ? `${t.pid}` : `${t.tid}`);
    const title = (t) => (t.pid === 0 ? "threads that have ended, and that nobody has told apart" : `thread ${t.tid} of process ${t.pid}${t.tid === t.pid ? ", its first" : ""}`);
    const largest = Math.max(1, ...answer.functions.flatMap((row) => row.map((t) => Number(t.calls))));
    const cells = list.map((i, k) => {
      const by = new Map();
      for (const t of answer.functions[k]) by.set(id(t), BigInt(t.calls) + (by.get(id(t)) ?? 0n));
      let rest = 0n;
      const row = h("tr", {}, h("th", { scope: "row", title: model.names[i], click: () => this.app.openDetail(i) }, h("button", {}, shorten(model.names[i], 60))), h("td", { class: "sum" }, thousands(answer.functions[k].reduce((sum, t) => sum + BigInt(t.calls), 0n))));
      for (const t of shown) {
        const n = by.get(id(t)) ?? 0n;
        by.delete(id(t));
        const cell = h("td", { title: `${thousands(n)} calls of ${shorten(model.names[i], 80)} by ${title(t)}` }, n > 0n ? short(n) : "");
        const heat = n > 0n ? 0.06 + 0.74 * (Math.log1p(Number(n)) / Math.log1p(largest)) ** 2 : 0;
        cell.style.setProperty("--heat", `${(heat * 100).toFixed(1)}%`);
        if (heat > 0.52) cell.className = "strong";
        row.append(cell);
      }
      for (const n of by.values()) rest += n;
      if (others > 0) row.append(h("td", {}, rest > 0n ? short(rest) : ""));
      return row;
    });
    const head = h("thead", {},
      h("tr", {}, h("th", {}, several ? "Function \\ thread (first ones in bold)" : "Function \\ thread"), h("th", { class: "sum" }, "calls"), ...shown.map((t) => h("th", { class: "turned" + (t.tid === t.pid ? " first" : ""), title: title(t) }, h("span", {}, name(t)))), others > 0 ? h("th", { class: "turned" }, h("span", {}, `${others} more`)) : null),
      h("tr", { class: "sums" }, h("th", {}, "all functions"), h("td", { class: "sum" }, thousands(all.reduce((sum, t) => sum + t.calls, 0n))), ...shown.map((t) => h("td", { title: `${thousands(t.calls)} calls, ${share(t.calls, model.total)}` }, short(t.calls)))),
      this.rates?.some((r) => r !== null) ? h("tr", { class: "sums" }, h("th", {}, "now, a second"), h("td", { class: "sum" }, short(model.rate)), ...(this.rates ?? []).map((r) => h("td", {}, r === null ? "" : short(r)))) : null);
    const note = `${thousands(all.length)} threads have counted. Of functions that others called before their rows were handed on, these calls are with who has the row now.` + (model.state.reset ? " Calls by thread are since the program began: a reset knows sums only." : "");
    const at = [this.el.scrollLeft, this.el.scrollTop];
    this.el.replaceChildren(h("table", { class: "matrix" }, head, h("tbody", {}, ...cells)), h("p", { class: "note" }, note));
    [this.el.scrollLeft, this.el.scrollTop] = at;
    this.shown = list.flatMap((i, k) => answer.functions[k].map((t) => ({ object: model.objects[model.object[i]].path, name: model.names[i], pid: t.pid, tid: t.tid, calls: BigInt(t.calls) })));
  }

  rows() { return this.shown ?? []; }
  key() { return false; }
}
