package attach

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// begin stops the process and has the plan applied.
func (p *prepared) begin() (*Result, error) {
	if p.started == nil {
		p.fetch()
	}
	result, found := &Result{}, p.suspects()
	err := p.stopped(func(s *session) error {
		if err := p.isAsPlanned(s.maps); err != nil {
			return err
		}
		if err := s.consistent(p); err != nil {
			return err
		}
		if err := s.freeGS(); err != nil {
			return err
		}
		frames, err := s.frames(found)
		if err != nil {
			return err
		}
		err = p.enter(s, frames)
		result.Pause, result.Threads = max(p.pause, time.Since(s.begun)), len(s.Threads)
		return err
	})
	return result, err
}

// frames are the contexts that signals have left on the stacks of all threads, and elsewhere.
func (s *session) frames(found []suspect) ([]uint64, error) {
	all, err := s.elsewhere(found, nil)
	if err != nil {
		return nil, err
	}
	walked, failed := s.walkAll(func(_ int, t *ptrace.Thread) uint64 { return t.Regs.Rsp }, nil)
	for i, w := range walked {
		if failed[i] != nil {
			return nil, fmt.Errorf("process %d: a stack cannot be read: %w", s.Pid, failed[i])
		}
		all = append(all, w.frames...)
	}
	slices.Sort(all) // threads may have handlers on a stack that each other's lead to
	return slices.Compact(all), nil
}

// stopped calls do with all threads of the process stopped.
func (p *prepared) stopped(do func(*session) error) error {
	if p.started == nil {
		return stopped(p.Pid, p, do)
	}
	s := newSession(p)
	s.Process, s.inherits, s.apart = p.started, p.Inherits, isApart(p.Pid)
	if err := s.look(); err != nil {
		return err
	}
	return do(s)
}

// consistent is an error if the dynamic linker's lists change just now, or the process has executed
// something since it was looked at: the same static program may have the same code at the same place.
func (s *session) consistent(p *prepared) error {
	_, err := remote.FindLinker(s.Mem, remote.ParseAuxv(p.auxv), s.maps)
	if err == nil {
		err = atRest(s.Mem, p.linker)
	}
	if p.isAnother() {
		err = errExecutes
	}
	if err != nil {
		return again("process %d: %w", s.Pid, err)
	}
	return nil
}

// freeGS is an error if a thread has a GS base: its rows could not be found by it.
func (s *session) freeGS() error {
	for _, t := range s.Threads {
		if t.Regs.Gs_base != 0 || t.Regs.Gs != 0 {
			return fmt.Errorf("process %d uses the GS segment: start it with hotspots run", s.Pid)
		}
	}
	return nil
}

// enter maps the code, the stubs and a place to work in, and has one of the threads do the
// rest.
func (p *prepared) enter(s *session, frames []uint64) error {
	struck := s.struck(frames, p.plan.Returns())
	mark := make([]byte, 8)
	if _, err := rand.Read(mark); err != nil {
		return err
	}
	request := &handover.Attach{Wish: handover.ToAttach, Nonce: p.table.Nonce, Mark: binary.LittleEndian.Uint64(mark) | 1, RDebug: p.linker.RDebug,
		Low: p.code.Low, High: p.code.High, FramesCount: uint64(len(frames)), StruckCount: uint64(len(struck)), ArenasCount: uint64(len(p.arenas)), TextsCount: uint64(len(p.texts))}
	if p.plan.IsGo() {
		request.Small = 1
	}
	if p.leavesStruck {
		request.LeavesStruck = 1
	}
	request.Undos, request.UndosCount = p.plan.Undos()
	lists := map[*uint64][]byte{
		&request.Frames: handover.Bytes(frames), &request.Struck: handover.Bytes(struck), &request.Arenas: handover.Bytes(p.arenas), &request.Texts: handover.Bytes(p.texts),
		&request.Auxv: append(p.auxvFor(s), make([]byte, 16)...),
	}
	if p.Companion != nil {
		request.CompanionSize = uint64(len(p.Companion.name))
		lists[&request.Companion] = []byte(p.Companion.name)
	}
	if s.apart {
		s.sends = p.table
	} else {
		lists[&request.Table] = append([]byte(p.table.Path()), 0)
	}
	if s.scratchFor(lists) > scratchRoom {
		return fmt.Errorf("process %d has too many threads: %d", p.Pid, len(s.Threads))
	}
	c, err := s.caller(s.pathFor(p.file))
	if err != nil {
		return err
	}
	if err := p.mapAll(s, c, request, lists); err != nil {
		return errors.Join(err, s.unmapAll(c), c.End())
	}
	if err := s.work(c, p.code.Low, p.Blob, request, lists); err != nil {
		return err
	}
	err = nil
	if request.Outcome != handover.Succeeded {
		err = fmt.Errorf("process %d: %s", p.Pid, unix.ByteSliceToString(request.Why[:]))
		switch {
		case s.unsent != nil:
			err = fmt.Errorf("the table cannot be sent to process %d: %w", p.Pid, s.unsent)
		case request.Outcome == handover.Again:
			err = &errAgain{err}
		}
	}
	switch {
	case s.stay:
		return err // a few pages stay as well: Detach knows them
	case err != nil:
		return errors.Join(err, s.calls(s.unmapAll))
	}
	return s.unmapScratch()
}

// auxvFor is the auxiliary vector, without a vdso that the program has unmapped or moved.
func (p *prepared) auxvFor(s *session) []byte {
	const pair = 16
	auxv := slices.Clone(p.auxv)
	for at := 0; at+pair <= len(auxv); at += pair {
		value := auxv[at+pair/2 : at+pair]
		isThere := func(m procmaps.Mapping) bool {
			return m.Path == "[vdso]" && m.Start == binary.LittleEndian.Uint64(value)
		}
		if binary.LittleEndian.Uint64(auxv[at:]) == remote.AtSysinfo && !slices.ContainsFunc(s.maps, isThere) {
			clear(value)
		}
	}
	return auxv
}

// mapAll maps the file: the code with its data, the stubs, the scratch memory, one behind the
// other.
func (p *prepared) mapAll(s *session, c *ptrace.Caller, request *handover.Attach, lists map[*uint64][]byte) error {
	low, text, size := p.code.Low, p.Blob.text, p.code.High-p.code.Low
	fd, err := s.open(c, p.file, size+p.used)
	if err != nil {
		return err
	}
	_, err = s.mapFile(c, low, text, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE, fd, 0)
	if err == nil {
		_, err = s.mapFile(c, low+text, size-text, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, fd, text)
	}
	if err == nil {
		request.ReserveSize = p.used
		request.Reserve, err = s.mapFile(c, low+size, p.used, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED, fd, size)
	}
	if err == nil {
		err = s.mapScratch(c, low+size+p.used, s.scratchFor(lists), fd, size+p.used)
	}
	if _, closed := c.Call(unix.SYS_CLOSE, fd); err == nil {
		err = closed
	}
	return err
}
