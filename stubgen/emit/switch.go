package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
)

// A function that runs as one of two copies, with counters and without, has a switch, which
// can be turned while threads come by (libdynprof/resident/stubs/switch.c): slots, each in one
// aligned quad that a single store changes. One is behind the function's count, one in front of
// each place of the counted copy that old text leads to:
//
//	on:     nop   dword [rax+rax+d]     ; 8 bytes, and the counted copy follows
//	off:    jmp   plain                 ; int3, int3, int3
//
// d is the displacement of the jump. In front of the second copy, here the plain one, are four
// words that tell of the switch, at second+list those that say where the slots are. The first is
// that behind the count, which leads to the second copy, so that it can be found either way.
// Where a thread is in a copy it goes on in that until it returns, or comes back from a call.
//
// Where functions are counted rarely the plain copy is the first, and slots pass to it: a jump
// at each of them costs as much as the counters do.

// What is in front of the second copy, as offsets from it, and sizes. All numbers are 32 bits,
// little-endian.
const (
	switchHead  = -16
	switchMark  = -16 // switchMagic, or switchRare
	switchCount = -12 // slots
	switchBack  = -8  // distance from the first slot to it
	switchList  = -4  // distance to the list: of each slot as in switchBack

	switchMagic = 0x68637773
	switchRare  = 0x72637773 // the copy without counters is the first

	switchSlotSize = 8
	switchListed   = 4 // bytes of the list, for a slot
)

// switchNop is what a slot begins with that passes to the first copy.
var switchNop = []byte{0x0f, 0x1f, 0x84, 0x00}

const switchAlign = 8

// SlotRoom is the most bytes that a slot takes.
const SlotRoom = switchAlign - 1 + switchSlotSize

// SwitchSize is the most bytes that a switch with so many slots takes, but for the copies.
func SwitchSize(slots int) int {
	return (SlotRoom+JumpSize+switchListed)*slots + switchAlign - 1 - switchHead
}

// Switch writes one.
type Switch struct {
	On   bool // it is on at first
	Rare bool // the copy without counters is the first

	a      *x86.Asm
	runs   *Runs
	slots  []int // offsets
	second int
}

// passes reports whether slots lead to the first copy.
func (s *Switch) passes() bool { return s.On != s.Rare }

// Begin writes the first slot, in front of the first copy, of which the first instruction
// stood at from.
func (s *Switch) Begin(a *x86.Asm, runs *Runs, from uint64) {
	s.a, s.runs = a, runs
	runs.plain = s.Rare
	if pad := int(-a.PC()) & (switchAlign - 1); pad > 0 {
		runs.between(a, from, pad)
		a.LongNop(pad)
	}
	s.slot(from)
}

// Slot writes one more, where control does not come to from what is in front of it, and returns
// where it is. What follows stood at from.
func (s *Switch) Slot(from uint64) x86.RunAddr {
	s.a.Align(switchAlign)
	at := s.a.PC()
	s.slot(from)
	return at
}

func (s *Switch) slot(from uint64) {
	s.runs.between(s.a, from, switchSlotSize)
	s.slots = append(s.slots, s.a.Len())
	if s.passes() {
		s.a.Raw(switchNop...)
		s.a.Raw(0, 0, 0, 0)
	} else {
		s.a.Raw(0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc)
	}
}

// Second is written in front of the second copy.
func (s *Switch) Second() {
	s.a.Align(switchAlign)
	s.a.Quad(0)
	s.a.Quad(0)
	s.second = s.a.Len()
	s.runs.plain = !s.Rare
}

// End writes what has not been known before: to is where in the second copy each slot leads.
func (s *Switch) End(to []x86.RunAddr) {
	s.a.Align(switchListed)
	list := s.a.Len()
	for i, at := range s.slots {
		end := at + JumpSize
		if s.passes() {
			end = at + switchSlotSize
		}
		s.a.PutDisp32(end, int32(to[i]-s.a.PC().Add(at+JumpSize-s.a.Len())))
		s.word(s.second - at)
	}
	magic := switchMagic
	if s.Rare {
		magic = switchRare
	}
	for at, v := range map[int]int{switchMark: magic, switchCount: len(s.slots), switchBack: s.second - s.slots[0], switchList: list - s.second} {
		s.a.PutDisp32(s.second+at+4, int32(v))
	}
}

func (s *Switch) word(v int) {
	s.a.Raw(0, 0, 0, 0)
	s.a.PutDisp32(s.a.Len(), int32(v))
}

// between notes code that stands for no instruction, in front of what stood at from.
func (r *Runs) between(a *x86.Asm, from uint64, size int) {
	r.start(a, from, 0, false, originWay)
	r.note(0, size)
}
