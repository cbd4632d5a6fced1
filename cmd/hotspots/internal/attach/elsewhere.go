package attach

import (
	"encoding/binary"
	"fmt"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
)

// A handler may leave its stack for another one, and come back to it later: so a library's own
// threads are preempted. Who was interrupted then stays so on a stack that no thread is on, and that
// nothing leads to: it may lie wherever can be written. All of that is looked through while the
// process runs. Only if a context is where threads' stacks do not tell of it is it looked
// through again, while the process stands still.

// mostLookedThrough is of one mapping: larger ones are reserves, as the shadows of sanitizers are,
// for which to ask which pages there are would take seconds.
const mostLookedThrough = 64 << 30

// A suspect is a context that a signal has left somewhere, at some time.
type suspect struct{ at, rsp uint64 }

// suspects are those of a process that runs.
func (p *prepared) suspects() (all []suspect) {
	if p.isGo {
		return nil // its handlers have stacks that are known
	}
	w := newStacks(p.process.Memory, p.maps)
	w.flat = true
	for i := range w.maps {
		if mayHold(&w.maps[i]) {
			w.present(p.process.Task(), &w.maps[i]) // what cannot be read is gone, or is looked at when all stand still
		}
	}
	code := only(p.maps, isExecutable)
	word := func(at uint64) uint64 {
		b := make([]byte, 8)
		p.process.Memory.ReadAt(b, int64(at))
		return binary.LittleEndian.Uint64(b)
	}
	for _, at := range w.frames {
		if code.has(word(at-ucRestorer)) && code.has(word(at+ucRIP)) {
			all = append(all, suspect{at, word(at + ucRSP)})
		}
	}
	return all
}

// mayHold reports whether a stack may be there.
func mayHold(m *procmaps.Mapping) bool {
	const stack = procmaps.ProtRead | procmaps.ProtWrite
	return m.Prot&stack == stack && !m.Shared && !isOurs(*m) && m.End-m.Start <= mostLookedThrough
}

// present looks through the pages of a mapping that are the process's own.
func (s *stacks) present(process string, m *procmaps.Mapping) error {
	const page, piece = 4096, 1 << 30
	var run procmaps.Mapping
	end := func() error {
		if run.End == 0 {
			return nil
		}
		part := run
		run = procmaps.Mapping{}
		return s.part(part.Start, &part)
	}
	for low := m.Start; low < m.End; low += piece {
		pages, err := mem.OwnPagesOf(process, low, min(low+piece, m.End))
		if err != nil {
			return err
		}
		for _, at := range pages {
			if at != run.End {
				if err := end(); err != nil {
					return err
				}
				run.Start = at
			}
			run.End = at + page
		}
	}
	return end()
}

// elsewhere looks through all memory that stacks may be in and that threads' own do not
// reach, if a suspect is there. It tells each, if that is not nil, of the words there.
func (s *session) elsewhere(found []suspect, each func(word uint64)) ([]uint64, error) {
	w := newStacks(s.Mem, s.maps)
	w.flat, w.each = true, each
	lowest, own := map[*procmaps.Mapping]uint64{}, map[*procmaps.Mapping]bool{}
	for _, t := range s.Threads {
		m := w.at(t.Regs.Rsp)
		if m == nil {
			continue
		}
		if low, on := lowest[m]; !on || t.Regs.Rsp < low {
			lowest[m] = t.Regs.Rsp
		}
		// libc's threads have their thread control block above their stack.
		own[m] = own[m] || m.Path == "[stack]" || t.Tid != s.Pid && t.Regs.Fs_base > t.Regs.Rsp && t.Regs.Fs_base < m.End
	}
	isElsewhere := func(f suspect) bool {
		m := w.at(f.at)
		if m == nil {
			return false
		}
		if low, on := lowest[m]; on {
			return f.at < low && !own[m] // below a thread's own are remains
		}
		before := w.at(f.rsp)
		_, on := lowest[before]
		return (before == m || !on) && !s.hasEnded(m) // else it was a thread's alternate stack
	}
	for _, f := range found {
		if !isElsewhere(f) {
			continue
		}
		for i := range w.maps {
			m := &w.maps[i]
			if !mayHold(m) || own[m] || s.hasEnded(m) {
				continue
			}
			if err := w.present(fmt.Sprint(s.Pid, "/task/", s.Threads[0].Tid), m); err != nil {
				return nil, fmt.Errorf("process %d: memory cannot be read: %w", s.Pid, err)
			}
		}
		break
	}
	return w.frames, nil
}

// hasEnded reports whether a mapping is the stack of a thread that has ended, which libc keeps
// for another one: at its end is the thread's control block, which has its own address twice.
func (s *session) hasEnded(m *procmaps.Mapping) bool {
	const block, itself, word = 8 << 10, 16, 8
	size := min(m.End-m.Start, block)
	b := make([]byte, size)
	if _, err := s.Mem.ReadAt(b, int64(m.End-size)); err != nil {
		return false
	}
	for off := uint64(0); off+itself+word <= size; off += word {
		at := m.End - size + off
		if binary.LittleEndian.Uint64(b[off:]) != at || binary.LittleEndian.Uint64(b[off+itself:]) != at {
			continue
		}
		for _, t := range s.Threads {
			if t.Regs.Fs_base == at {
				return false
			}
		}
		return true
	}
	return false
}
