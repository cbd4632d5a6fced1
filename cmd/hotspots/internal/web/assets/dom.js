// Elements without HTML: no text is ever read as markup.

// h makes an element. Properties that are functions listen, className may be short: class.
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") el.addEventListener(name, value);
    else if (name === "class") el.className = value;
    else if (name in el && typeof value !== "string") el[name] = value;
    else el.setAttribute(name, value);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

// text changes an element's text if it is another.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// color is one of the style sheet's, for what is drawn.
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// scaled makes a canvas as fine as the screen, and returns what draws on it.
export function scaled(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio)), t = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

// save gives the user a file.
export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = h("a", { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
