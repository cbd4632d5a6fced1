package survey

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Untold is how many bytes of the object's code lie in no function: code that
// neither a symbol nor unwind data tells of, or data among code. Padding is none of
// them, nor is what gcc's crtstuff.c adds to every object.
func (s *Survey) Untold() uint32 { return uint32(min(s.untold, math.MaxUint32)) }

// untold adds up what is untold of the code between two functions, as a sweep goes
// through it.
type untold struct {
	ranges []elfscan.Range // that may be code
	last   elfscan.Range   // the one that the instruction before was in
	skip   uint64          // the end of what crtstuff.c added
	bytes  uint64
}

// see takes the instruction at addr, which code begins with; a function may start
// at end.
func (u *untold) see(in *x86.Inst, code []byte, addr, end uint64) {
	if in.Kind == x86.Nop || code[0] == 0 || code[0] == opInt3 || addr < u.skip {
		return
	}
	if addr-u.last.Low >= u.last.High-u.last.Low && !u.enter(addr) {
		return
	}
	if mayBeStartup(code) {
		if n := startupLen(code); n > 0 {
			u.skip = addr + uint64(n)
			return
		}
	}
	u.bytes += min(uint64(in.Len), u.last.High-addr, end-addr)
}

// enter finds the range that addr is in, if it is in one.
func (u *untold) enter(addr uint64) bool {
	i := slices.IndexFunc(u.ranges, func(r elfscan.Range) bool { return r.Low <= addr && addr < r.High })
	if i < 0 {
		return false
	}
	u.last = u.ranges[i]
	return true
}

// mayBeStartup tells most code from what crtstuff.c adds by its first bytes.
func mayBeStartup(code []byte) bool {
	return code[0] == opMovEAX || len(code) > 2 && code[1] == opLea && code[2] == 0x3d
}

// guessed adds what follows the code of functions whose size nobody tells: each has
// the room up to the next one.
func (u *untold) guessed(o *stubgen.Object) {
	for i := range o.Functions {
		if f := &o.Functions[i]; f.Guessed {
			code := o.Body(i)
			u.decode(o, f.Addr+flowLen(code), f.Addr+uint64(len(code)))
		}
	}
}

// flowLen is the length of what surely belongs to the function that code begins
// with: up to where nothing goes on, and no branch has led further. Behind an
// indirect jump there may be more of it anywhere.
func flowLen(code []byte) uint64 {
	var in x86.Inst
	furthest := uint64(0)
	for at := uint64(0); at < uint64(len(code)) && x86.Decode(code[at:], &in) == nil; {
		next := at + uint64(in.Len)
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop:
			if t := in.BranchTarget(code[at:], at); t < uint64(len(code)) {
				furthest = max(furthest, t)
			}
		case x86.JmpInd:
			return uint64(len(code))
		}
		if at = next; (in.Kind == x86.Ret || in.Kind == x86.Jmp) && furthest < next {
			return next
		}
	}
	return uint64(len(code))
}

// outside adds what lies in front of the first function, and behind the last.
func (u *untold) outside(o *stubgen.Object) {
	first, last := uint64(math.MaxUint64), uint64(0)
	for i := range o.Functions {
		f := &o.Functions[i]
		first, last = min(first, f.Addr), max(last, f.Addr+f.Size)
	}
	for _, r := range u.ranges {
		u.decode(o, r.Low, min(r.High, first))
		u.decode(o, max(r.Low, first, last), r.High)
	}
}

func (u *untold) decode(o *stubgen.Object, low, high uint64) {
	var in x86.Inst
	for at := low; at < high; at += uint64(in.Len) {
		code := o.Code(at)
		if code == nil {
			return
		}
		if x86.Decode(code, &in) != nil || code[0] == 0 {
			in.Len, in.Kind = 1, x86.Plain
		}
		u.see(&in, code, at, high)
	}
}

// startupLen is the length of crtstuff.c's four functions if code begins with
// them, else 0. The first, deregister_tm_clones, compares an address with itself
// until a linker sees to it; the last, frame_dummy, ends by a jump to the second.
func startupLen(code []byte) int {
	const longest = 256
	if !comparesWithItself(code) {
		return 0
	}
	var in x86.Inst
	for at := 0; at < min(len(code), longest) && x86.Decode(code[at:], &in) == nil; at += int(in.Len) {
		if in.Kind == x86.Jmp && in.BranchTarget(code[at:], uint64(at)) < uint64(at) {
			return at + int(in.Len)
		}
	}
	return 0
}

// comparesWithItself reports whether code begins with one of
//
//	lea sym(%rip),%rdi; lea sym(%rip),%rax
//	mov $sym,%eax; cmp $sym,%rax
func comparesWithItself(code []byte) bool {
	const lea = 7
	if len(code) < 2*lea {
		return false
	}
	if bytes.HasPrefix(code, []byte{0x48, opLea, 0x3d}) && bytes.HasPrefix(code[lea:], []byte{0x48, opLea, 0x05}) {
		return binary.LittleEndian.Uint32(code[3:]) == binary.LittleEndian.Uint32(code[lea+3:])+lea
	}
	return code[0] == opMovEAX && bytes.HasPrefix(code[setupLen:], []byte{0x48, 0x3d}) &&
		bytes.Equal(code[1:setupLen], code[setupLen+2:setupLen+6])
}
