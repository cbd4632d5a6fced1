// What the server is asked for: docs/web.md.

const place = "hotspots.token";

// takeToken takes the token out of the page's address. It is kept for this origin only, of
// which the port is a part, so that links and new tabs work.
function takeToken() {
  const hash = new URLSearchParams(location.hash.slice(1));
  if (hash.has("token")) {
    localStorage.setItem(place, hash.get("token"));
    hash.delete("token");
    history.replaceState(null, "", "#" + hash);
  }
  return localStorage.getItem(place) ?? "";
}
let token = takeToken();
addEventListener("hashchange", () => { token = takeToken(); });

// Refused is that the server does not know us, or what we ask for.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, method = "GET") {
  const answer = await fetch("/api/v1/" + path, { method, headers: { Authorization: "Bearer " + token }, cache: "no-store" });
  if (!answer.ok) {
    let why = answer.statusText;
    try {
      why = (await answer.json()).error;
    } catch { /* it is not from us */ }
    throw new Refused(answer.status, why);
  }
  return answer;
}

export const json = async (path, method) => (await ask(path, method)).json();

// parts takes an answer apart that is a head in JSON, and numbers behind it: see columns.go.
export function parts(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return { head: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))), start: Math.ceil((4 + length) / 8) * 8 };
}

// socket opens a WebSocket. No header can be sent with it: the token is one of the protocols.
export function socket(path, protocol) {
  const s = new WebSocket(`${location.origin.replace("http", "ws")}/api/v1/${path}`, [protocol, "hotspots.token." + token]);
  s.binaryType = "arraybuffer";
  return s;
}

// columns reads counts, which JSON has no numbers for: see columns.go.
export async function columns(path) {
  const b = await (await ask(path)).arrayBuffer();
  const { head, start } = parts(b);
  return { head, calls: new BigUint64Array(b, start, head.n), functions: new Uint32Array(b, start + 8 * head.n, head.n) };
}
