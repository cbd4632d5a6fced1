package emit

import (
	"bytes"
	"encoding/binary"
)

// ArenaRef says where an arena's code is, in memory, and what tells of it. All are
// run addresses but Size, Count and LengthsSize.
type ArenaRef struct {
	At, Size, Cold   uint64
	Records, Lengths uint64 // of its Origins
	Count            uint64 // records
	LengthsSize      uint64 // bytes
}

// The pages of origins begin with a list of their arenas, by which a debugger's
// helper finds them in a core or in a process: the magic, their number, and seven
// words each.
const (
	ArenaListMagic = "dynprof arenas\x00\x02"
	arenaRefSize   = 7 * 8
	maxArenaRefs   = 1 << 17 // a table has room for 65,536 objects
)

// ArenaListSize is the size of the list of n arenas, in bytes.
func ArenaListSize(n int) int { return len(ArenaListMagic) + 8 + n*arenaRefSize }

// AppendArenaList appends the list.
func AppendArenaList(b []byte, list []ArenaRef) []byte {
	b = append(b, ArenaListMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for i := range list {
		r := &list[i]
		for _, v := range []uint64{r.At, r.Size, r.Cold, r.Records, r.Lengths, r.Count, r.LengthsSize} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

// ArenaListLen reads how long the list is that b, ArenaListSize(0) bytes or more,
// begins with; 0 if it is none.
func ArenaListLen(b []byte) int {
	if len(b) < ArenaListSize(0) || !bytes.HasPrefix(b, []byte(ArenaListMagic)) {
		return 0
	}
	if n := binary.LittleEndian.Uint64(b[len(ArenaListMagic):]); n <= maxArenaRefs {
		return ArenaListSize(int(n))
	}
	return 0
}

// ReadArenaList reads a list of ArenaListLen bytes.
func ReadArenaList(b []byte) (list []ArenaRef) {
	for at := ArenaListSize(0); at+arenaRefSize <= len(b); at += arenaRefSize {
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[at+8*i:]) }
		list = append(list, ArenaRef{word(0), word(1), word(2), word(3), word(4), word(5), word(6)})
	}
	return list
}

// Moved is a run of instructions in an arena, and what it stands for.
type Moved struct {
	At, From  uint64 // run addresses
	Count     int    // bytes in front of the copies: front and count
	Front     int    // and of these the front
	KeepsFlag bool   // the count saves the flags
	Originals []int  // lengths of the instructions,
	Copies    []int  // and of their copies,
	Calls     []bool // and whether they are calls
}

// Read lists what an arena's origins tell.
func (r *ArenaRef) Read(records, lengths []byte) (list []Moved) {
	for ; len(records) >= OriginSize; records = records[OriginSize:] {
		le := binary.LittleEndian
		flags := records[originFlags]
		m := Moved{
			At: r.At + uint64(le.Uint32(records[originAt:])), From: r.At + uint64(int64(int32(le.Uint32(records[originFrom:])))),
			Count: int(records[originSmall]), KeepsFlag: flags&originKeepsFlags != 0,
		}
		if flags&originFront != 0 {
			m.Front = FrontSize(m.KeepsFlag)
		}
		from, n := uint64(le.Uint32(records[originLengths:])), uint64(le.Uint16(records[originFew:]))
		if flags&originLong != 0 && from+longSize <= uint64(len(lengths)) {
			n, m.Count = uint64(le.Uint32(lengths[from+longMany:])), int(le.Uint32(lengths[from+longCount:]))
			from += longSize
		}
		if from+2*n > uint64(len(lengths)) {
			return list // damaged
		}
		for ; n > 0; n-- {
			m.Calls = append(m.Calls, lengths[from]&originCall != 0)
			m.Originals = append(m.Originals, int(lengths[from]&^(originCall|originAimed)))
			m.Copies = append(m.Copies, int(lengths[from+1]))
			from += 2
		}
		list = append(list, m)
	}
	return list
}
