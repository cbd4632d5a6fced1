package patcher

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Patch is a change of up to 8 bytes of the target's text, to be made only if
// the old bytes are still there. Old undoes it.
//
// It has the layout of struct dp_patch in libdynprof/ctl.h: the list is built
// in the memory that the target reads it from.
type Patch struct {
	At  x86.RunAddr
	Old [8]byte
	New [8]byte
	Len uint32
	_   uint32
}

const jumpLen = 5

// jump is the patch that overwrites the 5 bytes at link-time address from with
// `jmp to`.
func jump(o *stubgen.Object, from uint64, to x86.RunAddr) Patch {
	p := Patch{At: o.Run(from), Len: jumpLen}
	copy(p.Old[:jumpLen], o.Code(from))
	p.New[0] = 0xe9
	binary.LittleEndian.PutUint32(p.New[1:], uint32(to-p.At-jumpLen))
	return p
}

// Entry is the patch that sends arrivals at p's window to its stub.
func Entry(o *stubgen.Object, p *stubgen.Plan, stub stubgen.Stub) Patch {
	return jump(o, p.Start, stub.At)
}

// CloneSite is the patch that sends a clone site to its thunk.
func CloneSite(o *stubgen.Object, site stubgen.CloneSite, thunk x86.RunAddr) Patch {
	return jump(o, site.Addr, thunk)
}

// Loop is the patch that leads one of the function's own branches to its entry
// behind the count: only the displacement changes.
func Loop(o *stubgen.Object, l stubgen.Loop, stub stubgen.Stub) Patch {
	const size = 4
	field := l.Len - size
	p := Patch{At: o.Run(l.Addr).Add(field), Len: size}
	copy(p.Old[:size], o.Code(l.Addr)[field:])
	binary.LittleEndian.PutUint32(p.New[:], uint32(stub.At.Add(int(stub.Body))-p.At-size))
	return p
}

// Sort puts patches in address order.
func Sort(patches []Patch) {
	slices.SortFunc(patches, func(a, b Patch) int { return cmp.Compare(a.At, b.At) })
}
