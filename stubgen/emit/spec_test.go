package emit

import (
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// forms are all that a stub's count may be.
var forms = []Count{{}, {Threshold: 1000}, {Shared: fixture.SharedAt}, {Shared: fixture.SharedAt, Threshold: 1000}}

// spec is the stub of length bytes of code at start, which need not be a whole number
// of instructions; false if one of them cannot move.
func spec(o *stubgen.Object, start uint64, length int, c *Count, keepsFlags bool) (Spec, bool) {
	p := Spec{Entry: start, Start: start, KeepsFlags: keepsFlags}
	code := o.Code(start)
	var extent Extent
	var in x86.Inst
	for p.Moved < length {
		if x86.Decode(code[p.Moved:], &in) != nil || !Movable(&in, code[p.Moved:]) {
			return p, false
		}
		extent.Add(o, &in, code[p.Moved:], start+uint64(p.Moved))
		p.Moved += int(in.Len)
	}
	size := CountSize(keepsFlags, c.Threshold != 0, c.Shared != 0) + extent.Code()
	p.Size = WithLiterals(size, extent.Literals)
	return p, true
}

// windows are the stubs of all entries of entries.s that can move, with both kinds of
// count.
func windows(t *testing.T, c *Count) (o *stubgen.Object, all []Spec) {
	t.Helper()
	o = fixture.Load(t, fixture.Link(t, fixture.Entries))
	for i := range o.Functions {
		for _, keepsFlags := range []bool{false, true} {
			if p, ok := spec(o, o.Functions[i].Addr, stubgen.WindowSize, c, keepsFlags); ok {
				all = append(all, p)
			}
		}
	}
	return o, all
}
