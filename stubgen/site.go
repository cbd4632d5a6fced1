package stubgen

import "github.com/dynprof/dynprof/internal/ledger"

// WindowSize is the length of the `jmp rel32` that overwrites an entry.
const WindowSize = 5

// MaxHead is the most bytes that stay at an entry, in front of the window: 8 that are
// read by callers, and an endbr64.
const MaxHead = 8 + 4

// syscallSize is the length of a system call instruction.
const syscallSize = 2

// KernelSite is a system call that the library must know of before it is made:
// one that makes a thread or process, which gets its row there, or one that may
// install a seccomp filter, make text writable or replace it, or lock all memory.
// The window is the setup, the instructions in front of it, mostly a ready one of 5
// bytes: `mov $NR,%eax` or, in libc's syscall(3), `mov 8(%rsp),%r9`. Where the
// number is loaded further in front, the setup is what loads other arguments, 3
// bytes or more, with the system call itself; where that is too short, the
// instruction behind it moves, too. Where the setup is the entry of a function, that
// is to be counted: the window is the system call with what follows it.
type KernelSite struct {
	Addr   uint64 // of the window
	Setup  string // code that runs the same elsewhere
	Behind string // the same, of what follows the system call
	Number uint32 // of the system call, or AnyNumber
}

// AnyNumber is for what makes any system call, or which is not known.
const AnyNumber = 0xffffffff

// End is one past what moves.
func (s *KernelSite) End() uint64 {
	return s.Addr + uint64(len(s.Setup)+syscallSize+len(s.Behind))
}

// Transfer is what follows a system call that moves bytes between a socket and the
// program's memory, as recv and send do: a comparison of its result, which is replaced, so
// that the call stays where it is.
type Transfer struct {
	Addr     uint64 // of the comparison
	Compares string
	Number   uint32 // of the system call
}

// End is one past what moves.
func (t *Transfer) End() uint64 { return t.Addr + uint64(len(t.Compares)) }

// SignalSite is a `mov $NR,%eax`, up to two plain instructions, and a `syscall`
// that changes what a signal does or which are blocked. Where traps are allowed
// the library stands in for it, so that SIGTRAP stays handled and unblocked;
// the program sees what it asked for.
type SignalSite struct {
	Addr    uint64 // of the mov
	NR      uint32 // system call number
	Between uint8  // bytes between the two
}

// Syscall is where the system call is.
func (s SignalSite) Syscall() uint64 { return s.Addr + WindowSize + uint64(s.Between) }

// End is one past it.
func (s SignalSite) End() uint64 { return s.Syscall() + syscallSize }

// Allocator is a function that hands out blocks of memory, or takes them back, which
// the library is told of before it runs. Window is what moves: whole instructions, behind
// an endbr64.
type Allocator struct {
	Window, Bytes uint64
	Kind          uint8 // enum dp_allocator of libdynprof/resident/table/allocs.h
}

// End is one past what moves.
func (a *Allocator) End() uint64 { return a.Window + a.Bytes }

// Fixed is a range of text, [Low, High), that is neither overwritten nor moved,
// and why.
type Fixed struct {
	Low, High uint64
	Why       ledger.Reason
}
