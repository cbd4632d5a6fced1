package symbols

import "encoding/binary"

// Call frame instructions (DWARF 5, 7.24).
const (
	opAdvanceLoc   = 0x40
	opAdvanceLoc1  = 0x02
	opAdvanceLoc2  = 0x03
	opDefCFAOffset = 0x0e

	atEntry = 8 // the CFA's distance from rsp
)

// depth says by how much more the stack is lowered from an offset on.
type depth struct{ at, bytes int }

// What saves the flags: in a stub, whose count ends with the restoring, and in a
// front (stubgen/emit/emit.go, redirect.go).
var (
	savesFlags    = []depth{{5, 128}, {6, 136}}
	restoresFlags = []depth{{-8, 128}, {0, 0}} // from the end of the count
	frontFlags    = []depth{{5, 128}, {6, 136}, {25, 0}, {32, 136}, {50, 128}, {58, 0}}
)

// What the copy of a call does with the stack: a call of its own, which is taken
// back, and the return address (stubgen/emit/relocate.go).
var calls = []depth{{6, 8}, {11, 0}, {16, 8}}

// fde writes the call frame instructions of a stub: at each copy those that held
// at the instruction that it stands for.
type fde struct {
	b   []byte
	pos int // offset in the stub
}

func (f *fde) advance(to int) {
	switch d := to - f.pos; {
	case d <= 0:
		return
	case d < 0x40:
		f.b = append(f.b, opAdvanceLoc|byte(d))
	case d < 0x100:
		f.b = append(f.b, opAdvanceLoc1, byte(d))
	default:
		f.b = binary.LittleEndian.AppendUint16(append(f.b, opAdvanceLoc2), uint16(min(d, 0xffff)))
	}
	f.pos = to
}

// lower tells how deep the stack is in code of ours, where the program's own has it
// at its usual depth.
func (f *fde) lower(from int, usual uint64, list []depth) {
	for _, d := range list {
		f.advance(from + d.at)
		f.b = append(f.b, opDefCFAOffset)
		f.b = binary.AppendUvarint(f.b, usual+uint64(d.bytes))
	}
}

// instructions are those of a stub; nil if nothing is known of its function.
func (s *stub) instructions() []byte {
	if len(s.rules) == 0 {
		return nil
	}
	f, next := fde{}, 0
	upTo := func(addr uint64) {
		for ; next < len(s.rules) && s.rules[next].Addr <= addr; next++ {
			f.b = append(f.b, s.rules[next].Ops...)
		}
	}
	upTo(s.From)
	if s.KeepsFlag {
		if s.Front > 0 {
			f.lower(0, atEntry, frontFlags)
		}
		f.lower(s.Front, atEntry, savesFlags)
		f.lower(s.Count, atEntry, restoresFlags)
	}
	at, from := s.Count, s.From
	for i := range s.Copies {
		if usual := s.rules[max(next-1, 0)].Depth; s.Calls[i] && usual > 0 {
			f.lower(at, usual, calls)
		}
		at += s.Copies[i]
		from += uint64(s.Originals[i])
		f.advance(at)
		upTo(from)
	}
	return f.b
}

// debugFrame is a section .debug_frame of all stubs (DWARF 5, 6.4.1).
func debugFrame(all []arena) []byte {
	const word = 8
	le := binary.LittleEndian
	// Version 1, no augmentation, code aligned to 1, data to -8, return address 16.
	b := record(nil, append(le.AppendUint32(nil, ^uint32(0)), 1, 0, 1, 0x78, 16))
	for _, a := range all {
		for i := range a.stubs {
			s := &a.stubs[i]
			if ops := s.instructions(); ops != nil {
				body := le.AppendUint32(make([]byte, 0, 4+2*word+len(ops)), 0) // the CIE is the first
				body = le.AppendUint64(body, s.At)
				body = le.AppendUint64(body, s.end-s.At)
				b = record(b, append(body, ops...))
			}
		}
	}
	return b
}

// record appends one with its length, padded with nops.
func record(b, body []byte) []byte {
	const align = 8
	for (len(body)+4)%align != 0 {
		body = append(body, 0)
	}
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(body))), body...)
}
