// Calls a second over time. What is brushed is the range of which functions show their calls.
import { color, h, text } from "./dom.js";
import { moment, short, shorten } from "./format.js";

const spans = { 1: "1 min", 10: "10 min", 0: "all" };

export class Timeline {
  constructor(app, el) {
    this.app = app;
    this.el = el;
    this.plot = h("div", { class: "plot" });
    this.note = h("span");
    this.name = h("span", { class: "name" });
    this.spans = h("div", { class: "spans", role: "group", "aria-label": "how much of the time" }, ...Object.entries(spans).map(([w, title]) =>
      h("button", { "data-span": w, click: () => app.set({ span: w === "0" ? "" : w }) }, title)));
    el.append(h("div", { class: "note" }, this.note, this.name), this.spans, this.plot);
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  make() {
    this.chart?.destroy();
    const axis = { stroke: () => color("--dim"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const step = uPlot.paths.stepped({ align: -1 });
    const series = (name) => ({ stroke: () => color(name), fill: () => color(name + "-soft"), width: 1.5, paths: step, points: { show: false } });
    this.chart = new uPlot({
      width: Math.max(100, this.plot.clientWidth), height: Math.max(40, this.plot.clientHeight),
      legend: { show: false },
      padding: [8, 30, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      scales: { x: { time: true, range: () => this.span() }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...axis, size: 22, space: 90, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400], values: (u, list) => list.map((t) => moment(t * 1000)) },
        { ...axis, size: 52, space: 26, values: (u, list) => list.map(short) },
      ],
      series: [{}, series("--accent"), series("--warm")],
      hooks: {
        setSelect: [(u) => this.brushed(u)],
        setCursor: [(u) => this.hover(u)],
        draw: [() => this.showRange()],
      },
    }, [[], [], []], this.plot);
    this.chart.over.addEventListener("dblclick", () => this.app.clearRange());
  }

  // span is what of the time is shown, in seconds.
  span() {
    const { to, from } = this.app.model.points;
    if (to.length === 0) return [0, 1];
    const end = to[to.length - 1] / 1000, w = Number(this.app.state.span);
    return [w > 0 ? Math.max(end - 60 * w, Math.min(from[0] / 1000, end - 10)) : from[0] / 1000, end];
  }

  resize() {
    if (this.chart) this.chart.setSize({ width: Math.max(100, this.plot.clientWidth), height: Math.max(40, this.plot.clientHeight) });
  }

  brushed(u) {
    if (this.showing || u.select.width < 3) return;
    const at = (x) => u.posToVal(x, "x") * 1000;
    this.app.setRange(at(u.select.left), at(u.select.left + u.select.width));
  }

  // showRange draws the range where it is now.
  showRange() {
    const { range } = this.app.model, u = this.chart;
    if (!u || u.cursor.drag._x && this.dragging) return;
    this.showing = true;
    if (range) {
      const left = u.valToPos(range.from / 1000, "x"), right = u.valToPos(range.to / 1000, "x");
      const wide = u.over.clientWidth, from = Math.max(0, Math.min(left, wide)), to = Math.max(0, Math.min(right, wide));
      u.setSelect({ left: from, width: to - from, top: 0, height: u.over.clientHeight }, false);
    } else if (u.select.width > 0 && !u.cursor.event?.buttons) u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.showing = false;
  }

  hover(u) {
    this.at = u.cursor.left >= 0 ? u.cursor.idx : null;
    this.say();
  }

  // say tells in words what is shown, or what the mouse points at.
  say() {
    const { model } = this.app, p = model.points;
    const i = this.at === null || this.at === undefined ? p.rates.length - 1 : Math.max(0, this.at - 1);
    const parts = [];
    if (i >= 0 && i < p.rates.length) {
      parts.push(this.at == null ? `${short(Math.max(...p.rates))}/s at most` : `${moment(p.from[i])}–${moment(p.to[i])}  ${short(p.rates[i])}/s`);
    }
    const { f } = this.app.state, second = this.chart?.data[2];
    if (f >= 0 && second && i >= 0 && second[i + 1] != null) this.name.replaceChildren(h("i"), `${shorten(model.names[f], 60)}  ${short(second[i + 1])}/s`);
    else this.name.replaceChildren();
    if (model.range) parts.push(`range ${moment(model.range.from)}–${moment(model.range.to)}, ${((model.range.to - model.range.from) / 1000).toFixed(1)} s`);
    else if (p.rates.length > 1) parts.push("drag to choose a range");
    text(this.note, parts.join("   ·   "));
  }

  // of gives the calls of one function, or nothing.
  of(list) { this.second = list; }

  update() {
    const { model, state } = this.app;
    const p = model.points;
    const none = p.to.length === 0 || state.h;
    if (this.el.hidden !== !!none) this.el.hidden = !!none;
    if (none) return;
    for (const b of this.spans.children) b.setAttribute("aria-pressed", String((state.span || "0") === b.dataset.span));
    if (!this.chart) this.make();
    const from = p.from[0] / 1000;
    const second = [null];
    for (let i = 0, k = 0; i < p.to.length; i++) {
      const line = this.second;
      while (line && k < line.to.length && line.to[k] < p.to[i] - 1) k++;
      second.push(line && k < line.to.length && Math.abs(line.to[k] - p.to[i]) <= 1 ? line.rates[k] : null);
    }
    this.chart.setData([[from, ...p.to.map((t) => t / 1000)], [p.rates[0], ...p.rates], second]);
    this.say();
  }

  restyle() { this.chart?.redraw(false); }
}
