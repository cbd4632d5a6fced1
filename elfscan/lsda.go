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

// landingPads reads the call-site tables of the areas and returns the landing
// pads that a patch of some entry could hit: those in the first bytes behind
// the start of their own FDE, and those outside it. All others lie in the
// middle of functions. The list is sorted.
func (f *file) landingPads(refs []lsdaRef) []uint64 {
	var pads []uint64
	err := f.eachArea(refs, func(c cursor, ref lsdaRef) { pads = appendPads(pads, c, ref) })
	if err != nil {
		f.problem(err)
		return nil
	}
	slices.Sort(pads)
	return slices.Compact(pads)
}

// eachArea reads the areas, by rising address, those that lie in one segment at once.
//
// The format is that of gcc and clang for the Itanium C++ ABI ("Exception
// Handling", the LSDA; gcc: unwind-pe.h, unwind-c.c).
func (f *file) eachArea(refs []lsdaRef, do func(cursor, lsdaRef)) error {
	slices.SortFunc(refs, func(a, b lsdaRef) int { return cmp.Compare(a.lsda, b.lsda) })
	for len(refs) > 0 {
		first := refs[0].lsda
		off, rest, ok := f.offset(first)
		n := 1
		for ok && n < len(refs) && refs[n].lsda-first < rest {
			n++
		}
		if ok {
			last := refs[n-1].lsda - first
			size, err := f.lsdaSize(off+last, rest-last)
			var b []byte
			if err == nil {
				b, err = f.read(off, last+size, "language-specific data")
			}
			if err != nil {
				return err
			}
			for _, ref := range refs[:n] {
				do(cursor{b: b[ref.lsda-first:], addr: ref.lsda}, ref)
			}
		}
		refs = refs[n:]
	}
	return nil
}

// lsdaSize is how much is read of the area at off, which has rest bytes to the end of
// its segment.
func (f *file) lsdaSize(off, rest uint64) (uint64, error) {
	const head = 64 // more than lsdaHead reads
	b, err := f.read(off, min(rest, head), "language-specific data")
	c := cursor{b: b}
	_, _, size := c.lsdaHead(0)
	return min(rest, uint64(c.pos)+min(size, rest)), err
}

// lsdaHead reads what stands in front of the call sites: what landing pads count
// from, for an FDE that starts at addr, the encoding of the sites, and their bytes.
func (c *cursor) lsdaHead(addr uint64) (base uint64, enc uint8, size uint64) {
	base = addr
	if enc := c.u8(); enc != peOmit {
		base = c.pointer(enc, 0)
	}
	if c.u8() != peOmit {
		c.uleb() // offset of the type table
	}
	return base, c.u8(), c.uleb()
}

// nearStart is how far from an entry its window may reach, in bytes: an
// endbr64 and a jump.
const nearStart = 4 + 5

func appendPads(pads []uint64, c cursor, ref lsdaRef) []uint64 {
	c.eachSite(ref, func(s CallSite) {
		if at := s.Pad; at-ref.addr < nearStart || at < ref.addr || at >= ref.end {
			pads = append(pads, at)
		}
	})
	return pads
}

// eachSite reads the call sites of an area that have a landing pad.
func (c *cursor) eachSite(ref lsdaRef, do func(CallSite)) {
	base, enc, size := c.lsdaHead(ref.addr)
	sites := c.sub(size)
	if c.bad {
		return
	}
	for !sites.done() {
		start := sites.number(enc)
		length := sites.number(enc)
		pad := sites.number(enc)
		sites.uleb() // action
		if sites.bad {
			return
		}
		if pad != 0 {
			do(CallSite{ref.addr + start, ref.addr + start + length, base + pad})
		}
	}
}
