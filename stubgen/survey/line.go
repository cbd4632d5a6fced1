package survey

import (
	"bytes"
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// line is the last plain instructions in front of the one at hand.
type line struct {
	at   [8]int // offsets, in a ring
	n    int
	end  int // offset of the one at hand
	last int // and of the one in front
}

// goTo goes on to the instruction at offset to of a function's code, which a sweep
// from its start comes to.
func (l *line) goTo(code []byte, to int) {
	var in x86.Inst
	for l.end < to {
		switch err := x86.Decode(code[l.end:], &in); {
		case err != nil:
			in.Len, l.n = 1, 0
		case in.Kind == x86.Plain:
			l.at[l.n%len(l.at)] = l.end
			l.n++
		default:
			l.n = 0
		}
		l.last, l.end = l.end, l.end+int(in.Len)
	}
}

// back yields the offsets, the last first.
func (l *line) back(yield func(at int) bool) {
	for i := l.n - 1; i >= max(0, l.n-len(l.at)) && yield(l.at[i%len(l.at)]); i-- {
	}
}

// loadsWatched returns the watched number that the line loads into eax, and whether
// there is one.
func (l *line) loadsWatched(code []byte) (number uint32, ok bool) {
	number, ok = l.number(code)
	return number, ok && isWatched(number)
}

// number returns the number that the line loads into rax, and whether it does, and
// changes only other registers behind it.
func (l *line) number(code []byte) (number uint32, ok bool) {
	low, isLow := uint32(0), false // of the lowest byte
	for at := range l.back {
		switch n, load := loadOf(code[at:]); {
		case load == loadsAll || load == loadsZero && isLow:
			return n | low, true
		case load == loadsLow && !isLow:
			low, isLow = n, true
		case load == loadsPopped:
			return l.pushed(code, at)
		case isLow && load == loadsLow || !leavesRAX(code[at:]):
			return 0, false
		}
	}
	return 0, false
}

// load is how an instruction sets rax.
type load int

const (
	loadsNothing load = iota
	loadsAll          // mov $n,%eax, or %rax
	loadsLow          // mov $n,%al
	loadsZero         // xor %eax,%eax
	loadsPopped       // pop %rax
)

// loadOf returns what an instruction loads, and how. Assemblers leave mov to rax as it is
// written, and who writes for size has its other forms.
func loadOf(code []byte) (n uint32, how load) {
	switch {
	case len(code) >= setupLen && code[0] == opMovEAX:
		return binary.LittleEndian.Uint32(code[1:]), loadsAll
	case len(code) >= 7 && bytes.HasPrefix(code, opMovRAX):
		return binary.LittleEndian.Uint32(code[3:]), loadsAll
	case len(code) >= 2 && code[0] == opMovAL:
		return uint32(code[1]), loadsLow
	case bytes.HasPrefix(code, opXorEAX):
		return 0, loadsZero
	case len(code) > 0 && code[0] == opPopRAX:
		return 0, loadsPopped
	}
	return 0, loadsNothing
}

// pushed returns the number that the instruction in front of a pop pushes, if it does.
func (l *line) pushed(code []byte, pop int) (number uint32, ok bool) {
	for at := range l.back {
		if at < pop {
			return uint32(code[at+1]), at == pop-2 && code[at] == opPushImm8 && code[at+1] < 0x80
		}
	}
	return 0, false
}

// leavesRAX reports whether an instruction surely does not change rax.
func leavesRAX(code []byte) bool {
	var in x86.Inst
	if x86.Decode(code, &in) != nil || in.Kind != x86.Plain {
		return false
	}
	const all = 0xffffff // is read by what is not known
	e := in.Effects(code)
	return e.Read.G != all && !e.Written.Has(x86.RAX)
}

// setup returns the end of the line that, with the system call, has room for a
// jump.
func (l *line) setup(code []byte, at int) string {
	const least = stubgen.WindowSize - 2
	for from := range l.back {
		if _, load := loadOf(code[from:]); load == loadsNothing && !preparesArgument(code[from:]) && !(code[from] == opPushImm8 && code[from+2] == opPopRAX) {
			return ""
		}
		if at-from >= least {
			return string(code[from:at])
		}
	}
	return ""
}

// preparesArgument reports whether an instruction does nothing but change a register
// other than rax, by what was in registers or memory, and runs the same elsewhere: mov,
// lea and xor in the forms in which arguments are loaded, and sums of registers.
func preparesArgument(code []byte) bool {
	var in x86.Inst
	const other = x86.PrefixREX // the only prefix that may be there
	if x86.Decode(code, &in) != nil || in.Kind != x86.Plain || in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy || in.Prefix&^other != 0 || in.RIPRel() {
		return false
	}
	reg := in.ModRM>>3&7 | in.Rex&x86.RexR<<1
	rm := in.ModRM&7 | in.Rex&x86.RexB<<3
	direct := in.ModRM >= 0xc0
	const (
		opXor, opMov, opXorTo, opMovTo, opMovImm = 0x31, 0x89, 0x33, 0x8b, 0xc7
		opAdd, opAnd, opSub                      = 0x01, 0x21, 0x29
	)
	switch {
	case in.Op == opAdd || in.Op == opAnd || in.Op == opSub:
		return direct && rm != x86.RAX && rm != x86.RSP
	case in.Op == opXor || in.Op == opMov || in.Op == opMovImm:
		return direct && rm != 0
	case in.Op == opXorTo || in.Op == opMovTo || in.Op == opLea:
		return reg != 0
	case in.Op&0xf8 == opMovEAX: // mov $imm,%reg
		return in.Op&7|in.Rex&x86.RexB<<3 != 0
	}
	return false
}
