// Package handover has what hotspots leaves in the memory of a process that it attaches to,
// in the shape that the code there expects: the structs of
// libdynprof/resident/attach/attach.h and base/ctl.h, which libdynprof/same.go compares.
// All words are little-endian, and addresses are the process's.
package handover

import (
	"bytes"
	"encoding/binary"
)

// Values of Attach.Word.
const (
	NotBegun = iota
	Busy
	Done
	GivenUp
)

// States of the code there: enum dp_attach_state.
const (
	NothingYet = iota
	Begins
	Counts
	Ends
	HasEnded
)

// Values of Attach.Wish, and of Attach.Outcome.
const (
	ToAttach = iota
	ToDetach
	ToPause
	ToResume
	ToAdd
)

// Outcomes.
const (
	Failed = iota // Why says it
	Again         // a thread is where nothing may be changed
	Succeeded
)

// KeepGS is no base, but that the thread's stays as it is.
const KeepGS = 1

// Place is struct dp_place: where a thread stands, with all its registers.
type Place struct {
	RIP, RSP, RAX, EFlags                                              uint64
	RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11, R12, R13, R14, R15 uint64
}

// Parked is struct dp_parked: a stopped thread.
type Parked struct {
	From, To Place
	Mask     uint64
	GS       uint64
	Request  uint64
	Tid      uint64
	Left     uint64
}

// Attach is struct dp_attach.
type Attach struct {
	Word, Stack, Wish, Outcome uint64
	Socket                     uint64

	Threads, ThreadsCount uint64
	Frames, FramesCount   uint64
	Struck, StruckCount   uint64
	LeavesStruck          uint64
	First                 uint64

	Reserve, ReserveSize, Arenas, ArenasCount, Texts, TextsCount, Undos, UndosCount uint64

	Table     uint64
	Nonce     [16]byte
	Auxv      uint64
	RDebug    uint64
	Low, High uint64
	Small     uint64
	Mark      uint64

	Companion, CompanionSize uint64
	Leaves                   uint64

	Owned, OwnedRoom, OwnedCount uint64
	Inside                       uint64
	Result                       int64
	Why                          [256]byte
}

// Range is struct dp_range.
type Range struct{ Low, High uint64 }

// Arena is struct dp_arena.
type Arena struct {
	At, Offset, Size, Pointers, Cold, Keeps uint64

	Origins, Lengths, ByText, OriginsCount uint64

	Islands, IslandsCount      uint64
	Traps, TrapsCount          uint64
	View, ViewOffset, ViewSize uint64
	Held                       uint64
}

// Text is struct dp_text. Nothing is exchanged for it.
type Text struct {
	Start, Size, Arena uint64
	Copies             [9]uint64 // three struct dp_copy
	Exchanged, _       uint32
}

// Object is struct dp_object: one that comes later.
type Object struct{ Bias, Low, High, Name, Self, Missed, Dynamic uint64 }

// Asks is struct dp_asks: what a process says that waits for a plan.
type Asks struct {
	Ctl, CtlSize, Writable, Tid uint64
	Nonce                       [16]byte
}

// What it is answered.
const (
	Begun   = 1 // the table may be changed
	Planned = 2
)

// Ctl is struct dp_ctl: what is to be planned, and the plan.
type Ctl struct {
	Reserve, ReserveSize                                                                                   uint64
	ColdEntry, KeepEntry, SiteEntry, RecordEntry, AllocatorEntry, TransferEntry, SignalEntry, ChangedEntry uint64
	_                                                                                                      [9]uint64
	Late                                                                                                   uint64
	_                                                                                                      [5]uint64
	Held, HeldSize                                                                                         uint64
	_                                                                                                      [2]uint64
	HandlesTraps, Shared                                                                                   uint64
	_                                                                                                      [2]uint64
	Objects                                                                                                uint64
	_                                                                                                      [2]uint32
	ObjectsCount, ObjectsCap                                                                               uint32
	_                                                                                                      [8]uint32
	Status                                                                                                 uint32
	ArenasCount, ArenasCap, TextsCount, TextsCap                                                           uint32
	_                                                                                                      [2]uint32
	Stop                                                                                                   uint32
	_                                                                                                      [2]uint32
	_                                                                                                      [3]uint64
	Undos, UndosCount, Arenas, Texts                                                                       uint64
	Nonce                                                                                                  [16]byte
	_                                                                                                      [4096 + 2*512]byte
}

// The beginning of struct dp_attach, which changes while somebody works.
const (
	SocketAt = 4 * 8
	HeadSize = 5 * 8
)

// Where in struct dp_ctl what is answered stands: Status, ArenasCount and TextsCount with what is
// between; Stop; Undos and UndosCount.
const (
	StatusAt = 34*8 + 12*4
	StopAt   = 34*8 + 19*4
	UndosAt  = 34*8 + 22*4 + 3*8
)

// Sizes of the structs in bytes.
const (
	PlaceSize  = 18 * 8
	ParkedSize = 41 * 8
	AttachSize = 38*8 + 256
	RangeSize  = 2 * 8
	ArenaSize  = 18 * 8
	TextSize   = 13 * 8
	AsksSize   = 4*8 + 16
	ObjectSize = 7 * 8
	CtlSize    = 34*8 + 22*4 + 7*8 + 16 + 4096 + 2*512
)

// Bytes is v, one of the structs or a list of them, as the process reads it.
func Bytes(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// Read is the other way round: v is a pointer to a struct, or a list.
func Read(b []byte, v any) error {
	return binary.Read(bytes.NewReader(b), binary.LittleEndian, v)
}
