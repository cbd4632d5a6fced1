package emit

import "slices"

// FetchLine is a line of the instruction cache, in bytes.
const FetchLine = 64

// Packer gives stubs their places, each at or behind At. A stub that fits into a
// fetch line is not spread over two, which costs 0.3 to 0.4 ns a call
// (docs/stubs.md). The gaps that this leaves go to smaller stubs that come soon.
type Packer struct {
	At   int // where the last one ends
	gaps []gap
}

type gap struct{ from, to int }

// keptGaps is how many gaps are tried.
const keptGaps = 8

// Place returns where a stub of size bytes goes, with front bytes before it.
func (p *Packer) Place(front, size int) int {
	for i, g := range p.gaps {
		at := aligned(g.from) + front
		if at+size > g.to || spread(at, size) {
			continue
		}
		p.gaps[i].from = at + size
		if g.to-aligned(at+size) < Alignment {
			p.gaps = slices.Delete(p.gaps, i, i+1)
		}
		return at
	}
	at := aligned(p.At) + front
	if spread(at, size) {
		next := (at + FetchLine - 1) / FetchLine * FetchLine
		if next-front-aligned(p.At) >= Alignment {
			if len(p.gaps) == keptGaps {
				p.gaps = slices.Delete(p.gaps, 0, 1)
			}
			p.gaps = append(p.gaps, gap{p.At, next - front})
		}
		at = next
	}
	p.At = at + size
	return at
}

// Seal has all stubs that come later lie behind those that are there.
func (p *Packer) Seal() { p.gaps = p.gaps[:0] }

func aligned(at int) int { return (at + Alignment - 1) / Alignment * Alignment }

// spread reports whether a stub there lies on more lines than it must.
func spread(at, size int) bool {
	return (at+size-1)/FetchLine-at/FetchLine > (size-1)/FetchLine
}
