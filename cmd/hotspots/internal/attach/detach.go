package attach

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/find"
)

// Left tells of what Detach has left behind.
type Left struct {
	Table string        // what was counted
	Pause time.Duration // the longest for which the process was stopped
	// Stays: our code stays mapped, as a thread is in it, or may come back to it.
	Stays bool

	room uint64 // for what the code there lists of what is ours
}

// Detach gives a process back what it was before Attach: its code, its handlers, its memory.
func Detach(pid int, b *Blob) (*Left, error) {
	for _, c := range []func(int) error{checkThere, checkTracer, checkPermission, checkRoot, checkSandbox} {
		if err := c(pid); err != nil {
			return nil, err
		}
	}
	left := &Left{Table: find.MappedBy(pid)}
	err := retry(pid, func() error { return left.end(pid, b) })
	if left.Stays = errors.Is(err, errInside); left.Stays {
		return left, nil // it runs its own code again
	}
	return left, orEnded(pid, err)
}

// end ends counting, and unmaps what is ours if nobody can be there.
func (l *Left) end(pid int, b *Blob) error {
	p, err := look(pid)
	if err != nil {
		return err
	}
	defer p.process.Close()
	code, err := ourCode(p.maps, b)
	if err != nil {
		return fmt.Errorf("process %d %w", pid, err)
	}
	return stopped(pid, p.linker, func(s *session) error {
		if err := s.consistent(p); err != nil {
			return err
		}
		err := l.giveBack(s, b, code)
		l.Pause = max(l.Pause, time.Since(s.begun))
		return err
	})
}

// ourCode is where the code of an earlier Attach begins.
func ourCode(maps []procmaps.Mapping, b *Blob) (uint64, error) {
	other := ""
	for _, m := range maps {
		rest, ours := strings.CutPrefix(m.Path, mapPrefix)
		if !ours {
			continue
		}
		if sum := strings.TrimSuffix(rest, deleted); sum != b.sum {
			other = sum
		} else if m.Offset == 0 && !m.Shared {
			return m.Start, nil
		}
	}
	if other != "" {
		return 0, fmt.Errorf("was attached to by another build of hotspots (%s): only that can detach", other)
	}
	return 0, errors.New("is not attached to")
}

func (l *Left) giveBack(s *session, b *Blob, base uint64) error {
	l.room = max(l.room, 1<<10)
	request := &handover.Attach{Wish: handover.ToDetach, Low: base, High: base + uint64(len(b.image)), OwnedRoom: l.room}
	lists := map[*uint64][]byte{&request.Owned: make([]byte, l.room*handover.RangeSize)}
	c, err := s.caller()
	if err != nil {
		return err
	}
	if err := s.mapScratch(c, 0, s.scratchFor(lists)); err != nil {
		return errors.Join(err, c.End())
	}
	if err := s.work(c, base, b, request, lists); err != nil {
		return err
	}
	if request.Outcome != handover.Succeeded {
		return fmt.Errorf("process %d: BUG: outcome %d of detaching", s.Pid, request.Outcome)
	}
	if l.room = request.OwnedCount; l.room > request.OwnedRoom {
		return again("process %d has %d pieces of memory of ours, more than there was room to list", s.Pid, l.room)
	}
	ours, err := s.ours(request)
	if err != nil {
		return err
	}
	inside, err := s.inside(request, b, ours)
	if err != nil {
		return err
	}
	return s.unmap(ours, inside)
}

// ours is all that is mapped in the process for us, in order. What the code there knows of it
// may be named twice.
func (s *session) ours(request *handover.Attach) (all ranges, err error) {
	b := make([]byte, request.OwnedCount*handover.RangeSize)
	if _, err := s.Mem.ReadAt(b, int64(request.Owned)); err != nil {
		return nil, err
	}
	list := make([]handover.Range, request.OwnedCount)
	if err := handover.Read(b, list); err != nil {
		return nil, err
	}
	for _, r := range append(list, handover.Range{Low: request.Low, High: request.High}) {
		all = append(all, procmaps.Mapping{Start: r.Low, End: r.High})
	}
	slices.SortFunc(all, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	joined := all[:0]
	for _, m := range all {
		if n := len(joined); n > 0 && m.Start < joined[n-1].End {
			joined[n-1].End = max(joined[n-1].End, m.End)
			continue
		}
		joined = append(joined, m)
	}
	return joined, nil
}

// inside reports whether a thread is in code of ours, or may come back to it: a handler of the
// program's that our code has called returns to one of two places, or what it has interrupted
// is ours. Else our code calls nobody. A word that was left on a stack by a handler that is
// through looks the same.
func (s *session) inside(request *handover.Attach, b *Blob, ours ranges) (bool, error) {
	if request.Inside > 0 || s.stay {
		return true, nil
	}
	code, met := only(s.maps, func(m *procmaps.Mapping) bool { return m.Prot&procmaps.ProtExec != 0 && ours.has(m.Start) }), false
	behind := [...]uint64{request.Low + b.symbols["dp_behind_watched"], request.Low + b.symbols["dp_behind_shown"]}
	vdso := only(s.maps, func(m *procmaps.Mapping) bool { return m.Path == "[vdso]" })
	for i, t := range s.Threads {
		to := s.slots[i].To
		w := newStacks(s.Mem, s.maps)
		lends := vdso.has(to.RIP) // our code asks for the time
		w.each = func(word uint64) {
			met = met || word == behind[0] || word == behind[1] || lends && code.has(word)
		}
		if err := w.walk(to.RSP); err != nil {
			return true, fmt.Errorf("process %d: the stack of thread %d cannot be read: %w", s.Pid, t.Tid, err)
		}
		met = met || code.has(to.RIP)
		for _, at := range w.frames {
			rip := make([]byte, 8)
			if _, err := s.Mem.ReadAt(rip, int64(at+ucRIP)); err != nil {
				return true, err
			}
			met = met || code.has(binary.LittleEndian.Uint64(rip))
		}
	}
	return met, nil
}

// errInside has it tried again: threads come out of our code.
var errInside = &errAgain{errors.New("threads are in code of ours yet")}

func (s *session) unmap(ours ranges, inside bool) error {
	if inside {
		if s.stay {
			return errInside
		}
		return cmp.Or(s.unmapScratch(), error(errInside))
	}
	s.state.Gs_base = 0
	return s.calls(func(c *ptrace.Caller) error {
		if err := s.setGS(0); err != nil {
			return err
		}
		die("given back")
		for _, m := range append(ours, procmaps.Mapping{Start: s.scratch, End: s.scratch + s.scratchSize}) {
			if _, err := c.Call(unix.SYS_MUNMAP, m.Start, m.End-m.Start); err != nil {
				return fmt.Errorf("process %d: %#x cannot be unmapped: %w", s.Pid, m.Start, err)
			}
		}
		return nil
	})
}
