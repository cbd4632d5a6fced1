package emit

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Origins tells of the code in an arena where it came from: a signal handler
// sees the interrupted instruction at the address where it always was
// (libdynprof/resident/signals/signals.c). Records are in the order of the addresses where the
// code runs.
type Origins struct {
	Base    x86.RunAddr // the arena
	Records []byte      // OriginSize bytes for each run of instructions
	Lengths []byte      // two bytes an instruction: of the original, of the copy; those of a long run begin with longSize bytes
}

// OriginSize is the size of a record, in bytes; all numbers are little-endian.
const OriginSize = 16

// Where the fields of a record are. libdynprof knows them by base/stub.h.
const (
	originAt      = 0  // u32, where the stub, with its front, or the copy of evicted instructions, starts in the arena
	originFrom    = 4  // i32, original run address of the first instruction, from the arena's start
	originLengths = 8  // u32, index of its lengths
	originFew     = 12 // u16, instructions
	originSmall   = 14 // u8, bytes of front and count in front of the copies
	originFlags   = 15 // u8
)

// A run for which two of these are too small is a long one. It has 0 in their places,
// and its lengths begin with longSize bytes, a multiple of an instruction's lengths.
const (
	longMany  = 0 // u32, instructions
	longCount = 4 // u32, bytes of front and count
	longSize  = 8
)

// Flags of a record. The top bit of an original length marks a call, whose copy
// moves the stack pointer in between, the next an instruction in front of which a register has
// what a jump table of the copy's own has: an address there, or a distance to it.
const (
	originKeepsFlags = 1 << iota               // the count saves the status flags
	originGo                                   // the object has a Go runtime
	originFront                                // the stub has a front (redirect.go)
	originLong                                 // instructions and count are in front of the lengths
	originCopy                                 // it belongs to a whole function, whose stub is the last record in front of it without this flag
	originWay                                  // it counts a way to an instruction, and has none itself; or it is of a copy without counters (switch.go)
	originNote                                 // it notes the callee of the call, or jump, at its beginning (callees.go); with originWay it is what is not in front of that
	originTrip                                 // it starts, counts or ends an execution of a loop (trips.go), and has no instructions; without a count it is the end's cold part
	originTouch      = originNote | originTrip // both: it notes which pages the instruction at its beginning touches (touch.go), or records it; with originWay it has no instructions; without a count it is what calls the slow path for a record
	originCall       = 0x80
	originAimed      = 0x40
)

// add appends the record of the instructions whose lengths were added since
// lengths was the number of bytes of them.
func (s *Origins) add(at, from x86.RunAddr, count int, flags byte, lengths int) {
	n := (len(s.Lengths) - lengths) / 2
	if n > math.MaxUint16 || count > math.MaxUint8 {
		var long [longSize]byte
		binary.LittleEndian.PutUint32(long[longMany:], uint32(n))
		binary.LittleEndian.PutUint32(long[longCount:], uint32(count))
		s.Lengths = slices.Insert(s.Lengths, lengths, long[:]...)
		n, count, flags = 0, 0, flags|originLong
	}
	var r [OriginSize]byte
	le := binary.LittleEndian
	le.PutUint32(r[originAt:], uint32(at-s.Base))
	le.PutUint32(r[originFrom:], uint32(from-s.Base))
	le.PutUint32(r[originLengths:], uint32(lengths))
	le.PutUint16(r[originFew:], uint16(n))
	r[originSmall], r[originFlags] = byte(count), flags
	s.Records = append(s.Records, r[:]...)
}

// AddThunk adds the record of a kernel site's thunk (EmitThunk), which stands for
// all of the site. What leads to the slow path is as if it were in front of the
// system call.
func (s *Origins) AddThunk(o *stubgen.Object, site stubgen.KernelSite, at x86.RunAddr) {
	start := len(s.Lengths)
	s.plain([]byte(site.Setup))
	s.Lengths = append(s.Lengths, 0, thunkLea, 0, thunkJump+homeSize, syscallSize, syscallSize, 0, thunkLea)
	s.plain([]byte(site.Behind))
	s.add(at, o.Run(site.Addr), 0, flagsOf(o), start)
}

