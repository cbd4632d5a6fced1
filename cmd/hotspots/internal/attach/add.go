package attach

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// add has counted what a process that is attached to has loaded since, when nobody was beside it
// who could plan that (Companion).
func add(r *Request, counted *errCounted) (*Result, error) {
	if r.Output != "" {
		path, err := tabledir.OutputPath(r.Output, os.Getenv("XDG_RUNTIME_DIR"), tabledir.Names{Pid: r.Pid, Time: time.Now()})
		if err != nil || !isSame(path, counted.table) {
			return nil, counted
		}
	}
	request := &handover.Attach{Wish: handover.ToAdd}
	c := r.Companion
	if c == nil {
		var err error
		if c, err = Accompany(r.Options); err != nil {
			return nil, err
		}
		defer c.End()
		request.Leaves = 1
	}
	result := &Result{Table: counted.table}
	err := retry(r.Pid, func() error { return addOnce(r, request, c, result) })
	if err != nil {
		return nil, orEnded(r.Pid, err)
	}
	if result.Added = int(request.Result); result.Added == 0 {
		return nil, counted
	}
	return result, nil
}

func isSame(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// addOnce stops the process, one thread of which asks us for a plan.
func addOnce(r *Request, request *handover.Attach, c *Companion, result *Result) error {
	p, err := look(r.Pid)
	if err != nil {
		return err
	}
	defer p.process.Close()
	room, err := newFile(r.Blob.name(), scratchRoom)
	if err != nil {
		return err
	}
	defer room.Close()
	found := p.suspects()
	return stopped(r.Pid, p, func(s *session) error {
		code, state, err := s.code(r.Blob)
		if err != nil {
			return err
		}
		if state != handover.Counts {
			return fmt.Errorf("process %d: %w", r.Pid, ErrNotAttached)
		}
		frames, err := s.frames(found)
		if err != nil {
			return err
		}
		request.Outcome, request.Why = handover.Failed, [256]byte{}
		struck := s.struck(frames, nil)
		request.FramesCount, request.StruckCount, request.CompanionSize = uint64(len(frames)), uint64(len(struck)), uint64(len(c.name))
		lists := map[*uint64][]byte{&request.Frames: handover.Bytes(frames), &request.Struck: handover.Bytes(struck), &request.Companion: []byte(c.name)}
		caller, err := s.roomFor(room, lists)
		if err == nil {
			err = s.work(caller, code.Low, r.Blob, request, lists)
		}
		result.Pause, result.Threads = time.Since(s.begun), len(s.Threads)
		if err != nil {
			return err
		}
		if request.Outcome != handover.Succeeded {
			err = fmt.Errorf("process %d: %s", r.Pid, cmp.Or(unix.ByteSliceToString(request.Why[:]), errPlans.Error()))
		}
		if request.Outcome == handover.Again {
			err = &errAgain{err}
		}
		if s.stay {
			return err
		}
		return errors.Join(err, s.unmapScratch())
	})
}
