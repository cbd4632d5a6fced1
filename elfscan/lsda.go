package elfscan

import (
	"cmp"
	"slices"
)

// lsdaRef is an FDE with a language-specific data area.
type lsdaRef struct {
	lsda uint64 // its address
	addr uint64 // where the FDE starts
	end  uint64
}

// maxLSDA bounds the area whose end is not known, the last one, in bytes.
const maxLSDA = 64 << 10

// landingPads reads the call-site tables of the areas and returns the landing
// pads that a patch of some entry could hit: those in the first bytes behind
// the start of their own FDE, and those outside it. All others lie in the
// middle of functions. The list is sorted.
//
// The format is that of gcc and clang for the Itanium C++ ABI ("Exception
// Handling", the LSDA; gcc: unwind-pe.h, unwind-c.c).
func (f *file) landingPads(refs []lsdaRef) []uint64 {
	slices.SortFunc(refs, func(a, b lsdaRef) int { return cmp.Compare(a.lsda, b.lsda) })
	var pads []uint64
	for len(refs) > 0 {
		first := refs[0].lsda
		off, rest, ok := f.offset(first)
		n := 1 // those that lie in one segment are read at once
		for ok && n < len(refs) && refs[n].lsda-first < rest {
			n++
		}
		if ok {
			b, err := f.read(off, min(rest, refs[n-1].lsda-first+maxLSDA), "language-specific data")
			if err != nil {
				f.problem(err)
				return nil
			}
			for _, ref := range refs[:n] {
				pads = appendPads(pads, cursor{b: b[ref.lsda-first:], addr: ref.lsda}, ref)
			}
		}
		refs = refs[n:]
	}
	slices.Sort(pads)
	return slices.Compact(pads)
}

// nearStart is how far from an entry its window may reach, in bytes: an
// endbr64 and a jump.
const nearStart = 4 + 5

func appendPads(pads []uint64, c cursor, ref lsdaRef) []uint64 {
	base := ref.addr
	if enc := c.u8(); enc != peOmit {
		base = c.pointer(enc, 0)
	}
	if c.u8() != peOmit {
		c.uleb() // offset of the type table
	}
	enc := c.u8()
	sites := c.sub(c.uleb())
	if c.bad {
		return pads
	}
	for !sites.done() {
		sites.number(enc) // start
		sites.number(enc) // length
		pad := sites.number(enc)
		sites.uleb() // action
		if sites.bad {
			return pads
		}
		if at := base + pad; pad != 0 && (at-ref.addr < nearStart || at < ref.addr || at >= ref.end) {
			pads = append(pads, at)
		}
	}
	return pads
}
