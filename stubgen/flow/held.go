package flow

import "github.com/dynprof/dynprof/internal/x86"

// What a register holds where a block begins: an address that code has loaded, on every way
// to the block, or one of these.
const (
	notSeen  = 0
	anything = 1
)

// held is what register r holds where each block begins.
func (d *dispatcher) held(r byte) []uint64 {
	if d.holds[r] != nil {
		return d.holds[r]
	}
	begin := make([]uint64, len(d.g.Blocks))
	var todo []int32
	come := func(k int32, v uint64) {
		if begin[k] == v || begin[k] == anything || v == notSeen {
			return
		}
		if begin[k] != notSeen {
			v = anything
		}
		begin[k] = v
		todo = append(todo, k)
	}
	for _, k := range d.g.roots() {
		come(k, anything)
	}
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		b := &d.g.Blocks[k]
		v := d.behind(b.First, b.End, r, begin[k])
		for _, e := range b.Succs {
			come(e.To, v)
		}
	}
	if d.holds == nil {
		d.holds = map[byte][]uint64{}
	}
	d.holds[r] = begin
	return begin
}

// behind is what r holds behind some instructions of a block, if it held v in front of them.
func (d *dispatcher) behind(first, end int32, r byte, v uint64) uint64 {
	for i := first; i < end; i++ {
		in, code := &d.g.Insts[i], d.code(i)
		switch {
		case in.Map == x86.MapLegacy && in.Op == opLea && in.Reg() == r && in.RIPRel() && in.Rex&x86.RexW != 0:
			v = in.RIPTarget(code, in.Addr)
		case in.Calls() || in.Kind == x86.Syscall:
			if x86.CallerSaved.Has(r) {
				v = anything
			}
		case in.Effects(code).Written.Has(r):
			v = anything
		}
	}
	return v
}
