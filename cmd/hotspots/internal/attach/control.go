package attach

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
)

// ErrNotAttached is the error of SetPaused where no process counts into a table by Attach.
var ErrNotAttached = errors.New("no process that was attached to counts into it")

// SetPaused does what an agent does (internal/agent), where there is none: it has the calls of all
// processes that count into a table counted or not. What it returns is as of control.Ask.
//
// One of them is stopped, and does it for all: they have the same stubs. Should we be killed
// meanwhile, it is done or not.
func SetPaused(table string, paused bool, b *Blob) (left int, err error) {
	all, err := attachedTo(table)
	if err != nil {
		return 0, err
	}
	err = ErrNotAttached
	for i, pid := range all {
		n, failed := pause(pid, paused, b)
		if failed == nil {
			return n, nil
		}
		if i == 0 {
			err = failed
		}
	}
	return 0, err
}

// attachedTo are the processes that were attached to, and have a table mapped.
func attachedTo(table string) (all []int, err error) {
	fi, err := os.Stat(table)
	if err != nil {
		return nil, err
	}
	inode := fi.Sys().(*syscall.Stat_t).Ino
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		maps, err := procmaps.Of(e.Name())
		if err == nil && slices.ContainsFunc(maps, isOurs) &&
			slices.ContainsFunc(maps, func(m procmaps.Mapping) bool { return m.Shared && m.Inode == inode }) {
			all = append(all, pid)
		}
	}
	return all, nil
}

// pause does so by way of one process.
func pause(pid int, paused bool, b *Blob) (left int, err error) {
	request := &handover.Attach{Wish: handover.ToResume}
	if paused {
		request.Wish = handover.ToPause
	}
	err = retry(pid, func() error {
		if err := mayStop(pid); err != nil {
			return err
		}
		err := ask(pid, request, b)
		if errors.Is(err, unix.EPERM) { // another hotspots was faster
			err = &errAgain{err}
		}
		return err
	})
	if err == nil && request.Result == -int64(unix.EOPNOTSUPP) {
		return 0, fmt.Errorf("process %d: its blocks are counted, which cannot be paused but with --control", pid)
	}
	if err == nil && request.Result < 0 {
		err = fmt.Errorf("process %d: %w", pid, syscall.Errno(-request.Result))
	}
	return int(request.Result), orEnded(pid, err)
}

// ask has the code in a process do what request says, and nothing besides.
func ask(pid int, request *handover.Attach, b *Blob) error {
	p, err := look(pid)
	if err != nil {
		return err
	}
	defer p.process.Close()
	room, err := newFile(b.name(), scratchRoom)
	if err != nil {
		return err
	}
	defer room.Close()
	return stopped(pid, p, func(s *session) error {
		code, state, err := s.code(b)
		if err != nil {
			return err
		}
		if state != handover.Counts {
			return fmt.Errorf("process %d: %w", pid, ErrNotAttached)
		}
		c, err := s.roomFor(room, nil)
		if err == nil {
			err = s.work(c, code.Low, b, request, nil)
		}
		if err == nil && !s.stay {
			err = s.unmapScratch()
		}
		if err == nil && request.Outcome == handover.Again {
			err = errPlans
		}
		return err
	})
}
