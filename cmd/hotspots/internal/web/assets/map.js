// Where calls are: objects, the namespaces in them, functions. What is as tall has as many
// calls; a click goes in, Esc out.
import { color, h, scaled } from "./dom.js";
import { path, share, short, shorten, thousands } from "./format.js";

const header = 30; // pixels
const strip = 26; // what a node is in
const least = 3; // as tall as what is drawn by itself
const font = 'system-ui, "Segoe UI", Cantarell, "Liberation Sans", sans-serif';

// shades lead from one color of the style sheet toward another.
const shades = (from, to) => Array.from({ length: 16 }, (_, i) => `color-mix(in srgb, ${to} ${(i / 15) * 55}%, ${from})`);

// Node is an object, a namespace or a function.
class Node {
  constructor(name, parent, leaf = -1) {
    Object.assign(this, { name, parent, leaf, value: 0, children: leaf < 0 ? new Map() : null, list: null });
  }

  get depth() { return this.parent ? this.parent.depth + 1 : 0; }
  get full() { return this.parent?.parent ? this.parent.full + "\u0001" + this.name : this.parent ? this.name : ""; }
}

export class Map_ {
  constructor(app) {
    this.app = app;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Calls by object, namespace and function" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.el = h("div", { class: "map" }, this.canvas, this.tip);
    this.canvas.addEventListener("mousemove", (e) => this.hover(e));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; this.over = null; this.draw(); });
    this.canvas.addEventListener("click", (e) => this.click(e));
    new ResizeObserver(() => this.draw()).observe(this.el);
  }

  // build makes the tree of all functions, once for each table.
  build() {
    const { model } = this.app;
    const what = `${model.id} ${model.size}`;
    if (what === this.built) return;
    this.built = what;
    this.root = new Node("all", null);
    const go = new Set();
    for (let i = 0; i < model.size; i++) if (model.names[i] === "runtime.main" || model.names[i] === "runtime.goexit") go.add(model.object[i]);
    for (let i = 0; i < model.size; i++) {
      if (!model.isCounted(i)) continue;
      let at = this.root;
      const parts = [model.objectNames[model.object[i]], ...path(model.names[i], go.has(model.object[i]))];
      for (const part of parts.slice(0, -1)) {
        let next = at.children.get(part);
        if (!next) at.children.set(part, (next = new Node(part, at)));
        at = next;
      }
      at.children.set(i, new Node(parts[parts.length - 1], at, i));
    }
  }

  // measure gives each node its calls.
  measure() {
    const { app, root } = this;
    const { model } = app;
    const what = app.measure();
    const value = { rate: (i) => model.rates[i], calls: (i) => model.sortable[i], since: (i) => Number(model.since(i) ?? 0n) }[what];
    const sum = (node) => {
      if (node.leaf >= 0) {
        node.value = value(node.leaf);
        this.peak = Math.max(this.peak, node.value);
        return node.value;
      }
      node.value = 0;
      for (const c of node.children.values()) node.value += sum(c);
      node.list = null;
      return node.value;
    };
    this.peak = 0;
    sum(root);
    this.unit = { rate: "calls a second", calls: "calls", since: model.range ? "calls in the range" : "calls since the mark" }[what];
    this.write = what === "rate" ? (n) => short(n) + "/s" : (n) => thousands(Math.round(n));
  }

  // list is a node's children that have calls, the most first.
  list(node) {
    node.list ??= [...node.children.values()].filter((c) => c.value > 0).sort((a, b) => b.value - a.value);
    return node.list;
  }

  // focus is the node that the link names, or as much of the way to it as there is.
  get focus() {
    let at = this.root;
    for (const part of (this.app.state.z || "").split("\u0001").filter(Boolean)) at = at.children.get(part) ?? at;
    return at;
  }

  update() {
    this.build();
    this.measure();
    this.found = this.app.views.functions.find(this.app.state.q);
    this.draw();
  }

  zoom(node) {
    const from = this.focus;
    this.app.set({ z: node.full });
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    // What was shown and what will be are drawn as parts of the whole in between.
    const a = this.range(from, node), began = performance.now();
    const step = () => {
      const t = Math.min(1, (performance.now() - began) / 220), ease = 1 - (1 - t) ** 3;
      this.between = t < 1 ? [a[0] * (1 - ease), a[1] + (1 - a[1]) * ease] : null;
      this.draw();
      if (t < 1) requestAnimationFrame(step);
    };
    step();
  }

  // range is where a node was on the screen, of one that is zoomed to, or the whole.
  range(from, to) {
    const cell = this.cells?.find((c) => c.node === to);
    const tall = this.el.clientHeight - header;
    return cell && to !== from ? [(cell.y - header) / tall, (cell.y - header + cell.height) / tall] : [0, 1];
  }

  draw() {
    if (!this.root || !this.el.isConnected) return;
    const width = this.el.clientWidth, height = this.el.clientHeight;
    if (width === 0) return;
    this.canvas.style.width = width + "px";
    this.canvas.style.height = height + "px";
    const c = scaled(this.canvas, width, height);
    this.colors = Object.fromEntries(["--text", "--dim", "--line", "--hover", "--cell", "--cell2", "--accent", "--warm", "--on-warm"].map((n) => [n, color(n)]));
    this.shades = shades(this.colors["--cell"], this.colors["--accent"]);
    const { focus } = this;
    const above = [];
    for (let n = focus.parent; n; n = n.parent) above.unshift(n);
    const strips = above.length * strip;
    // Namespaces need less room than the functions at the end.
    const levels = this.deepest(focus, 1 / Math.max(1, height)) - (focus === this.root ? 1 : 0);
    const side = Math.max(70, Math.min(200, (width - strips) / (levels + 1.2)));
    this.cells = [];
    c.textBaseline = "middle";
    c.font = `12px ${font}`;
    c.fillStyle = this.colors["--dim"];
    c.fillText(this.title(focus), 12, header / 2);
    if (this.root.value === 0) c.fillText(this.app.measure() === "rate" ? "Nothing is called at the moment." : "Nothing has been called.", 12, header + 20);
    above.forEach((n, i) => this.above(c, n, i * strip, height));
    const [low, high] = this.between ?? [0, 1];
    const tall = (height - header) / (high - low), y = header - low * tall;
    if (focus === this.root) this.below(c, focus, 0, side, y, tall, width, height); // the whole is what the title tells
    else this.column(c, focus, strips, side, y, tall, width, height);
  }

  title(focus) {
    const where = focus === this.root ? base(this.app.model.state.program) : focus.full.split("\u0001").join(" › ");
    return `${where}   ${this.write(focus.value)}${this.app.measure() === "rate" ? "" : " " + this.unit}${focus === this.root ? "" : `, ${share(focus.value, this.root.value)} of all`}`;
  }

  // deepest is how many levels of a node are tall enough to be seen.
  deepest(node, least) {
    const most = (n, part) => {
      if (n.leaf >= 0 || part < least * 8) return 1;
      let d = 0;
      for (const k of this.list(n)) {
        const p = n.value > 0 ? (part * k.value) / n.value : 0;
        if (p < least * 8) break;
        d = Math.max(d, most(k, p));
      }
      return d + 1;
    };
    return most(node, 1);
  }

  // column draws a node, and to its right what is in it.
  column(c, node, x, side, y, tall, width, height) {
    this.cell(c, node, x, node.leaf >= 0 ? width - x : side, y, tall);
    if (node.leaf < 0) this.below(c, node, x + side, side, y, tall, width, height);
  }

  below(c, node, x, side, y, tall, width, height) {
    if (node.value === 0) return;
    let at = y, shown = 0;
    for (const k of this.list(node)) {
      const t = (tall * k.value) / node.value;
      if (t < least) break; // these are drawn as one
      if (at + t > header && at < height) this.column(c, k, x, side, at, t, width, height);
      at += t;
      shown++;
    }
    const rest = this.list(node).length - shown, left = y + tall - at;
    if (rest > 0 && left > 0.5 && at < height && at + left > header) {
      c.fillStyle = this.colors["--hover"];
      c.fillRect(x, Math.max(at, header), width - x, left - 0.5);
      if (left > 12) this.label(c, this.colors["--dim"], `${thousands(rest)} more`, x, at, width - x, left);
    }
  }

  // above draws what a node is in, as a strip at the left.
  above(c, node, x, height) {
    c.fillStyle = node === this.over ? this.colors["--cell"] : this.colors["--hover"];
    c.fillRect(x, header, strip - 1, height - header);
    this.cells.push({ node, x, y: header, width: strip, height: height - header });
    c.save();
    c.translate(x + strip / 2, height - 10);
    c.rotate(-Math.PI / 2);
    c.fillStyle = this.colors["--dim"];
    c.fillText(node.parent ? shorten(node.name, 80) : base(this.app.model.state.program), 0, 0);
    c.restore();
  }

  cell(c, node, x, wide, y, tall) {
    const top = Math.max(y, header), bottom = Math.min(y + tall, this.el.clientHeight);
    if (bottom <= top) return;
    const leaf = node.leaf >= 0, found = leaf && this.found?.[node.leaf], marked = found || (leaf && node.leaf === this.app.state.f);
    c.globalAlpha = this.found && leaf && !found ? 0.4 : 1;
    c.fillStyle = marked ? this.colors["--warm"] : leaf ? this.shades[Math.min(15, Math.floor(16 * Math.sqrt(node.value / Math.max(node.value, this.peak))))] : this.colors[node.depth % 2 ? "--cell2" : "--cell"];
    const gap = tall > 5 ? 1 : tall > 2.5 ? 0.5 : 0;
    c.fillRect(x, top, wide - 1, bottom - top - gap);
    if (node === this.over) {
      c.strokeStyle = this.colors["--text"];
      c.strokeRect(x + 0.5, top + 0.5, wide - 2, Math.max(1, bottom - top - 1 - gap));
    }
    this.cells.push({ node, x, y: top, width: wide, height: bottom - top });
    if (bottom - top >= 9.5) {
      const size = Math.min(12, Math.floor(bottom - top - 1));
      c.font = `${size}px ${font}`;
      const numbers = bottom - top >= 30 || leaf ? this.write(node.value) : "";
      this.label(c, marked ? this.colors["--on-warm"] : this.colors["--text"], shorten(node.name, Math.max(20, Math.floor(wide / 7))), x, top, wide, bottom - top, numbers, leaf);
      c.font = `12px ${font}`;
    }
    c.globalAlpha = 1;
  }

  label(c, ink, name, x, y, wide, tall, numbers = "", beside = false) {
    c.save();
    c.beginPath();
    c.rect(x, y, wide - 4, tall);
    c.clip();
    c.fillStyle = ink;
    const middle = Math.min(y + tall / 2, y + Math.max(10, tall / 2));
    if (beside) {
      const w = numbers === "" ? 0 : c.measureText(numbers).width;
      c.fillText(name, x + 7, middle);
      if (c.measureText(name).width + w + 30 < wide) {
        c.globalAlpha *= 0.65;
        c.fillText(numbers, x + wide - w - 12, middle);
      }
    } else if (numbers !== "") {
      c.fillText(name, x + 7, middle - 8);
      c.globalAlpha *= 0.65;
      c.fillText(numbers, x + 7, middle + 8);
    } else c.fillText(name, x + 7, middle);
    c.restore();
  }

  at(e) {
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.x, y = e.clientY - box.y;
    return this.cells?.findLast((c) => x >= c.x && x < c.x + c.width && y >= c.y && y < c.y + c.height)?.node;
  }

  hover(e) {
    const node = this.at(e);
    if (node !== this.over) {
      this.over = node;
      this.draw();
    }
    this.tip.hidden = !node;
    this.canvas.style.cursor = node ? "pointer" : "default";
    if (!node) return;
    const name = node.leaf >= 0 ? this.app.model.names[node.leaf] : node.full.split("\u0001").join(" › ") || base(this.app.model.state.program);
    this.tip.replaceChildren(h("b", {}, shorten(name, 300)), h("span", {}, `${this.write(node.value)} ${this.unit}, ${share(node.value, this.root.value)}${node.leaf < 0 ? `, ${thousands(this.list(node).length)} called in it` : ""}`));
    const box = this.el.getBoundingClientRect();
    const left = Math.min(e.clientX - box.x + 14, this.el.clientWidth - this.tip.offsetWidth - 8), top = Math.min(e.clientY - box.y + 16, this.el.clientHeight - this.tip.offsetHeight - 8);
    this.tip.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
  }

  click(e) {
    const node = this.at(e);
    if (!node) return;
    if (node.leaf >= 0) this.app.openDetail(node.leaf);
    else this.zoom(node === this.focus && node.parent ? node.parent : node);
  }

  key(e) {
    if (e.key === "Escape" || e.key === "Backspace" || e.key === "ArrowLeft") {
      const { focus } = this;
      if (!focus.parent) return false;
      this.zoom(focus.parent);
    } else if (e.key === "ArrowRight" || e.key === "Enter") {
      const into = this.list(this.focus)[0];
      if (!into) return false;
      if (into.leaf >= 0) this.app.openDetail(into.leaf);
      else this.zoom(into);
    } else return false;
    return true;
  }

  // rows is what is below the focus, for a file.
  rows() {
    const rows = [];
    const add = (node) => {
      if (node.leaf >= 0) rows.push({ path: node.parent.full.split("\u0001").join(";"), name: this.app.model.names[node.leaf], value: node.value });
      else for (const c of this.list(node)) add(c);
    };
    add(this.focus);
    return rows;
  }
}

const base = (p) => p.slice(p.lastIndexOf("/") + 1);
