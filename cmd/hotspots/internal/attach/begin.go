package attach

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// begin stops the process and has the plan applied.
func (p *prepared) begin() (*Result, error) {
	result := &Result{}
	err := stopped(p.Pid, p.linker, func(s *session) error {
		if err := p.isAsPlanned(s.maps); err != nil {
			return err
		}
		if err := s.consistent(p); err != nil {
			return err
		}
		if err := s.freeGS(); err != nil {
			return err
		}
		frames := newStacks(s.Mem, s.maps)
		for _, t := range s.Threads {
			if err := frames.walk(t.Regs.Rsp); err != nil {
				return fmt.Errorf("process %d: a stack cannot be read: %w", p.Pid, err)
			}
		}
		err := p.enter(s, frames.frames)
		result.Pause, result.Threads = time.Since(s.begun), len(s.Threads)
		return err
	})
	return result, err
}

// consistent is an error if the dynamic linker's lists change just now.
func (s *session) consistent(p *prepared) error {
	_, err := remote.FindLinker(s.Mem, remote.ParseAuxv(p.auxv), s.maps)
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
	arenas, texts, used := p.lists()
	request := &handover.Attach{Wish: handover.ToAttach, Undos: 0, Nonce: p.table.Nonce, RDebug: p.linker.RDebug,
		Low: p.held.Low, High: p.held.High, FramesCount: uint64(len(frames)), ArenasCount: uint64(len(arenas)), TextsCount: uint64(len(texts))}
	request.Undos, request.UndosCount = p.plan.Undos()
	lists := map[*uint64][]byte{
		&request.Frames: handover.Bytes(frames), &request.Arenas: handover.Bytes(arenas), &request.Texts: handover.Bytes(texts),
		&request.Table: append([]byte(p.table.Path()), 0), &request.Auxv: append(p.auxv, make([]byte, 16)...),
	}
	c, err := s.caller()
	if err != nil {
		return err
	}
	if err := p.mapAll(s, c, request, lists, used); err != nil {
		return errors.Join(err, p.unmapAll(s, c, request), c.End())
	}
	if err := s.work(c, p.held.Low, p.Blob, request, lists); err != nil {
		return err
	}
	switch {
	case request.Outcome != handover.Succeeded:
		why := fmt.Errorf("process %d: %s", p.Pid, unix.ByteSliceToString(request.Why[:]))
		if request.Outcome == handover.Again {
			why = &errAgain{why}
		}
		return errors.Join(why, s.calls(func(c *ptrace.Caller) error { return p.unmapAll(s, c, request) }))
	case s.stay:
		return nil // a few pages stay as well
	}
	return s.unmapScratch()
}

// mapAll maps the code with its data, and the reserve, both pages of one file without a name
// that is the process's own, and that we write to.
func (p *prepared) mapAll(s *session, c *ptrace.Caller, request *handover.Attach, lists map[*uint64][]byte, used uint64) error {
	low, size := p.held.Low, uint64(len(p.Blob.image))
	scratch := s.scratchFor(lists)
	if err := s.mapScratch(c, p.besides(s, scratch), scratch); err != nil {
		request.Low, request.High = 0, 0 // nothing else is mapped
		return err
	}
	const none = ^uint64(0)
	_, err := c.Call(unix.SYS_MMAP, low, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE, none, 0)
	if errors.Is(err, unix.EEXIST) {
		request.Low, request.High = 0, 0 // it is not ours
		return again("process %d has mapped something where its code was to lie", p.Pid)
	}
	if err != nil {
		request.Low, request.High = 0, 0
		return fmt.Errorf("process %d has no address space left: %w", p.Pid, err)
	}
	die("mapped")
	if _, err := s.Mem.WriteAt(append([]byte(p.Blob.name()), 0), int64(low)); err != nil {
		return fmt.Errorf("process %d: its memory cannot be written to: %w", p.Pid, err)
	}
	fd, err := c.Call(unix.SYS_MEMFD_CREATE, low, unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("process %d cannot open a file: %w", p.Pid, err)
	}
	die("opened")
	err = p.fill(s, fd, used)
	code, data := p.Blob.text, size-p.Blob.text
	if err == nil {
		_, err = c.Call(unix.SYS_MMAP, low, code, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED, fd, 0)
	}
	if err == nil {
		_, err = c.Call(unix.SYS_MMAP, low+code, data, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED, fd, code)
	}
	if err == nil {
		request.ReserveSize = used
		request.Reserve, err = c.Call(unix.SYS_MMAP, p.besides(s, used), used, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED, fd, size)
	}
	if _, closed := c.Call(unix.SYS_CLOSE, fd); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("process %d cannot map what is counted by: %w", p.Pid, err)
	}
	die("filled")
	return nil
}

// besides finds a place where neither the code, nor an arena will lie: those come later.
func (p *prepared) besides(s *session, size uint64) uint64 {
	taken := append(slices.Clone(s.maps), procmaps.Mapping{Start: p.held.Low, End: p.held.High})
	for _, a := range p.plan.Arenas() {
		taken = append(taken, procmaps.Mapping{Start: a.At, End: a.At + a.Size + a.Pointers + a.ViewSize})
	}
	if s.scratch != 0 {
		taken = append(taken, procmaps.Mapping{Start: s.scratch, End: s.scratch + s.scratchSize})
	}
	slices.SortFunc(taken, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	at, _ := place.NewSpace(taken, p.process.Lowest(), p.process.Growth()).PlaceAnywhere(p.linker.Objects[0].Span, size)
	return at // 0: the kernel finds one, or there is none
}

// fill writes code, data and stubs into the process's file.
func (p *prepared) fill(s *session, fd, used uint64) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/task/%d/fd/%d", s.Pid, s.worker.Tid, fd), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(len(p.Blob.image))
	if err := f.Truncate(size + int64(used)); err != nil {
		return err
	}
	if _, err := f.WriteAt(p.Blob.image, 0); err != nil {
		return err
	}
	stubs, err := p.process.Reserve()
	if err == nil {
		_, err = f.WriteAt(stubs[:used], size)
	}
	return err
}

// unmapAll unmaps what mapAll has mapped.
func (p *prepared) unmapAll(s *session, c *ptrace.Caller, request *handover.Attach) error {
	var err error
	for _, m := range [][2]uint64{{request.Low, request.High - request.Low}, {request.Reserve, request.ReserveSize}, {s.scratch, s.scratchSize}} {
		if m[0] != 0 && m[1] != 0 {
			_, failed := c.Call(unix.SYS_MUNMAP, m[0], m[1])
			err = errors.Join(err, failed)
		}
	}
	return err
}
