package attach

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/place"
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
	if err := mayStop(pid); err != nil {
		return nil, err
	}
	left := &Left{Table: find.MappedBy(pid)}
	if seen := (code.Memory{}); left.Table != "" && seen.See(pid) {
		code.Note(left.Table, seen) // else the report does not say what is not counted of code that it makes
	}
	err := retry(pid, func() error { return left.end(pid, b) })
	if left.Table != "" && (err == nil || errors.Is(err, errInside)) {
		edit.MarkEnded(left.Table, layout.Ended{Kind: layout.EndedDetached, Time: time.Now()}) // else it is said to have exited
	}
	if left.Stays = errors.Is(err, errInside); left.Stays {
		return left, nil // it runs its own code again
	}
	return left, orEnded(pid, err)
}

// mayStop is why a process that was attached to cannot be stopped.
func mayStop(pid int) error {
	return checks(pid, checkThere, checkTracer, checkPermission, checkSandbox)
}

// end ends counting, and unmaps what is ours if nobody can be there.
func (l *Left) end(pid int, b *Blob) error {
	p, err := look(pid)
	if err != nil {
		return err
	}
	defer p.process.Close()
	files := ourFiles(p.process.Thread())
	if len(files) == 0 && !slices.ContainsFunc(p.maps, isOurs) && !blockLeft(p) {
		return fmt.Errorf("process %d is not attached to", pid)
	}
	room, err := newFile(b.name(), scratchRoom)
	if err != nil {
		return err
	}
	defer room.Close()
	defer keepFiles(pid, p.maps)()
	found := p.suspects()
	return stopped(pid, p, func(s *session) error {
		s.files, s.found = files, found
		if err := s.consistent(p); err != nil {
			return err
		}
		err := l.endStopped(s, b, room)
		l.Pause = max(l.Pause, time.Since(s.begun))
		return err
	})
}

// keepFiles has files of ours that a process has mapped stay, if the kernel lets us, until what it
// returns is called: else all their memory is freed when the process, which waits, unmaps it.
func keepFiles(pid int, maps []procmaps.Mapping) (let func()) {
	files := map[uint64]*os.File{}
	for i := range maps {
		m := &maps[i]
		if files[m.Inode] != nil || !isOurs(*m) {
			continue
		}
		if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End), unix.O_PATH, 0); err == nil {
			files[m.Inode] = f
		}
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// blockLeft reports whether a Caller of somebody's who was killed is left.
func blockLeft(p *prepared) bool {
	s := &session{Process: &ptrace.Process{Mem: p.process.Memory}, maps: p.maps, tails: p.linker.Tails}
	for at := range s.places {
		if left, _ := s.IsLeft(at); left {
			return true
		}
	}
	return false
}

// endStopped does so where all threads are stopped. Whoever attached before may have been
// killed, and what there is of ours be less than all, or more than the code there knows.
func (l *Left) endStopped(s *session, b *Blob, room *os.File) error {
	if s.isLeaving() {
		return errInside
	}
	code, state, err := s.code(b)
	if err != nil {
		return err
	}
	switch state {
	case handover.NothingYet:
		if l.Table != "" {
			return fmt.Errorf("process %d counts into %s, and not by hotspots attach", s.Pid, l.Table)
		}
		return s.sweep()
	case handover.Counts, handover.HasEnded:
		return l.giveBack(s, b, code, room)
	}
	return again("process %d: another hotspots, which was killed, is not through yet", s.Pid)
}

// code is where our code lies in a process that is stopped, and how far it is.
func (s *session) code(b *Blob) (code place.Span, state uint64, err error) {
	if code, err = ourCode(s.maps, b); err != nil {
		return code, 0, fmt.Errorf("process %d %w", s.Pid, err)
	}
	state, err = stateOf(s.Mem, code, b)
	return code, state, err
}

// stateOf is how far the code there is, if there is some.
func stateOf(mem io.ReaderAt, code place.Span, b *Blob) (uint64, error) {
	if code.High == 0 {
		return handover.NothingYet, nil
	}
	word := make([]byte, 8)
	_, err := mem.ReadAt(word, int64(code.Low+b.symbols["dp_attach_state"]))
	return binary.LittleEndian.Uint64(word), err
}

