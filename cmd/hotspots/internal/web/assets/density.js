// How much of what a cell, or a point of several, stands for was touched: a cell is what was done
// (1 read, 2 written, 4 executed) and 8 times its level, of which the last is all, and each other
// one half an octave below the next (cmd/hotspots/internal/density). Sums of shares are whole
// numbers, so that both ways to draw have the same.

export const levels = 16;
const all = 256; // shares of the cells of the largest view have room in 32 bits

// least is the least sum of a cell of a level.
export const least = Array.from({ length: levels }, (_, k) => (k === 0 ? 0 : Math.ceil(all * 2 ** ((k - levels + 1) / 2))));

// shares are what touched cells of a level add to a sum: between the least of it and of the next.
export const shares = Array.from({ length: levels }, (_, k) => (k === levels - 1 ? all : Math.floor(all * 2 ** ((k - levels + 1.5) / 2))));

// levelOf is that of so many cells with a sum of shares.
export function levelOf(sum, cells) {
  let level = levels - 1;
  while (sum < least[level] * cells) level--;
  return level;
}

// part is which part of so many cells was touched, as exactly as that is known.
export const part = (sum, cells) => sum / cells / all;

const faintest = 0.4;

// shaded are the colours of a palette, [r, g, b] by what was done, for each level; its last, which
// stands for no time, is the last of these, too.
export const shaded = (palette) => [
  ...Array.from({ length: 8 * levels }, (_, cell) => palette[cell & 7].map((v) => Math.round(v * (faintest + (1 - faintest) * (cell >> 3) / (levels - 1))))),
  palette[8],
];

// even are those where it makes no difference how much was touched.
export const even = (palette) => [...Array.from({ length: 8 * levels }, (_, cell) => palette[cell & 7]), palette[8]];
