// Package patch makes the lists of changes that the target applies to its text, and
// of what takes them back.
package patch

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Patch is a change of up to 8 bytes of the target's text, to be made only if
// the old bytes are still there. Old undoes it.
//
// The patches of a group, those of one function, are made all or none; a patch
// that needs another group only if that is made: it stands in a body that is
// dead only then.
//
// The target reads it as an Overwritten.
type Patch struct {
	At    x86.RunAddr
	Old   [8]byte
	New   [8]byte
	Len   uint32
	Group uint32 // number of the function in the table, or NoGroup
	Needs uint32 // a group, or NoGroup
	Moved Span   // what runs elsewhere from At on, if more than Len
	Kind  Kind
}

// Kind is what a patch has to wait for when it is taken back.
type Kind uint8

// Kinds of patches. The jumps of islands, and those to what is evicted around
// them, go when nothing leads to the islands any more. Calls are none of a
// function's patches (Call). Sites, those of system calls and the hook, stay as long
// as anything may be counted: only an Undo has that kind.
const (
	KindFirst Kind = iota
	KindIsland
	KindCall
	KindSite
)

// NoGroup is for a patch that stands alone. SignalSites is the group of all
// signal sites of the list: without them there must be no traps.
const (
	NoGroup     = 0xffffffff
	SignalSites = 0xfffffffe
)

const (
	jumpLen  = 5
	shortLen = 2
	trapLen  = 1
)

// Groups tells the number of an object's function in the table.
type Groups uint32

func (g Groups) of(function int32) uint32 {
	if function == entry.NoHost {
		return NoGroup
	}
	return uint32(g) + uint32(function)
}

// change is a patch at link-time address from.
func change(o *stubgen.Object, from uint64, size uint32, group, needs uint32) Patch {
	p := Patch{At: o.Run(from), Len: size, Group: group, Needs: needs}
	copy(p.Old[:size], o.Code(from))
	return p
}

// behind marks a patch that is taken back behind those that lead to it.
func behind(p Patch) Patch {
	p.Kind = KindIsland
	return p
}

// jump is the patch that overwrites the 5 bytes at from with `jmp to`.
func jump(o *stubgen.Object, from uint64, to x86.RunAddr, group, needs uint32) Patch {
	p := change(o, from, jumpLen, group, needs)
	p.New[0] = 0xe9
	binary.LittleEndian.PutUint32(p.New[1:], uint32(to-p.At-jumpLen))
	return p
}

// trap is the patch that overwrites the first byte at from with int3; the trap
// handler knows where to go on (Traps).
func trap(o *stubgen.Object, from uint64, group uint32) Patch {
	p := change(o, from, trapLen, group, SignalSites)
	p.New[0] = 0xcc
	return p
}

// Call is a call, or tail call, of a counted function, to be led to that one's stub if it still
// is as it was, and if the function's group is made. The target reads it as a Listed and
// a Led.
type Call struct {
	At     uint32 // offset of its displacement from the start of the text's pages
	Group  uint32
	Old    uint32 // displacement
	New    uint32
	BySlot bool // it goes by a jump of the PLT
}

// LeadCall returns the change of a call to a function whose stub is given, for a
// text that starts at start. It reports false where that is not in reach, or p
// overlaps the call, which is then none any more.
func (g Groups) LeadCall(o *stubgen.Object, c survey.Call, stub, start x86.RunAddr, p *Patch) (Call, bool) {
	at := o.Run(c.At)
	if p != nil && p.At < at+survey.CallSize && at < p.At+x86.RunAddr(p.Len) {
		return Call{}, false
	}
	field := at + 1
	disp := int64(stub) - int64(at+survey.CallSize)
	if disp != int64(int32(disp)) || field-start > math.MaxUint32 {
		return Call{}, false
	}
	old := binary.LittleEndian.Uint32(o.Code(c.At + 1))
	direct := uint32(o.Functions[c.To].Addr - c.At - survey.CallSize)
	return Call{uint32(field - start), g.of(c.To), old, uint32(disp), old != direct}, true
}

// SignalSite is the patch that sends a signal site to its thunk.
func SignalSite(o *stubgen.Object, site stubgen.SignalSite, thunk x86.RunAddr) Patch {
	return jump(o, site.Addr, thunk, SignalSites, NoGroup)
}

// KernelSite is the patch that sends a kernel site to its thunk.
func KernelSite(o *stubgen.Object, site stubgen.KernelSite, thunk x86.RunAddr) Patch {
	return jump(o, site.Addr, thunk, NoGroup, NoGroup)
}

// Transfer is the patch that sends what follows a system call to its thunk.
func Transfer(o *stubgen.Object, t stubgen.Transfer, thunk x86.RunAddr) Patch {
	return jump(o, t.Addr, thunk, NoGroup, NoGroup)
}

// Allocator is the patch that sends calls of a function that hands out blocks, or takes them
// back, to its thunk.
func Allocator(o *stubgen.Object, f stubgen.Allocator, thunk x86.RunAddr) Patch {
	p := jump(o, f.Window, thunk, NoGroup, NoGroup)
	p.Moved = SpanOf(f.Bytes)
	return p
}

