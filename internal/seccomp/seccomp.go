// Package seccomp says what a seccomp filter may do to a system call, of which only the number
// is known: classic BPF over struct seccomp_data (the kernel's
// Documentation/userspace-api/seccomp_filter.rst). libdynprof/resident/base/verdict.c asks the
// same of filters that a program installs, about calls of which all is known.
package seccomp

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Outcomes is a set of what may come of a system call.
type Outcomes uint8

// Outcomes.
const (
	Allowed Outcomes = 1 << iota // SECCOMP_RET_ALLOW, SECCOMP_RET_LOG
	Refused                      // SECCOMP_RET_ERRNO
	Else                         // a thread or a process ends, gets SIGSYS, or another answers
)

// Any is in place of a number: of all system calls of x86-64.
const Any = -1

// Inst is struct sock_filter.
type Inst struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// InstSize is how many bytes one has.
const InstSize = 8

// mostInsts is the kernel's BPF_MAXINSNS.
const mostInsts = 4096

// Parse reads a filter as the kernel gives it. It is an error if the kernel would not take it for
// its length.
func Parse(b []byte) ([]Inst, error) {
	if len(b) == 0 || len(b)%InstSize != 0 || len(b) > mostInsts*InstSize {
		return nil, errors.New("a seccomp filter is not understood")
	}
	all := make([]Inst, 0, len(b)/InstSize)
	for ; len(b) > 0; b = b[InstSize:] {
		all = append(all, Inst{binary.LittleEndian.Uint16(b), b[2], b[3], binary.LittleEndian.Uint32(b[4:])})
	}
	return all, nil
}

// Parts of a code (linux/bpf_common.h).
const (
	classLD, classLDX, classST, classSTX, classALU, classJMP, classRET, classMISC = 0, 1, 2, 3, 4, 5, 6, 7

	modeIMM, modeABS, modeLEN = 0x00, 0x20, 0x80

	opADD, opSUB, opMUL, opDIV, opOR, opAND, opLSH, opRSH, opNEG, opXOR = 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0xa0
	opJA, opJEQ, opJGT, opJGE, opJSET                                   = 0x00, 0x10, 0x20, 0x30, 0x40

	sourceX, returnA, miscTXA = 0x08, 0x10, 0x80
)

// Of struct seccomp_data.
const (
	dataNr, dataArch, dataSize = 0, 4, 64
	archX8664                  = 0xc000003e
	numbers                    = 512 // above are x32's, which nobody here makes
)

// SeesAddresses reports whether a filter looks at where system calls are made.
func SeesAddresses(filter []Inst) bool {
	const at, size = 8, 8 // instruction_pointer
	return slices.ContainsFunc(filter, func(i Inst) bool {
		return i.Code&7 == classLD && i.Code&0xe0 == modeABS && i.K-at < size
	})
}

// What an instruction finds in the accumulator.
type value struct {
	is kind
	k  uint32 // the constant
}

type kind uint8

const (
	unreached kind = iota
	constant
	number // of any system call of x86-64
	anything
)

func join(a, b value) value {
	if a.is == unreached || a == b {
		return b
	}
	return value{is: anything}
}

// Of is what may come of system call nr, or of Any. It goes all ways at once: jumps lead forward
// only, so that all who lead to an instruction are in front of it.
func Of(filter []Inst, nr int) (all Outcomes) {
	in := make([]value, len(filter)+1)
	in[0] = value{is: constant} // the kernel begins with 0
	to := func(at uint64, a value) {
		if at >= uint64(len(filter)) {
			all |= Else // the kernel takes none of these
			return
		}
		in[at] = join(in[at], a)
	}
	for pc, i := range filter {
		a, next := in[pc], uint64(pc)+1
		if a.is == unreached {
			continue
		}
		switch i.Code & 7 {
		case classRET:
			if i.Code&returnA == 0 {
				a = value{constant, i.K}
			}
			all |= outcomeOf(a)
		case classJMP:
			taken, passed := ways(i, a)
			if i.Code&0xf0 == opJA {
				to(next+uint64(i.K), a)
				continue
			}
			if taken {
				to(next+uint64(i.Jt), a)
			}
			if passed {
				to(next+uint64(i.Jf), a)
			}
		case classLD:
			to(next, loaded(i, nr))
		case classALU:
			if i.Code&0xf0 == opDIV && (i.Code&sourceX != 0 || i.K == 0) {
				all |= Else // by 0 it kills
			}
			to(next, computed(i, a))
		case classMISC:
			if i.Code&0xf8 == miscTXA {
				a = value{is: anything}
			}
			to(next, a)
		default:
			to(next, a)
		}
	}
	return all
}

func loaded(i Inst, nr int) value {
	switch i.Code & 0xe0 {
	case modeIMM:
		return value{constant, i.K}
	case modeLEN:
		return value{constant, dataSize}
	case modeABS:
		switch {
		case i.K == dataArch:
			return value{constant, archX8664}
		case i.K == dataNr && nr >= 0:
			return value{constant, uint32(nr)}
		case i.K == dataNr:
			return value{is: number}
		}
	}
	return value{is: anything}
}

func computed(i Inst, a value) value {
	if a.is != constant || i.Code&sourceX != 0 && i.Code&0xf0 != opNEG {
		return value{is: anything}
	}
	switch i.Code & 0xf0 {
	case opADD:
		a.k += i.K
	case opSUB:
		a.k -= i.K
	case opMUL:
		a.k *= i.K
	case opDIV:
		a.k /= max(1, i.K)
	case opOR:
		a.k |= i.K
	case opAND:
		a.k &= i.K
	case opLSH:
		a.k <<= i.K & 31
	case opRSH:
		a.k >>= i.K & 31
	case opXOR:
		a.k ^= i.K
	case opNEG:
		a.k = -a.k
	default:
		return value{is: anything}
	}
	return a
}

// ways is how a jump may go on.
func ways(i Inst, a value) (taken, passed bool) {
	op, k := i.Code&0xf0, i.K
	switch {
	case i.Code&sourceX != 0 || a.is == anything:
		return true, true
	case a.is == number: // filters look for numbers of x32
		switch op {
		case opJSET:
			return k%numbers != 0, true
		case opJGT:
			return k < numbers-1, true
		case opJGE:
			return k < numbers, k > 0
		}
		return k < numbers, true
	}
	switch op {
	case opJEQ:
		taken = a.k == k
	case opJGT:
		taken = a.k > k
	case opJGE:
		taken = a.k >= k
	case opJSET:
		taken = a.k&k != 0
	default:
		return true, true // the kernel takes none of these
	}
	return taken, !taken
}

func outcomeOf(a value) Outcomes {
	const action, errno, allow, log = 0xffff0000, 0x00050000, 0x7fff0000, 0x7ffc0000
	if a.is != constant {
		return Allowed | Refused | Else
	}
	switch a.k & action {
	case allow, log:
		return Allowed
	case errno:
		return Refused
	}
	return Else
}