// AddTransferThunk adds the record of a thunk of EmitTransferThunk, which stands for the
// comparison.
func (s *Origins) AddTransferThunk(o *stubgen.Object, t stubgen.Transfer, at x86.RunAddr) {
	start := len(s.Lengths)
	s.Lengths = append(s.Lengths, 0, thunkLea, 0, thunkJump+2*homeSize, 0, thunkLea)
	s.plain([]byte(t.Compares))
	s.add(at, o.Run(t.Addr), 0, flagsOf(o), start)
}

// AddSignalThunk adds the record of a signal site's thunk (EmitSignalThunk), which
// stands for what is in front of the system call.
func (s *Origins) AddSignalThunk(o *stubgen.Object, site stubgen.SignalSite, at x86.RunAddr) {
	start := len(s.Lengths)
	s.plain(o.Code(site.Addr)[:movSize+int(site.Between)])
	s.Lengths = append(s.Lengths, 0, thunkLea, 0, thunkJump)
	s.add(at, o.Run(site.Addr), 0, flagsOf(o), start)
}

// appendMoved adds the lengths of an instruction whose copy takes so many bytes. What
// follows a syscall there runs when that has been made.
func appendMoved(lengths []byte, in *x86.Inst, copied int) []byte {
	switch {
	case isCall(in):
		return append(lengths, in.Len|originCall, byte(copied))
	case isSyscall(in):
		return append(lengths, in.Len, in.Len, 0, byte(copied)-in.Len)
	}
	return append(lengths, in.Len, byte(copied))
}

// plain adds the lengths of instructions whose copies are as long.
func (s *Origins) plain(code []byte) {
	var in x86.Inst
	for ; len(code) > 0; code = code[in.Len:] {
		x86.DecodeAgain(code, &in)
		s.Lengths = append(s.Lengths, in.Len, in.Len)
	}
}

func flagsOf(o *stubgen.Object) byte {
	if o.Go {
		return originGo
	}
	return 0
}

// Sizes of a thunk's lea to %rcx, its jmp *literal(%rip), and the address in
// front of its system call.
const thunkLea, thunkJump, homeSize = 7, 6, 8

// ByText lists the numbers of records in the order of the text that they stand
// for. Of several that stand for the same, ways to it come first, then the parts of a whole
// function's copy, in the order in which they run, then the stub, which has its first
// instructions.
func ByText(records []byte) []uint32 {
	const kinds, number = 2, 30 // bits
	keys := make([]uint64, len(records)/OriginSize)
	for i := range keys {
		r := records[i*OriginSize:]
		from := binary.LittleEndian.Uint32(r[originFrom:]) ^ 1<<31 // it is signed
		kind := uint64(^r[originFlags] / originCopy % (1 << kinds))
		keys[i] = (uint64(from)<<kinds|kind)<<number | uint64(i)
	}
	sortFrom(keys, number)
	order := make([]uint32, len(keys))
	for i, k := range keys {
		order[i] = uint32(k % (1 << number))
	}
	return order
}

// What ByText takes for kinds: two bits of flags that are neighbours.
const _ = uint8(originWay/originCopy-2) + uint8(2-originWay/originCopy)

// sortFrom sorts keys by their bits from one on, those that are alike there in the order that they
// are in: there may be ten millions.
func sortFrom(keys []uint64, bit int) {
	const digit = 11
	other := make([]uint64, len(keys))
	for ; bit < 64; bit += digit {
		var ends [1 << digit]int
		for _, k := range keys {
			ends[k>>bit%(1<<digit)]++
		}
		if len(keys) > 0 && ends[keys[0]>>bit%(1<<digit)] == len(keys) {
			continue // all are alike
		}
		at := 0
		for d, n := range ends {
			ends[d], at = at, at+n
		}
		for _, k := range keys {
			d := k >> bit % (1 << digit)
			other[ends[d]] = k
			ends[d]++
		}
		copy(keys, other)
	}
}

// Grow makes room for the records of so many functions, as most are.
func (s *Origins) Grow(functions int) {
	const instructions = 6
	s.Records = slices.Grow(s.Records, functions*OriginSize)
	s.Lengths = slices.Grow(s.Lengths, functions*2*instructions)
}

// Behind tells the records that their lengths come behind n bytes of others'.
func (s *Origins) Behind(n int) {
	for at := 0; at < len(s.Records); at += OriginSize {
		lengths := s.Records[at+originLengths:]
		binary.LittleEndian.PutUint32(lengths, binary.LittleEndian.Uint32(lengths)+uint32(n))
	}
}
