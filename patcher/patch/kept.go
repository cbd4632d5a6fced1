package patch

import "github.com/dynprof/dynprof/internal/x86"

// Kept is a Patch in a cached plan: functions have the numbers that they have in their
// object, and its text may lie elsewhere. It has the layout of a change entry of
// internal/plancache, as a Call has that of a call entry.
type Kept struct {
	At uint32 // offset from the start of the text's pages
	Overwritten
}

// KeptSize is the size of a Kept in memory.
const KeptSize = 28

// KeptOf is p in a text that starts at start.
func KeptOf(p *Patch, start x86.RunAddr) Kept {
	return Kept{uint32(p.At - start), overwritten(p)}
}

// Patch is the patch that k was made of.
func (g Groups) Patch(k *Kept, start x86.RunAddr) Patch {
	p := Patch{At: start + x86.RunAddr(k.At), Len: uint32(k.Len), Group: g.moved(k.Group), Needs: g.moved(k.Needs), Moved: k.Moved, Kind: k.Kind}
	copy(p.Old[:], k.Old[:k.Len])
	copy(p.New[:], k.New[:k.Len])
	if k.Kind == KindSite {
		p.Kind = KindFirst
	}
	return p
}

// Call is the call that c was made of.
func (g Groups) Call(c Call) Call {
	c.Group = g.moved(c.Group)
	return c
}

func (g Groups) moved(group uint32) uint32 {
	if group == NoGroup {
		return NoGroup
	}
	return uint32(g) + group
}
