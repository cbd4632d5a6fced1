// Which functions have read and written a row last (hotspots run --heat=who).
import { base, thousands } from "./format.js";

// lasts are texts of what the server knows of that; none where it was not noted.
export function lasts(a) {
  return [["read", a.last_readers], ["written", a.last_writers]].filter(([, l]) => l).map(([what, l]) => {
    const more = l.codes.length - 1 + l.more;
    return `last ${what} by ${of(l.codes[0])}${more > 0 ? `, or ${thousands(more)} other instruction${more > 1 ? "s" : ""} of this row` : ""}`;
  });
}

function of(c) {
  const at = c.offset > 0 ? `${c.function}+0x${c.offset.toString(16)}` : c.function;
  const where = c.line > 0 ? `${base(c.file)}:${c.line}` : c.object ? base(c.object) : "";
  return where ? `${at} (${where})` : at;
}
