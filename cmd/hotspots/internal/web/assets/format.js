// Numbers and names as people read them.

// thousands writes 1234567 as 1,234,567.
export const thousands = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

// short writes a number with three digits, and a letter for thousands, millions and so on.
export function short(n) {
  n = Number(n);
  if (n < 999.5) return n > 0 && n < 9.95 && n !== Math.trunc(n) ? n.toFixed(1) : n.toFixed(0);
  for (const unit of "kMGTPE") {
    n /= 1000;
    if (n < 9.995) return n.toFixed(2) + unit;
    if (n < 99.95) return n.toFixed(1) + unit;
    if (n < 999.5) return n.toFixed(0) + unit;
  }
  return "lots";
}

// nanoseconds writes a length of time with its unit.
export function nanoseconds(ns) {
  for (const unit of ["ns", "µs", "ms"]) {
    if (ns < 999.5) return short(ns) + " " + unit;
    ns /= 1000;
  }
  return short(ns) + " s";
}

// share is a number in percent of another.
export const share = (n, of) => (Number(of) === 0 ? "–" : ((Number(n) / Number(of)) * 100).toFixed(2) + "%");

// clock is a length of time in seconds.
export function clock(s) {
  s = Math.max(0, Math.floor(s));
  const two = (n) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// moment is a time of day.
export const moment = (ms) => new Date(ms).toLocaleTimeString("en-GB");

export const base = (path) => path.slice(path.lastIndexOf("/") + 1) || path;

// count writes how many there are of something.
export const count = (n, one, many = one + "s") => `${thousands(n)} ${Number(n) === 1 ? one : many}`;

// opens tells whether a < begins a list of template arguments, and is no operator.
const opens = (name, i) => !/operator\s*<*$/.test(name.slice(Math.max(0, i - 12), i));

// shorten leaves out of a name that is long what is told least: template arguments, then
// arguments, then the outer namespaces.
export function shorten(name, most = 110) {
  if (name.length <= most) return name;
  const without = (from, to) => {
    let out = "", depth = 0;
    for (let i = 0; i < name.length; i++) {
      const c = name[i];
      if (c === to && depth > 0 && !(c === ">" && name[i - 1] === "-")) depth--;
      if (depth === 0) out += c;
      if (c === from && (depth > 0 || ((c !== "<" || opens(name, i)) && !name.startsWith("(anonymous", i) && !name.startsWith("()", i))) && depth++ === 0) out += "…";
    }
    return depth === 0 ? out : name;
  };
  name = without("<", ">");
  if (name.length > most) name = without("(", ")");
  for (let at; name.length > most && (at = name.indexOf("::", 3)) >= 0; ) name = "…" + name.slice(at);
  return name;
}

// path is a name as the namespaces that it is in and what it is there.
export function path(name, isGo) {
  if (/\+0x[0-9a-f]+$/.test(name)) return ["(no name)", name];
  if (!name.includes("::")) {
    const go = isGo && /^((?:[^\s/]+\/)*[^\s/.]+)\.(.+)$/.exec(name);
    return go ? [go[1], go[2]] : [name];
  }
  const parts = [];
  let depth = 0, start = 0, i = 0;
  for (; i < name.length; i++) {
    const c = name[i];
    if (name.startsWith("operator", i) && !/\w/.test(name[i - 1] ?? "")) break; // what follows is no punctuation
    if (c === "<" || c === "[" || c === "{") depth++;
    else if (c === "(") {
      if (depth === 0 && i > start && !name.startsWith("(anonymous", i)) break;
      depth++;
    } else if ((c === ">" && name[i - 1] !== "-") || c === "]" || c === "}" || c === ")") depth--;
    else if (c === " " && depth === 0) {
      parts.length = 0; // it was the type of the result
      start = i + 1;
    } else if (c === ":" && name[i + 1] === ":" && depth === 0) {
      parts.push(name.slice(start, i));
      start = i + 2;
      i++;
    }
  }
  parts.push(name.slice(start));
  return parts.filter((p) => p !== "");
}

// matcher is a test for names: plain text, in which capitals matter if there are some, or
// /a regular expression/.
export function matcher(query) {
  if (query === "") return () => true;
  const re = /^\/(.+)\/(i?)$/.exec(query);
  if (re) {
    try {
      const compiled = new RegExp(re[1], re[2]);
      return (name) => compiled.test(name);
    } catch {
      return () => false;
    }
  }
  if (query !== query.toLowerCase()) return (name) => name.includes(query);
  return (name) => name.includes(query) || name.toLowerCase().includes(query);
}
