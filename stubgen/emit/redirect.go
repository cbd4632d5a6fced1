package emit

import (
	"encoding/binary"
	"math"

	"github.com/dynprof/dynprof/internal/x86"
)

// Sizes of the front of a redirectable stub: the code in front of it, which its
// first two bytes lead to once they are a short jump. Multiples of Alignment.
const (
	frontPlain = 48
	frontFlags = 64
)

// PointersSize is the size of what a redirectable stub's front jumps by: words in
// memory of the process's own, since a forked sibling may not have the code
// that they lead to. All numbers are little-endian.
const PointersSize = 48

const (
	pointerArrive = 0  // u64, where arrivals go: the front's count
	pointerNext   = 8  // u64, where those go that are counted: the stub's threshold check
	pointerOn     = 16 // u64, where they go when all is done: the displaced instructions, or new code
	pointerLap    = 24 // i64, calls until the lap is over
	pointerCode   = 32 // u64, new code that is called by way of the keeper
	pointerKeep   = 40 // u64, the keep block (EmitKeep); or keepNothing and those behind it

	noLap = math.MaxInt64
)

// front writes the front of the stub at e.asm's beginning, whose displaced
// instructions start at body; next is its threshold check. Without live flags:
//
//	-48     inc   qword gs:[counter]
//	        jmp   *next
//	-33     jmp   *arrive              ; the short jump leads here
//	-20     lock dec qword [lap]
//	        jz    cold
//	 -6     jmp   *on
//
// With them, where next, lap and cold path run between the saving of the flags
// and their restoring:
//
//	-64     lea   rsp, [rsp-128]
//	        push  rax
//	        lahf
//	        seto  al
//	        inc   qword gs:[counter]
//	        jmp   *next
//	-39     jmp   *arrive              ; the short jump leads here
//	-32     lock dec qword [lap]
//	        jz    cold
//	-18     add   al, 0x7f
//	        sahf
//	        pop   rax
//	        lea   rsp, [rsp+128]
//	 -6     jmp   *on
//
// It returns where the cold path leads back to. libdynprof/resident/base/stub.h is generated from
// what this writes.
func (e *Emitter) front(p *Spec, stub *Stub, c Count, next x86.RunAddr) (back x86.RunAddr, err error) {
	a := &e.before
	start := stub.At.Add(-p.Front)
	a.Reset(c.Front, start)
	if p.KeepsFlags {
		saveFlags(a)
	}
	a.IncGS(c.Counter)
	a.JmpMemAt(c.PointersAt + pointerNext)
	a.JmpMemAt(c.PointersAt + pointerArrive)
	a.PadTo(p.Front - lapSize(p.KeepsFlags))
	a.LockDecAt(c.PointersAt + pointerLap)
	a.JccTo(x86.CondE, c.ColdAt)
	back = a.PC()
	if p.KeepsFlags {
		restoreFlags(a)
	}
	a.JmpMemAt(c.PointersAt + pointerOn)
	le := binary.LittleEndian
	le.PutUint64(c.Pointers[pointerArrive:], uint64(start))
	le.PutUint64(c.Pointers[pointerNext:], uint64(next))
	le.PutUint64(c.Pointers[pointerOn:], uint64(stub.At.Add(int(stub.Body))))
	le.PutUint64(c.Pointers[pointerLap:], noLap)
	return back, a.Finish()
}

// lapSize is the size of the front from the lap on.
func lapSize(keepsFlags bool) int {
	if keepsFlags {
		return 8 + 6 + 12 + 6
	}
	return 8 + 6 + 6
}

// FrontSize is Spec.Front of a redirectable stub.
func FrontSize(keepsFlags bool) int {
	if keepsFlags {
		return frontFlags
	}
	return frontPlain
}