func isOurs(m procmaps.Mapping) bool { return strings.HasPrefix(m.Path, mapPrefix) }

// ourCode is where the code of an earlier Attach lies with its data; none, if that is not
// mapped, too: then it never ran.
func ourCode(maps []procmaps.Mapping, b *Blob) (code place.Span, err error) {
	for _, m := range maps {
		rest, ours := strings.CutPrefix(m.Path, mapPrefix)
		if !ours {
			continue
		}
		if sum := strings.TrimSuffix(rest, deleted); sum != b.sum {
			return code, fmt.Errorf("was attached to by another build of hotspots (%s): only that can detach", sum)
		}
		switch {
		case m.Shared:
		case m.Offset == 0 && isExecutable(&m): // else it is the scratch memory of a Detach
			code.Low = m.Start
		case m.Offset == b.text && m.Start == code.Low+b.text:
			code.High = code.Low + uint64(len(b.image))
		}
	}
	if code.High == 0 {
		return place.Span{}, nil
	}
	return code, nil
}

// ourFiles are the descriptors of files of ours that a thread has open.
func ourFiles(thread string) (all []uint64) {
	list, _ := os.ReadDir(thread + "/fd") // what cannot be seen is not ours
	for _, e := range list {
		if to, err := os.Readlink(thread + "/fd/" + e.Name()); err == nil && strings.HasPrefix(to, mapPrefix) {
			if fd, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
				all = append(all, fd)
			}
		}
	}
	return all
}

// closeFiles closes what somebody has left open who was killed, if it is what it was.
func (s *session) closeFiles(c *ptrace.Caller) error {
	for _, fd := range s.files {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/task/%d/fd/%d", s.Pid, s.worker.Tid, fd))
		if err != nil || !strings.HasPrefix(to, mapPrefix) {
			continue
		}
		if _, err := c.Call(unix.SYS_CLOSE, fd); err != nil {
			return err
		}
	}
	return nil
}

