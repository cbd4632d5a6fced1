package control

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Service is the agent's end. A file that is cut short under it raises no signal:
// Used tells of it.
type Service struct {
	t *file.File
	w *file.Words
}

// Serve opens the table at path, which has that nonce, for its agent.
func Serve(path string, nonce [16]byte) (*Service, error) {
	t, err := file.Open(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	if err := t.ReadHead(); err != nil && !errors.Is(err, layout.ErrBuilding) || t.Nonce != nonce {
		t.Close()
		return nil, fmt.Errorf("%s is not the table of this program: %w", path, errors.Join(err, layout.ErrNotTable))
	}
	w, err := t.MapWords()
	if err != nil {
		t.Close()
		return nil, err
	}
	return &Service{t, w}, nil
}

// File is the open table.
func (s *Service) File() *os.File { return s.t.OS() }

// Pid is the program's first process.
func (s *Service) Pid() int { return int(s.t.Pid) }

// Live reports whether counting has begun.
func (s *Service) Live() bool {
	live, _ := s.live()
	return live
}

func (s *Service) live() (live bool, err error) {
	err = file.Guard(func() error {
		live = s.w.Word(layout.HdrState).Load() == layout.StateLive
		return nil
	})
	return live, err
}

// Ready tells those who ask that the agent is there.
func (s *Service) Ready() {
	file.Guard(func() error {
		s.w.Word(layout.HdrAgentPid).Store(uint32(os.Getpid()))
		s.w.Word(layout.HdrAgent).Store(layout.AgentReady)
		return nil
	})
}

// Wait waits for a request, at most for that long or until Wake, and has it
// done. do returns a number of functions or a negative errno.
func (s *Service) Wait(patience time.Duration, do func(what uint32) int) {
	request, asked := s.next(patience)
	if !asked {
		return
	}
	result := do(request & (1<<requestBits - 1))
	file.Guard(func() error {
		s.w.Long(layout.HdrReply).Store(uint64(uint32(int32(result)))<<replyResult | uint64(request))
		s.w.Wake(layout.HdrReply)
		return nil
	})
}

// next waits for a request, at most for that long.
func (s *Service) next(patience time.Duration) (request uint32, asked bool) {
	file.Guard(func() error {
		word, reply := s.w.Word(layout.HdrRequest), s.w.Long(layout.HdrReply)
		if request = word.Load(); uint32(reply.Load()) == request {
			s.w.Wait(layout.HdrRequest, request, patience)
			request = word.Load()
		}
		asked = uint32(reply.Load()) != request
		return nil
	})
	return request, asked
}

// Wake ends a Wait.
func (s *Service) Wake() { s.w.Wake(layout.HdrRequest) }

// Store stores a long word of the header.
func (s *Service) Store(at int, value uint64) {
	file.Guard(func() error {
		s.w.Long(at).Store(value)
		return nil
	})
}

// Used reports whether a process of the program is still there. The kernel is
// asked whether anybody else has the file mapped, so it must not be by us.
func (s *Service) Used() (bool, error) {
	live, err := s.live()
	if err != nil {
		return false, err
	}
	if alive.Start(s.t.Pid) == s.t.StartTicks {
		return true, nil
	}
	if live && s.t.ReadHead() != nil {
		return false, layout.ErrTruncated
	}
	s.w.Close()
	used := alive.Of(s.t) != alive.Exited
	w, err := s.t.MapWords()
	if err != nil {
		return used, err // Close finds no words, which is a fault to Guard
	}
	s.w = w
	return used, nil
}

// Close tells those who ask that nobody is there any more.
func (s *Service) Close() {
	file.Guard(func() error {
		s.w.Word(layout.HdrAgent).Store(layout.AgentGone)
		s.w.Wake(layout.HdrReply)
		return nil
	})
	s.w.Close()
	s.t.Close()
}
