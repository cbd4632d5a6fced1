package x86

import "encoding/binary"

// Skim goes quickly over code of which only branches and addresses are wanted.
// It knows the common instructions; all others are left to Decode.
type Skim struct {
	Low, Size uint64 // the addresses that matter: [Low, Low+Size)
	Absolute  bool   // 32-bit immediates may be such addresses

	// Of the function at hand. Offsets count from the start of its code.
	Addr  uint64 // of its first byte
	Quiet int    // jumps to [Quiet, End) need not be looked at
	End   int

	// Of the last instructions, those that are more than lengths.
	marked  skimEntry // what makes them so
	begins  [skimmed]int
	ends    [skimmed]int
	entries [skimmed]skimEntry

	// What Next has found among them.
	calls   int
	targets [skimmed]uint64
	callers [skimmed]int
	others  int
	starts  [skimmed]int
}

// skimmed is how many instructions are marked before they are looked at.
const skimmed = 64

// Calls are the targets of the calls that Next has found the last time.
func (s *Skim) Calls() []uint64 { return s.targets[:s.calls] }

// Callers are the offsets of these calls.
func (s *Skim) Callers() []int { return s.callers[:s.calls] }

// Others are the offsets of the instructions that Next has found the last time and
// that Decode must look at.
func (s *Skim) Others() []int { return s.starts[:s.others] }

// Next goes on from the instruction at offset at of code, which may be longer than
// the function, over some that lie in front of End as a whole, each as Decode
// finds it, and returns where the last one ends. That is at itself where Decode
// finds none, and at the end of code. Calls tells the direct calls, and Others all
// instructions but
//
//   - those calls,
//   - jumps to [Quiet, End), but a jmp right in front of End,
//   - plain instructions that cannot use GS, have no RIP-relative operand, nor an
//     immediate where Absolute, in [Low, Low+Size), and are no lea with any
//     RIP-relative operand,
//   - those of kind Nop, and of Ret but right in front of End,
//
// of which it may also tell some.
func (s *Skim) Next(code []byte, at int) int {
	at, n := s.measure(code, at)
	s.look(code, n)
	return at
}

// measure goes over instructions; it returns where the last one ends, and how many
// are marked.
func (s *Skim) measure(code []byte, at int) (end, n int) {
	s.marked = skimMarked
	if s.Absolute {
		s.marked |= 1 << skimImm32
	}
	for room := min(len(code)-window, s.End-1); n < skimmed && at <= room; {
		if at, n = skimChain(s, &skimOpcodes, &skimModRMs, &code[0], at, room, n); n == skimmed || at > room {
			break
		}
		length, e := uncommon(code[at:])
		if length == 0 || at+length > s.End {
			break
		}
		s.begins[n], s.ends[n], s.entries[n] = at, at+length, e
		if e != 0 {
			n++
		}
		at += length
	}
	return at, n
}

// skimChain goes over instructions, from offset at on, while they start at room or
// before it, end at s.End or before it, and are common, until with n there are
// skimmed that are marked. It reads 8 bytes from the start of each. It returns
// where the last one ends, and how many are marked then.
//
// Where an instruction starts is known only when the one in front is measured:
// the loop is as fast as this chain is short. Which instruction comes next is as
// good as random, so that branches on it are mispredicted. Hence assembly: the
// compiler would branch on REX and 0F, and keep the chain in memory.
//
//go:noescape
func skimChain(s *Skim, opcodes *[512]skimEntry, modRMs *[256]skimEntry, code *byte, at, room, n int) (end, count int)

// look goes over the n marked instructions.
func (s *Skim) look(code []byte, n int) {
	calls, others := 0, 0
	quiet, final, span := s.Quiet, s.End, uint(s.End-s.Quiet)
	addr, low, size, absolute := s.Addr, s.Low, s.Size, s.Size
	if !s.Absolute {
		absolute = 0
	}
	for i := range min(n, skimmed) {
		end, e := s.ends[i], s.entries[i]
		imm := end - int(e>>skimImm&7)
		if imm+4 > len(code) { // an immediate of fewer bytes, right in front of the end of all
			s.starts[others&(skimmed-1)] = s.begins[i]
			others++
			continue
		}
		last := binary.LittleEndian.Uint32(code[imm : imm+4 : imm+4])
		shift := e >> skimShift & 24
		target := end + int(int32(last<<shift)>>shift)
		other := bit(uint(target-quiet) >= span) & (e >> skimJump)
		other |= bit(uint64(last)-low < absolute) & (e >> skimImm32)
		other |= bit(end == final) & (e >> skimCloses)
		other |= e >> skimAlways
		if e&skimRIP != 0 {
			disp := binary.LittleEndian.Uint32(code[imm-4 : imm : imm])
			other |= bit(addr+uint64(end)+uint64(int64(int32(disp)))-low < size) | e>>skimLea
		}
		s.starts[others&(skimmed-1)] = s.begins[i]
		others += int(other & 1)
		s.targets[calls&(skimmed-1)] = addr + uint64(target)
		s.callers[calls&(skimmed-1)] = s.begins[i]
		calls += int(e >> skimCall & 1)
	}
	s.calls, s.others = calls, others
}

func bit(b bool) skimEntry {
	if b {
		return 1
	}
	return 0
}

// uncommon is the length and the entry of an instruction that is not for the
// straight path; the length is 0 if it is none.
func uncommon(code []byte) (int, skimEntry) {
	var in Inst
	switch {
	case Decode(code, &in) != nil:
		return 0, 0
	case in.Kind != Plain && in.Kind != Nop || in.RIPRel() || in.UsesGS():
		return int(in.Len), 1 << skimAlways
	case in.ImmSize == 4:
		return int(in.Len), 1<<skimImm32 | 4<<skimImm
	}
	return int(in.Len), 0
}
