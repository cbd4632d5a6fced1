package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/stubgen"
)

// SetsGS reports whether text, whose functions need not be known, sets the GS
// base: by wrgsbase, or by an arch_prctl of its own with the numbers in sight.
func SetsGS(text []stubgen.Segment) bool {
	for i := range text {
		if s := &text[i]; !s.Tail && (find(s.Code, opcodeAE, wrgsbase) || find(s.Code, sysArchPrctl, archPrctl)) {
			return true
		}
	}
	return false
}

// find asks about every byte b, which shall be a rare one, where in the code the
// instruction of the kind wanted starts that it belongs to; -1 means none.
func find(code []byte, b byte, start func(code []byte, at int) int) bool {
	for at := 0; ; at++ {
		k := bytes.IndexByte(code[at:], b)
		if k < 0 {
			return false
		}
		at += k
		if i := start(code, at); i >= 0 && likelyBoundary(code, i) {
			return true
		}
	}
}

const opcodeAE = 0xae // the second byte of group 15

// wrgsbase is f3 REX.W 0f ae /3, or without the REX prefix (SDM volume 2,
// WRFSBASE/WRGSBASE); its ae is at offset at.
func wrgsbase(code []byte, at int) int {
	if at < 2 || at+1 >= len(code) || code[at-1] != 0x0f || code[at+1]&0xf8 != 0xd8 {
		return -1
	}
	at -= 2
	if at > 0 && code[at]&0xf0 == 0x40 {
		at--
	}
	if code[at] != 0xf3 {
		return -1
	}
	return at
}

// near is how far in front of a system call its numbers are looked for.
const near = 64

// archPrctl is a system call by that number, which is at offset at, to set the
// GS base.
func archPrctl(code []byte, at int) int {
	if at < 1 || !bytes.HasPrefix(code[at-1:], movArchPrctl) {
		return -1
	}
	k := bytes.Index(code[at:min(at+near, len(code))], opSyscall)
	if k < 0 || !setsGS(code, at+k) {
		return -1
	}
	return at - 1
}

var (
	movArchPrctl = []byte{opMovEAX, sysArchPrctl, 0, 0, 0}
	movSetGS     = []byte{0xbf, 0x01, 0x10, 0, 0} // mov $ARCH_SET_GS,%edi
)

// setsGS reports whether both numbers are loaded near in front of the system call
// at offset at.
func setsGS(code []byte, at int) bool {
	before := code[max(at-near, 0):at]
	return bytes.Contains(before, movArchPrctl) && bytes.Contains(before, movSetGS)
}
