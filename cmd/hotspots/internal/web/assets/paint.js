// Draws cells: a point of the canvas is all that was done in the cells that it stands for, and how
// much of them was touched. Which these are is said by two lists of edges, in whole numbers, so that
// both ways draw the same.
import { least, levelOf, levels, shares } from "./density.js";

const vertex = `#version 300 es
void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0, 1); }`;

const fragment = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform usampler2D cells, order, across, down;
uniform ivec4 shape; // columns modulo, columns there are, ring, rows there are
uniform int height;
uniform vec3 palette[${8 * levels + 1}];
uniform uint shares[${levels}], least[${levels}];
out vec4 color;
int edge(usampler2D list, int i) { return int(texelFetch(list, ivec2(i, 0), 0).r) - 1; }
void main() {
  ivec2 at = ivec2(int(gl_FragCoord.x), height - 1 - int(gl_FragCoord.y));
  int left = edge(across, at.x), right = max(left + 1, edge(across, at.x + 1));
  int top = edge(down, at.y), bottom = max(top + 1, edge(down, at.y + 1));
  if (left < 0 || left >= shape.y) { color = vec4(palette[${8 * levels}], 1); return; }
  right = min(right, shape.y);
  bottom = min(bottom, shape.w);
  uint what = 0u, sum = 0u, all = uint((right - left) * max(0, bottom - top));
  for (int r = top; r < bottom; r++) {
    int row = int(texelFetch(order, ivec2(r, 0), 0).r);
    for (int c = left; c < right; c++) {
      uint cell = texelFetch(cells, ivec2(row, (c + shape.z) % shape.x), 0).r;
      if (cell == 0u) continue;
      what |= cell & 7u;
      sum += shares[cell >> 3];
    }
  }
  uint level = ${levels - 1}u;
  while (sum < least[level] * all) level--;
  color = vec4(palette[what == 0u ? 0u : what | level << 3], 1);
}`;

// painter is one that draws into a canvas: by WebGL2 where a GPU does it, else point by point.
// For who compares them kind is "webgl", also without a GPU, or "canvas".
export function painter(canvas, kind = "") {
  if (kind !== "canvas") {
    try {
      return new Shaded(canvas, kind !== "webgl");
    } catch { /* there is none, or it is too small, or no faster */ }
  }
  return new Plain(canvas);
}

// changedPoints are those of a line that show columns that have changed: from, up to and without.
function changedPoints({ changed, head }, across, same) {
  const width = across.length - 1;
  if (!same || !changed || changed === "all") return [0, width];
  let from = 0, to = width;
  while (from < to && Math.max(across[from], across[from + 1] - 1) - 1 < changed.from - head.first) from++;
  while (to > from && across[to - 1] - 1 >= changed.to - head.first) to--;
  return [from, to];
}

// software tells whether WebGL2 is computed by the CPU, which takes longer for it than a plain
// canvas does. Browsers that are asked to fail then do not always.
function software() {
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!gl) return true;
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const is = /SwiftShader|llvmpipe|softpipe|Basic Render/i.test(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return is;
}

class Shaded {
  constructor(canvas, fast) {
    if (fast && software()) throw new Error("no GPU");
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, preserveDrawingBuffer: true });
    if (!gl || gl.getParameter(gl.MAX_TEXTURE_SIZE) < 4097) throw new Error("no WebGL2");
    Object.assign(this, { gl, canvas, kind: "WebGL2" });
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const s = gl.createShader(kind);
      gl.shaderSource(s, text);
      gl.compileShader(s);
      if (!gl.getShaderParameter(s, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(s));
      gl.attachShader(program, s);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.at = (name) => gl.getUniformLocation(program, name);
    this.textures = ["cells", "order", "across", "down"].map((name, i) => {
      const t = gl.createTexture();
      gl.activeTexture(gl.TEXTURE0 + i);
      gl.bindTexture(gl.TEXTURE_2D, t);
      for (const p of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, p, gl.NEAREST);
      gl.uniform1i(this.at(name), i);
      return t;
    });
    gl.uniform1uiv(this.at("shares"), shares);
    gl.uniform1uiv(this.at("least"), least);
    this.uploads = 0;
    canvas.addEventListener("webglcontextlost", () => { this.lost = true; });
  }

  list(unit, values) {
    const { gl } = this;
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R16UI, values.length, 1, 0, gl.RED_INTEGER, gl.UNSIGNED_SHORT, values);
  }

  draw(cells, across, down, palette) {
    const { gl } = this, { head } = cells;
    const same = this.order === cells.order && this.across === across && this.down === down && this.palette === palette;
    const [x0, x1] = changedPoints(cells, across, same);
    gl.activeTexture(gl.TEXTURE0);
    if (this.columns !== head.columns || this.rows !== head.rows) {
      Object.assign(this, { columns: head.columns, rows: head.rows });
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8UI, head.rows, head.columns, 0, gl.RED_INTEGER, gl.UNSIGNED_BYTE, cells.what);
    } else if (cells.fresh) this.upload(cells);
    cells.fresh = null;
    if (cells.changed === "all" || this.order !== cells.order) this.list(1, (this.order = cells.order).length > 0 ? cells.order : new Uint16Array(1));
    if (this.across !== across) this.list(2, (this.across = across));
    if (this.down !== down) this.list(3, (this.down = down));
    gl.uniform4i(this.at("shape"), head.columns, head.end - head.first, head.first % head.columns, cells.order.length);
    gl.uniform1i(this.at("height"), this.canvas.height);
    gl.uniform3fv(this.at("palette"), palette.flat().map((v) => v / 255));
    this.palette = palette;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.enable(gl.SCISSOR_TEST);
    gl.scissor(x0, 0, x1 - x0, this.canvas.height);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    cells.changed = null;
  }

  // upload gives it the columns that are new: those are lines of the texture.
  upload(cells) {
    const { gl } = this, { head, fresh } = cells;
    const put = (from, to) => {
      if (to > from) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, from, head.rows, to - from, gl.RED_INTEGER, gl.UNSIGNED_BYTE, cells.what.subarray(from * head.rows, to * head.rows));
    };
    this.uploads++;
    if (fresh.to - fresh.from >= head.columns) return put(0, head.columns);
    const from = fresh.from % head.columns, to = from + fresh.to - fresh.from;
    put(from, Math.min(to, head.columns));
    put(0, to - head.columns);
  }
}

// adds are what cells add to a sum.
const adds = Uint16Array.from({ length: 8 * levels }, (_, cell) => (cell === 0 ? 0 : shares[cell >> 3]));

class Plain {
  constructor(canvas) { Object.assign(this, { canvas, c: canvas.getContext("2d", { alpha: false }), kind: "canvas" }); }

  draw(cells, across, down, palette) {
    const { canvas, c } = this, { head, order, what } = cells;
    const width = canvas.width, height = canvas.height;
    const colors = Uint32Array.from(palette, ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0);
    if (this.image?.width !== width || this.image?.height !== height) this.image = c.createImageData(width, height);
    const points = new Uint32Array(this.image.data.buffer);
    const end = head.end - head.first, ring = head.first % head.columns;
    const same = this.order === order && this.across === across && this.down === down && this.palette === palette;
    const [x0, x1] = changedPoints(cells, across, same);
    const done = new Uint8Array(order.length), sums = new Uint32Array(order.length);
    for (let x = x0; x < x1; x++) {
      const left = across[x] - 1, right = Math.min(end, Math.max(left + 1, across[x + 1] - 1));
      if (left < 0 || left >= end) {
        for (let y = 0, i = x; y < height; y++, i += width) points[i] = colors[8 * levels];
        continue;
      }
      done.fill(0);
      sums.fill(0);
      for (let k = left; k < right; k++) {
        const line = ((k + ring) % head.columns) * head.rows;
        for (let r = 0; r < done.length; r++) {
          const cell = what[line + order[r]];
          done[r] |= cell;
          sums[r] += adds[cell];
        }
      }
      for (let y = 0, i = x; y < height; y++, i += width) {
        const top = down[y] - 1, bottom = Math.min(done.length, Math.max(top + 1, down[y + 1] - 1));
        let is = 0, sum = 0;
        for (let r = top; r < bottom; r++) {
          is |= done[r] & 7;
          sum += sums[r];
        }
        points[i] = colors[is === 0 ? 0 : is | levelOf(sum, (right - left) * (bottom - top)) << 3];
      }
    }
    c.putImageData(this.image, 0, 0, x0, 0, Math.max(0, x1 - x0), height);
    Object.assign(this, { order, across, down, palette });
    cells.changed = cells.fresh = null;
  }
}
