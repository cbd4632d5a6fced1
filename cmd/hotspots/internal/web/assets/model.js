// What has been read of one table.
import { columns, json } from "./api.js";

const trend = 24; // readings that are kept of each function

const lines = (text) => (text === "" ? [] : text.split("\n"));

export class Model {
  constructor(id) {
    this.id = id;
    this.size = 0; // functions
    this.calls = new BigUint64Array(0); // exact
    this.sortable = new Float64Array(0); // the same, nearly
    this.rates = new Float64Array(0); // calls a second since the reading before
    this.busy = []; // functions whose rate is not 0
    this.trends = []; // rates of the last readings, the latest last
    this.reading = 0;
    this.time = 0;
    this.rate = 0;
    this.state = null;
    this.hot = new Set();
    this.times = null; // CPU time of each function itself, ns, where it is sampled
    this.mark = null; // {time, calls}
    this.range = null; // {from, to, calls}
    this.version = 0; // changes with every reading
    this.points = { from: [], to: [], rates: [] };
  }

  // load reads names, counts and the time before.
  async load() {
    const [, line] = await Promise.all([this.read(), json(`tables/${this.id}/timeline`)]);
    this.points = points(line);
  }

  async loadFunctions() {
    const l = await json(`tables/${this.id}/functions`);
    this.names = lines(l.names);
    this.addresses = lines(l.addresses);
    this.aliases = l.aliases;
    Object.assign(this, { object: l.object, bytes: l.size, tactic: l.tactic, reason: l.reason, source: l.source, words: l.words, objects: l.objects ?? [] });
    this.objectNames = this.objects.map((o) => o.path.slice(o.path.lastIndexOf("/") + 1));
    this.grow(l.functions);
  }

  // grow makes room for more functions.
  grow(size) {
    const larger = (old, type) => {
      const list = new type(size);
      list.set(old.subarray(0, Math.min(size, old.length)));
      return list;
    };
    this.calls = larger(this.calls, BigUint64Array);
    this.sortable = larger(this.sortable, Float64Array);
    this.rates = larger(this.rates, Float64Array);
    this.trends = this.trends.map((t) => larger(t, Float32Array));
    this.size = size;
  }

  // read reads what has changed. It returns how many milliseconds later there is more.
  async read() {
    const first = this.size === 0;
    const [update] = await Promise.all([columns(`tables/${this.id}/counts?after=${this.reading}`), first ? this.loadFunctions() : null]);
    const { head } = update;
    if (head.state.functions > this.size) await this.loadFunctions(); // the program has loaded more
    if (first || head.reading !== this.reading) this.apply(update);
    this.state = head.state;
    if (head.state.timed) await this.readTimes();
    return head.next;
  }

  async readTimes() {
    const { head, calls, functions } = await columns(`tables/${this.id}/times`);
    const times = new Float64Array(this.size);
    functions.forEach((i, k) => { if (i < this.size) times[i] = Number(calls[k]); });
    this.times = times;
    this.totalTime = Number(head.total);
  }

  apply({ head, calls, functions }) {
    const again = this.reading > 0 && this.state.reset === head.state.reset && head.since === this.reading;
    const seconds = again ? (head.time - this.time) / 1000 : 0;
    for (const i of this.busy) this.rates[i] = 0;
    this.busy = [];
    const samples = new Float32Array(this.size);
    let sum = 0n;
    for (let k = 0; k < functions.length; k++) {
      const i = functions[k];
      if (i >= this.size) continue; // not known yet: the next reading has it
      const n = calls[k];
      if (seconds > 0 && n > this.calls[i]) {
        const more = n - this.calls[i];
        sum += more;
        this.rates[i] = samples[i] = Number(more) / seconds;
        this.busy.push(i);
      }
      this.calls[i] = n;
      this.sortable[i] = Number(n);
    }
    if (!again && this.reading > 0) {
      this.trends = [];
      this.mark = this.range = null;
      this.points = { from: [], to: [], rates: [] };
    }
    if (seconds > 0) {
      this.trends = [...this.trends.slice(1 - trend), samples];
      this.rate = Number(sum) / seconds;
      if (this.state.running || sum > 0n) this.addPoint(this.time, head.time, this.rate);
    }
    this.hot = new Set(head.hot ?? []);
    this.reading = head.reading;
    this.time = head.time;
    this.version++;
  }

  addPoint(from, to, rate) {
    const p = this.points;
    if (p.to.length > 0 && to <= p.to[p.to.length - 1]) return; // the server has told of it already
    p.from.push(from);
    p.to.push(to);
    p.rates.push(rate);
  }

  get total() { return BigInt(this.state.total); }

  // since is the calls of a function in the range, or since the mark; null without any.
  since(i) {
    if (this.range) return this.range.calls[i] ?? 0n;
    if (this.mark) return this.calls[i] - (this.mark.calls[i] ?? 0n);
    return null;
  }

  // isNew tells whether a function was called for the first time since the mark.
  isNew(i) {
    return this.range === null && this.mark !== null && this.calls[i] > 0n && (this.mark.calls[i] ?? 0n) === 0n;
  }

  setMark() { this.mark = { time: this.time, calls: this.calls.slice() }; }

  // setRange asks for the calls between two moments.
  async setRange(from, to) {
    const { head, calls, functions } = await columns(`tables/${this.id}/range?from=${Math.floor(from)}&to=${Math.ceil(to)}`);
    const all = new BigUint64Array(this.size);
    functions.forEach((i, k) => { if (i < this.size) all[i] = calls[k]; });
    this.range = { from: head.from ?? from, to: head.to ?? to, calls: all };
    this.version++;
  }

  // isCounted tells whether a function is; what is excluded is none.
  isCounted(i) { return this.words[this.reason[i]].word === ""; }
  isExcluded(i) { return this.words[this.reason[i]].excluded; }
}

// points is a timeline as rates.
export function points(line) {
  const rates = line.calls.map((n, i) => Number(n) / Math.max(0.001, (line.to[i] - line.from[i]) / 1000));
  return { from: line.from, to: line.to, rates };
}