// sweep takes away what is left of somebody who was killed before anything was changed.
func (s *session) sweep() error {
	ours := only(s.maps, func(m *procmaps.Mapping) bool { return isOurs(*m) })
	for _, t := range s.Threads {
		if ours.has(t.Regs.Rip) {
			return errInside
		}
	}
	err := s.calls(func(c *ptrace.Caller) error {
		if err := s.closeFiles(c); err != nil {
			return err
		}
		for _, m := range ours {
			if _, err := c.Call(unix.SYS_MUNMAP, m.Start, m.End-m.Start); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, s.wipe())
}

// isLeaving reports whether a thread is in such code yet, which gets it back where it was in a
// moment: it waits for who was killed before it unmaps what is last.
func (s *session) isLeaving() bool {
	for at := range s.places {
		if s.IsIn(at) {
			return true
		}
	}
	return false
}

// wipe takes away code for system calls that somebody has left.
func (s *session) wipe() error {
	for at := range s.places {
		if _, err := s.Wipe(at); err != nil && !errors.Is(err, ptrace.ErrUsed) {
			return err
		}
	}
	return nil
}

func (l *Left) giveBack(s *session, b *Blob, code place.Span, room *os.File) error {
	l.room = max(l.room, 1<<10)
	request := &handover.Attach{Wish: handover.ToDetach, Low: code.Low, High: code.High, OwnedRoom: l.room}
	// With room for what only the mappings tell, and a zero behind.
	lists := map[*uint64][]byte{&request.Owned: make([]byte, (l.room+uint64(len(s.maps))+1)*handover.RangeSize)}
	c, err := s.roomFor(room, lists)
	if err != nil {
		return err
	}
	if err := s.work(c, code.Low, b, request, lists); err != nil {
		return err
	}
	switch {
	case request.Outcome == handover.Again && s.stay:
		return errPlans
	case request.Outcome == handover.Again:
		return cmp.Or(s.unmapScratch(), error(errPlans))
	case request.Outcome != handover.Succeeded:
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
	return s.unmap(request, ours, inside)
}

// roomFor maps a file of ours to work in.
func (s *session) roomFor(room *os.File, lists map[*uint64][]byte) (*ptrace.Caller, error) {
	c, err := s.caller(s.pathFor(room))
	if err != nil {
		return nil, err
	}
	if err := s.mapRoom(c, room, lists); err != nil {
		return nil, errors.Join(err, s.unmapAll(c), c.End())
	}
	return c, nil
}

func (s *session) mapRoom(c *ptrace.Caller, room *os.File, lists map[*uint64][]byte) error {
	if err := s.closeFiles(c); err != nil {
		return err
	}
	fd, err := s.open(c, room, 0)
	if err != nil {
		return err
	}
	err = s.mapScratch(c, 0, s.scratchFor(lists), fd, 0)
	if _, closed := c.Call(unix.SYS_CLOSE, fd); err == nil {
		err = closed
	}
	return err
}

// ours is all that is mapped in the process for us, in order. What the code there knows of it
// may be named twice; what somebody has left who was killed is known by its file's name.
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
	all = append(all, only(s.maps, func(m *procmaps.Mapping) bool { return isOurs(*m) })...)
	slices.SortFunc(all, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	joined := all[:0]
	for _, m := range all {
		if n := len(joined); n > 0 && m.Start <= joined[n-1].End {
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
	code := only(s.maps, func(m *procmaps.Mapping) bool { return isExecutable(m) && ours.has(m.Start) })
	behind := [...]uint64{request.Low + b.symbols["dp_behind_watched"], request.Low + b.symbols["dp_behind_shown"]}
	vdso := only(s.maps, func(m *procmaps.Mapping) bool { return m.Path == "[vdso]" })
	lends := make([]bool, len(s.Threads)) // our code asks for the time
	for i := range s.Threads {
		lends[i] = vdso.has(s.slots[i].To.RIP)
	}
	var words atomic.Bool
	walked, failed := s.walkAll(func(i int, _ *ptrace.Thread) uint64 { return s.slots[i].To.RSP }, func(i int, word uint64) {
		if word == behind[0] || word == behind[1] || lends[i] && code.has(word) {
			words.Store(true)
		}
	})
	apart, err := s.elsewhere(s.found, func(word uint64) {
		if word == behind[0] || word == behind[1] {
			words.Store(true)
		}
	})
	if err != nil {
		return true, err
	}
	met, frames := words.Load(), apart
	for i, t := range s.Threads {
		if err := failed[i]; isAgain(err) {
			return true, nil
		} else if err != nil {
			return true, fmt.Errorf("process %d: the stack of thread %d cannot be read: %w", s.Pid, t.Tid, err)
		}
		met = met || code.has(s.slots[i].To.RIP)
		frames = append(frames, walked[i].frames...)
	}
	for _, at := range frames {
		rip := make([]byte, 8)
		if _, err := s.Mem.ReadAt(rip, int64(at+ucRIP)); err != nil {
			return true, err
		}
		met = met || code.has(binary.LittleEndian.Uint64(rip))
	}
	return met, nil
}

// errInside has it tried again: threads come out of our code.
var errInside = &errAgain{errors.New("threads are in code of ours yet")}

// errPlans has it tried again: what a thread has loaded is about to be counted.
var errPlans = &errAgain{errors.New("what it loads is about to be counted")}

func (s *session) unmap(request *handover.Attach, ours ranges, inside bool) error {
	if inside {
		if s.stay {
			return errInside
		}
		return cmp.Or(s.unmapScratch(), error(errInside))
	}
	// All of it, or nothing, should we be killed: the code that tells what is ours goes, too.
	var list []handover.Range
	for _, m := range ours {
		list = append(list, handover.Range{Low: m.Start, High: m.End - m.Start})
	}
	if _, err := s.Mem.WriteAt(handover.Bytes(append(list, handover.Range{})), int64(request.Owned)); err != nil {
		return err
	}
	s.state.Gs_base = 0
	err := s.calls(func(c *ptrace.Caller) error {
		if err := s.setGS(0); err != nil {
			return err
		}
		return c.Unmap(request.Owned, ours[len(ours)-1].Start, s.scratch, s.scratchSize)
	})
	return errors.Join(err, s.wipe())
}
