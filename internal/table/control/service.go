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

// Service is the agent's end.
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
func (s *Service) Live() bool { return s.w.Word(layout.HdrState).Load() == layout.StateLive }

// Ready tells those who ask that the agent is there.
func (s *Service) Ready() {
	s.w.Word(layout.HdrAgentPid).Store(uint32(os.Getpid()))
	s.w.Word(layout.HdrAgent).Store(layout.AgentReady)
}

// Wait waits for a request, at most for that long or until Wake, and has it
// done. do returns a number of functions or a negative errno.
func (s *Service) Wait(patience time.Duration, do func(what uint32) int) {
	request, reply := s.w.Word(layout.HdrRequest).Load(), s.w.Long(layout.HdrReply)
	if uint32(reply.Load()) == request {
		s.w.Wait(layout.HdrRequest, request, patience)
		request = s.w.Word(layout.HdrRequest).Load()
	}
	if uint32(reply.Load()) == request {
		return
	}
	result := do(request & (1<<requestBits - 1))
	reply.Store(uint64(uint32(int32(result)))<<replyResult | uint64(request))
	s.w.Wake(layout.HdrReply)
}

// Wake ends a Wait.
func (s *Service) Wake() { s.w.Wake(layout.HdrRequest) }

// Used reports whether a process of the program is still there. The kernel is
// asked whether anybody else has the file mapped, so it must not be by us.
func (s *Service) Used() (bool, error) {
	if alive.Start(s.t.Pid) == s.t.StartTicks {
		return true, nil
	}
	if s.Live() && s.t.ReadHead() != nil {
		return false, layout.ErrTruncated
	}
	s.w.Close()
	used := alive.Of(s.t) != alive.Exited
	w, err := s.t.MapWords()
	if err != nil {
		return used, err
	}
	s.w = w
	return used, nil
}

// Close tells those who ask that nobody is there any more.
func (s *Service) Close() {
	s.w.Word(layout.HdrAgent).Store(layout.AgentGone)
	s.w.Wake(layout.HdrReply)
	s.w.Close()
	s.t.Close()
}
