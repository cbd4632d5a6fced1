package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// endNear is how far in front of a system call its number is looked for.
const endNear = 64

var (
	opXorEDI   = []byte{0x31, 0xff}
	rexNone    = byte(0x40) // REX without a bit
	endNumbers = [][]byte{{sysExit, 0, 0, 0}, {sysExitGroup, 0, 0, 0}}
)

// endSite looks for a system call, at code[at:], that ends a thread or process and
// gets its number from another register. Compilers have it so where the call is in
// a loop, as it never returns:
//
//	mov  $60,%edx
//	...
//	xor  %edi,%edi
//	mov  %edx,%eax
//	syscall
//
// It may be another number after all: that is looked at when the program comes
// there. The instruction in front is at code[from:]; code starts at address low.
func endSite(code []byte, from, at int, low uint64) (stubgen.KernelSite, bool) {
	const wide = x86.RexW | x86.RexR // musl has 64 bits
	mov, end := code[from:at], at+len(opSyscall)
	if len(mov) == 3 && mov[0]&^wide == rexNone {
		mov = mov[1:]
	}
	if len(mov) != 2 || mov[0] != 0x89 || mov[1]&0xc7 != 0xc0 || from == at-2 && mov[1] == 0xc0 {
		return stubgen.KernelSite{}, false // no mov %reg,%eax
	}
	if !loadsEnd(code[max(0, from-endNear):from], opMovEAX|mov[1]>>3&7) {
		return stubgen.KernelSite{}, false
	}
	if bytes.HasSuffix(code[:from], opXorEDI) {
		from -= len(opXorEDI)
	}
	s := stubgen.KernelSite{Addr: low + uint64(from), Setup: string(code[from:at]), Number: stubgen.AnyNumber}
	if end-from < stubgen.WindowSize {
		var in x86.Inst
		if x86.Decode(code[end:], &in) != nil || in.Kind != x86.Plain || in.RIPRel() {
			return stubgen.KernelSite{}, false
		}
		s.Behind = string(code[end : end+int(in.Len)])
	}
	return s, s.End()-s.Addr >= stubgen.WindowSize
}

// loadsEnd reports whether code loads the number of an end by the opcode.
func loadsEnd(code []byte, op byte) bool {
	for _, nr := range endNumbers {
		if bytes.Contains(code, append([]byte{op}, nr...)) {
			return true
		}
	}
	return false
}

// nobodyJumpsInto reports whether a site starts at an instruction, and no branch
// near it leads inside, in text whose functions are not known.
func nobodyJumpsInto(seg stubgen.Segment, s stubgen.KernelSite) bool {
	return likelyBoundary(seg.Code, int(s.Addr-seg.Addr)) && !branchesInto(seg, s.Addr, s.Addr+1, s.End())
}

// branchesInto reports whether a branch near an address leads to one from low on, in front of high.
func branchesInto(seg stubgen.Segment, near, low, high uint64) bool {
	const around = 512
	at := int(near - seg.Addr)
	var in x86.Inst
	for k := max(0, at-around); k < min(len(seg.Code), at+around); k += int(in.Len) {
		if x86.Decode(seg.Code[k:], &in) != nil {
			in.Len = 1
			continue
		}
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop, x86.Call:
			if t := in.BranchTarget(seg.Code[k:], seg.Addr+uint64(k)); low <= t && t < high {
				return true
			}
		}
	}
	return false
}
