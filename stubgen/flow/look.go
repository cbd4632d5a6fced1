package flow

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// look is what one goroutine finds of the addresses that functions refer to.
type look struct {
	obj       *stubgen.Object
	low, high uint64 // text
	refs      []ref
	answers   []uint64 // callees of calls behind which flags may be read
	walk      survey.FlagsWalk
}

// ref is an address of code, in the middle of a function or in a part, that function
// from refers to.
type ref struct {
	from int32
	ways Ways // ByBranch or ByPointer
	call bool
	sure bool // as in arrival
	to   uint64
}

func newLook(o *stubgen.Object) *look {
	l := &look{obj: o}
	if n := len(o.Text); n > 0 {
		l.low, l.high = o.Text[0].Addr, o.Text[n-1].End()
	}
	return l
}

// function goes over function i. Bytes that do not decode end it: such a unit has no
// graph, and what it may jump to is looked for no further than its survey did.
func (l *look) function(i int) {
	f := &l.obj.Functions[i]
	code := l.obj.Body(i)
	var in x86.Inst
	for at := 0; at < len(code); at += int(in.Len) {
		if x86.Decode(code[at:], &in) != nil {
			at++
			in.Len = 0
			continue
		}
		l.instruction(int32(i), &in, code[at:], f.Addr+uint64(at))
	}
}

func (l *look) instruction(i int32, in *x86.Inst, code []byte, pc uint64) {
	switch in.Kind {
	case x86.Jcc, x86.Jmp, x86.Loop, x86.Call, x86.Xbegin:
		if to := in.BranchTarget(code, pc); to-l.obj.Functions[i].Addr >= l.obj.Functions[i].Size || in.Kind == x86.Call {
			l.note(ref{i, ByBranch, in.Kind == x86.Call, true, to})
		}
		if in.Kind == x86.Call && l.walk.Live(l.obj, pc+uint64(in.Len)) {
			l.answers = append(l.answers, in.BranchTarget(code, pc))
		}
		return
	}
	switch {
	case in.RIPRel():
		l.note(ref{i, ByPointer, false, true, in.RIPTarget(code, pc)})
	case l.obj.Absolute && in.ImmSize == 4:
		l.note(ref{i, ByPointer, false, false, uint64(binary.LittleEndian.Uint32(code[in.ImmOff:]))})
	case l.obj.Absolute && in.ImmSize == 8: // -mcmodel=large
		l.note(ref{i, ByPointer, false, false, binary.LittleEndian.Uint64(code[in.ImmOff:])})
	}
}

// note keeps what leads into a part, or to the middle of a function.
func (l *look) note(r ref) {
	if r.to-l.low >= l.high-l.low {
		return
	}
	to := within(l.obj, r.to)
	if to < 0 || r.to == l.obj.Functions[to].Addr && !mayBePart(l.obj, to) {
		return
	}
	l.refs = append(l.refs, r)
}

// mayBePart reports whether a function may turn out to be a part of another.
func mayBePart(o *stubgen.Object, i int) bool {
	return o.Functions[i].Name == "" || o.Functions[i].Excluded != 0
}

// arrive lists where control may come to units from outside: to the middle of one from
// another unit, by pointers, and by the unwinder.
func (p *Program) arrive(found []*look) {
	add := func(at uint64, ways Ways, sure bool) { p.arrivals = append(p.arrivals, arrival{at, ways, sure}) }
	for _, l := range found {
		for _, r := range l.refs {
			to := p.UnitAt(r.to)
			if to < 0 || p.units[to].Entry() == r.to {
				continue
			}
			own := p.UnitAt(p.obj.Functions[r.from].Addr) == to
			if own && r.ways == ByBranch && !r.call { // an edge
				continue
			}
			add(r.to, r.ways, r.sure)
		}
	}
	for _, at := range p.obj.CodePointers {
		add(at, ByPointer, true)
	}
	for _, at := range p.obj.LandingPads {
		add(at, ByUnwind, true)
	}
	for i := range p.sites {
		add(p.sites[i].Pad, ByUnwind, true)
	}
	if p.obj.Absolute {
		p.words(add)
	}
	slices.SortFunc(p.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	p.arrivals = merge(p.arrivals)
}

// words takes every aligned word of data that may be an address of code for one: in a
// program that is not position independent they have no relocations.
func (p *Program) words(add func(at uint64, ways Ways, sure bool)) {
	if len(p.places) == 0 {
		return
	}
	low, high := p.places[0].Low, p.places[len(p.places)-1].High
	for _, s := range p.obj.Data {
		data := s.Code[min(-s.Addr&7, uint64(len(s.Code))):]
		for ; len(data) >= 8; data = data[8:] {
			if word := binary.LittleEndian.Uint64(data); word-low < high-low {
				add(word, ByPointer, false)
			}
		}
	}
}

// merge makes one of the arrivals at each address, of a sorted list.
func merge(list []arrival) []arrival {
	kept := list[:0]
	for _, a := range list {
		if n := len(kept); n > 0 && kept[n-1].at == a.at {
			kept[n-1].ways |= a.ways
			kept[n-1].sure = kept[n-1].sure || a.sure
			continue
		}
		kept = append(kept, a)
	}
	return slices.Clip(kept)
}

// arrivalsIn lists the arrivals in [low, high).
func (p *Program) arrivalsIn(low, high uint64) []arrival {
	by := func(a arrival, at uint64) int { return cmp.Compare(a.at, at) }
	first, _ := slices.BinarySearchFunc(p.arrivals, low, by)
	end, _ := slices.BinarySearchFunc(p.arrivals, high, by)
	return p.arrivals[first:end]
}
