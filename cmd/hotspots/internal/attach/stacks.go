package attach

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sort"
	"syscall"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// Offsets in a ucontext_t of the kernel's (asm/sigcontext.h).
const (
	ucRestorer = 8 // in front is where the handler returns to
	ucFlags    = 0
	ucRSP      = 160
	ucRIP      = 168
	ucCSGSFS   = 184 // cs, gs, fs, ss: 16 bits each
	ucTrapNo   = 200
	ucFPState  = 224
	ucSize     = 304 // the siginfo_t follows
)

// userSegments is that word of 64-bit code.
const userSegments = 0x002b_0000_0000_0033

// stacks looks through the stacks of stopped threads, and those that a signal has
// interrupted them on.
type stacks struct {
	mem  io.ReaderAt
	maps []procmaps.Mapping // in order; not changed

	frames []uint64 // addresses of the ucontexts of signals whose handlers run
	seen   map[uint64]bool
	flat   bool              // not those that a signal has interrupted them on
	each   func(word uint64) // is told what lies on stacks, if it is not nil
}

func newStacks(mem io.ReaderAt, maps []procmaps.Mapping) *stacks {
	return &stacks{mem: mem, maps: maps, seen: map[uint64]bool{}}
}

// at is the mapping that a stack pointer is in, nil if there is none.
func (s *stacks) at(rsp uint64) *procmaps.Mapping {
	i := sort.Search(len(s.maps), func(i int) bool { return s.maps[i].End > rsp })
	if i == len(s.maps) || rsp < s.maps[i].Start {
		return nil
	}
	return &s.maps[i]
}

// walk looks at a stack from its pointer on, with the red zone.
func (s *stacks) walk(rsp uint64) error {
	if m := s.at(rsp); m != nil {
		return s.part(rsp, m)
	}
	return nil
}

// part does so in a mapping, or the part of one that is a stack.
func (s *stacks) part(rsp uint64, m *procmaps.Mapping) error {
	const redZone = 128
	low := max(rsp-redZone, m.Start) &^ 7
	const piece = 1 << 20
	room := make([]byte, min(m.End-low, piece+ucFPState+8))
	for at := low; at < m.End; at += piece {
		// A context may begin in one piece and end in the next.
		b := room[:min(m.End-at, uint64(len(room)))]
		n, err := s.mem.ReadAt(b, int64(at))
		if err != nil && n == 0 {
			return err
		}
		if err := s.look(at, b[:n], min(uint64(n), piece), m); err != nil {
			return err
		}
	}
	return nil
}

// look goes through size bytes at an address; b has some more.
func (s *stacks) look(at uint64, b []byte, size uint64, m *procmaps.Mapping) error {
	le := binary.LittleEndian
	for off := uint64(0); off+8 <= size; off += 8 {
		if s.each != nil {
			s.each(le.Uint64(b[off:]))
		}
		if off+ucFPState+8 > uint64(len(b)) || le.Uint64(b[off+ucCSGSFS:]) != userSegments || !isContext(b[off:], at+off) || s.seen[at+off] || !s.hasFront(at+off) {
			continue
		}
		s.seen[at+off] = true
		s.frames = append(s.frames, at+off)
		if sp := le.Uint64(b[off+ucRSP:]); !s.flat && (sp < m.Start || sp >= m.End) {
			if err := s.walk(sp); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasFront reports whether what lies in front of a ucontext can be read, as it can where it is a
// signal's: the restorer's address is there.
func (s *stacks) hasFront(context uint64) bool {
	m := s.at(context - ucRestorer)
	return m != nil && m.Prot&procmaps.ProtRead != 0
}

// isContext reports whether what looks like a ucontext may be one that the kernel has made:
// the state of the vector registers lies above it, aligned.
func isContext(b []byte, at uint64) bool {
	const knownFlags, far, align = 7, 64 << 10, 64
	le := binary.LittleEndian
	fp := le.Uint64(b[ucFPState:])
	return le.Uint64(b[ucFlags:]) <= knownFlags && fp > at+ucFPState && fp-at < far && fp%align == 0
}

// ranges are addresses, in order.
type ranges []procmaps.Mapping

func (r ranges) has(at uint64) bool {
	i := sort.Search(len(r), func(i int) bool { return r[i].End > at })
	return i < len(r) && at >= r[i].Start
}

// struck are the addresses of faults whose handlers run, or have yet to be called: such a handler
// may look at the instruction there, throw from it, and have the thread go on behind it.
// Those that return to one of taken are led to the copy.
func (s *session) struck(frames, taken []uint64) (all []uint64) {
	le := binary.LittleEndian
	code := only(s.maps, isExecutable)
	b := make([]byte, ucRestorer+ucSize+16)
	for _, at := range frames {
		if _, err := s.Mem.ReadAt(b, int64(at-ucRestorer)); err != nil || !code.has(le.Uint64(b)) || slices.Contains(taken, le.Uint64(b)) {
			continue
		}
		info := b[ucRestorer+ucSize:] // si_signo, si_errno, si_code
		if rip := le.Uint64(b[ucRestorer+ucRIP:]); isFault(syscall.Signal(le.Uint32(info)), int32(le.Uint32(info[8:]))) || le.Uint64(b[ucRestorer+ucTrapNo:]) != 0 || s.divides(rip) {
			all = append(all, rip)
		}
	}
	for _, t := range s.Threads {
		waits := s.statuses[t].Pending
		if t.Signal > 0 {
			waits |= 1 << (t.Signal - 1)
		}
		if slices.ContainsFunc(faults, func(sig syscall.Signal) bool { return waits>>(sig-1)&1 != 0 }) {
			all = append(all, t.Regs.Rip)
		}
	}
	return all
}

// divides reports whether an instruction may raise the fault that has the number 0, as has a thread
// in which there has been none. Handlers that do not ask for it (SA_SIGINFO) get no siginfo_t; and
// the number is that of the thread's last fault, so that others are taken for its handlers, too: they
// are waited for, or what they have interrupted is not counted.
func (s *session) divides(rip uint64) bool {
	const longest, group, toDiv = 15, 0xf6, 6 // F6, F7; div and idiv
	code := make([]byte, longest)
	n, _ := s.Mem.ReadAt(code, int64(rip))
	for code = code[:n]; len(code) > 0 && bytes.IndexByte(prefixes, code[0]) >= 0; code = code[1:] {
	}
	return len(code) > 1 && code[0]&^1 == group && code[1]>>3&7 >= toDiv
}

// prefixes come in front of an opcode, those of REX among them.
var prefixes = []byte("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3" + "@ABCDEFGHIJKLMNO")

// faults are the signals that instructions raise.
var faults = []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP}

// isFault reports whether an instruction has raised a signal, and not a process.
func isFault(sig syscall.Signal, code int32) bool { return slices.Contains(faults, sig) && code > 0 }

func isExecutable(m *procmaps.Mapping) bool { return m.Prot&procmaps.ProtExec != 0 }

// only are those mappings of which keep says so.
func only(maps []procmaps.Mapping, keep func(*procmaps.Mapping) bool) (all ranges) {
	for i := range maps {
		if keep(&maps[i]) {
			all = append(all, maps[i])
		}
	}
	return slices.Clip(all)
}