// Hook is the patch that has other code run in place of the function at
// link-time address at, which must be no longer than a ret and padding.
func Hook(o *stubgen.Object, at uint64, to x86.RunAddr) Patch {
	return jump(o, at, to, NoGroup, NoGroup)
}

// Append adds the patches of one function's plan: its entry, which sends
// arrivals to its stub, what must lead into the stub past the count, and what
// sends neighbours' instructions to their copies.
func (g Groups) Append(list []Patch, o *stubgen.Object, p *entry.Plan, leads []entry.Lead, stub *emit.Stub) []Patch {
	group := g.of(p.Function)
	first := len(list)
	switch d := p.Detour; {
	case d != nil && d.Trap:
		list = append(list, trap(o, p.Start, group))
	case d != nil && d.Island != 0:
		list = append(list, hop(o, p.Start, d.Island, group), behind(jump(o, d.Island, stub.At, group, g.of(d.Host))))
	default:
		list = append(list, jump(o, p.Start, stub.At, group, NoGroup))
	}
	list[first].Moved = SpanOf(uint64(p.Moved))
	if p.Detour != nil {
		for _, e := range p.Detour.Evicted {
			if e.Trap {
				list = append(list, behind(trap(o, e.Addr, group)))
			} else {
				list = append(list, behind(jump(o, e.Addr, stub.At.Add(int(e.Offset)), group, NoGroup)))
			}
			list[len(list)-1].Moved = SpanOf(uint64(e.Len))
		}
	}
	for i := range leads {
		l := &leads[i]
		to := stub.Place(p.Start, l.To)
		switch {
		case l.Island != 0:
			list = append(list, lead(o, l, 1, o.Run(l.Island), group), behind(jump(o, l.Island, to, group, g.of(l.Host))))
		case l.Wide:
			list = append(list, jump(o, l.Addr, to, group, NoGroup))
		default:
			list = append(list, lead(o, l, 4, to, group))
		}
	}
	return list
}

// PatchesOf is the number of patches that Append adds.
func PatchesOf(p *entry.Plan, leads []entry.Lead) int {
	n := 1 + len(leads)
	if d := p.Detour; d != nil {
		n += len(d.Evicted)
		if d.Island != 0 && !d.Trap {
			n++
		}
	}
	for i := range leads {
		if leads[i].Island != 0 {
			n++
		}
	}
	return n
}

// Trap is where a trap stands, and where its handler goes on: a struct dp_trap
// of libdynprof/resident/base/ctl.h.
type Trap struct{ At, To x86.RunAddr }

// TrapSize is the size of a Trap in memory.
const TrapSize = 16

// AppendTraps adds the traps of one function's plan.
func AppendTraps(list []Trap, o *stubgen.Object, p *entry.Plan, stub *emit.Stub) []Trap {
	if p.Detour == nil {
		return list
	}
	if p.Detour.Trap {
		list = append(list, Trap{o.Run(p.Start), stub.At})
	}
	for _, e := range p.Detour.Evicted {
		if e.Trap {
			list = append(list, Trap{o.Run(e.Addr), stub.At.Add(int(e.Offset))})
		}
	}
	return list
}

// TrapsOf is the number of traps that AppendTraps adds.
func TrapsOf(p *entry.Plan) int {
	var stub emit.Stub
	return len(AppendTraps(nil, &stubgen.Object{}, p, &stub))
}

// WriteTraps writes traps to b, in the order of their addresses.
func WriteTraps(b []byte, list []Trap) {
	slices.SortFunc(list, func(a, b Trap) int { return cmp.Compare(a.At, b.At) })
	for i, t := range list {
		binary.LittleEndian.PutUint64(b[TrapSize*i:], uint64(t.At))
		binary.LittleEndian.PutUint64(b[TrapSize*i+8:], uint64(t.To))
	}
}

// hop is the patch that overwrites the 2 bytes at from with a short `jmp to`.
func hop(o *stubgen.Object, from, to uint64, group uint32) Patch {
	p := change(o, from, shortLen, group, NoGroup)
	p.New[0], p.New[1] = 0xeb, byte(to-from-shortLen)
	return p
}

// lead is the patch that changes a branch's displacement, its last field bytes.
func lead(o *stubgen.Object, l *entry.Lead, field int, to x86.RunAddr, group uint32) Patch {
	p := change(o, l.Addr+uint64(l.Len)-uint64(field), uint32(field), group, NoGroup)
	disp := uint32(to - p.At - x86.RunAddr(field))
	if field == 1 {
		p.New[0] = byte(disp)
	} else {
		binary.LittleEndian.PutUint32(p.New[:], disp)
	}
	return p
}

// Sort puts patches in address order.
func Sort(patches []Patch) {
	slices.SortFunc(patches, func(a, b Patch) int { return cmp.Compare(a.At, b.At) })
}
