package attach

import (
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/ptrace"
)

// Where a Go runtime without libc keeps what (runtime.g, runtime.m; cmd/link): these are the
// first fields, and have been since Go 1.4.
const (
	gFromFS = -8 // a thread's goroutine
	gStack  = 0  // its stack's low and high end
	gM      = 48 // the thread that it runs on
	mG0     = 0  // and whose goroutine for the scheduler and for calls of the kernel's vdso this is

	mostGoStack = 1 << 30
)

// isGo reports whether the program of a process is one of Go without libc.
func isGo(exe string) bool {
	f, err := elf.Open(exe)
	if err != nil {
		return false
	}
	defer f.Close()
	return launch.HasGo(f) && !has(f, elf.PT_INTERP) && !has(f, elf.PT_TLS)
}

// goStack is the end of the stack of a thread that rsp is in. Goroutines' stacks lie side by side
// on the heap, signals' too, with whatever was left on them. It is not ok while the thread
// changes from one to another.
func goStack(mem io.ReaderAt, fs, rsp uint64) (high uint64, ok bool) {
	at := func(at uint64) uint64 {
		b := make([]byte, 8)
		if _, err := mem.ReadAt(b, int64(at)); err != nil {
			return 0
		}
		return binary.LittleEndian.Uint64(b)
	}
	gFrom := int64(gFromFS)
	g := at(fs + uint64(gFrom))
	m := at(g + gM)
	for _, g := range []uint64{g, at(m + mG0)} {
		low, high := at(g+gStack), at(g+gStack+8)
		if g != 0 && at(g+gM) == m && low <= rsp && rsp < high && high-low <= mostGoStack {
			return high, true
		}
	}
	return 0, false
}

// walkAll looks at the stacks of all threads, of each from where rsp says on. Each tells each, if
// that is not nil, of the words there, side by side with others.
func (s *session) walkAll(rsp func(int, *ptrace.Thread) uint64, each func(i int, word uint64)) (all []*stacks, failed []error) {
	all, failed = make([]*stacks, len(s.Threads)), make([]error, len(s.Threads))
	s.crew.each(len(s.Threads), func(i int) {
		t, w := s.Threads[i], newStacks(s.Mem, s.maps)
		if each != nil {
			w.each = func(word uint64) { each(i, word) }
		}
		all[i], failed[i] = w, s.walk(w, t, rsp(i, t))
	})
	return all, failed
}

// walk looks at a thread's stack from rsp on. Where handlers run on a stack of their own, as Go's
// do, that is all.
func (s *session) walk(w *stacks, t *ptrace.Thread, rsp uint64) error {
	const few = 1 << 20
	m := w.at(rsp)
	if !s.isGo || m == nil || m.End-rsp <= few {
		return w.walk(rsp)
	}
	high, ok := goStack(s.Mem, t.Regs.Fs_base, rsp)
	if !ok || high > m.End {
		return again("process %d: its thread %d changes its stack", s.Pid, t.Tid)
	}
	part := *m
	part.End = high
	return w.part(rsp, &part)
}
