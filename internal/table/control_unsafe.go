package table

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// What is asked of a running program from outside goes through words of its
// table's header, and is done by the agent (package agent):
//
//  1. Who asks waits until HdrReply has the number that HdrRequest has: nothing
//     else is asked for. It stores the next number and what it asks for in
//     HdrRequest by compare-and-swap, and wakes the agent.
//  2. The agent does it, stores HdrReply = result << 32 | HdrRequest, and wakes
//     all who wait for that.
//  3. Who asked sees its number in HdrReply, or a later one, and is done.

// Why a request is refused or has no answer.
var (
	ErrNoAgent   = errors.New("nobody takes requests for this program: start it with hotspots run --control")
	ErrEnded     = errors.New("the program has ended")
	ErrAgentGone = errors.New("the program's agent does not answer")
)

const (
	requestBits = 8
	replyResult = 32
)

// Ask asks the agent of the table at path for one of Request*, and waits for
// its answer, at most for that long. It returns how many functions the agent
// could not reach.
func Ask(path string, what uint32, patience time.Duration) (left int, err error) {
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	t := &Table{r: f, size: size}
	if err := t.readHead(); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	l, err := mapLive(f)
	if err != nil {
		return 0, err
	}
	defer l.close()
	err = guard(func() error {
		switch state := l.word(HdrAgent).Load(); {
		case !t.Header.Snapshot.IsZero(), state == AgentGone, state != AgentNone && t.Status() == Exited:
			return ErrEnded
		case state != AgentReady:
			return ErrNoAgent
		case t.sameKernel() && t.samePidNS() && processStart(l.word(HdrAgentPid).Load()) == 0:
			return ErrAgentGone
		}
		left, err = l.ask(what, time.Now().Add(patience))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return left, nil
}

// ask does steps 1 and 3.
func (l *live) ask(what uint32, end time.Time) (int, error) {
	request, reply := l.word(HdrRequest), l.long(HdrReply)
	for asked := uint32(0); ; {
		now, done := request.Load(), reply.Load()
		switch {
		case asked != 0 && int32(uint32(done)>>requestBits-asked>>requestBits) > 0:
			return 0, nil // done, and the next one, too
		case asked != 0 && uint32(done) == asked:
			if result := int32(done >> replyResult); result < 0 {
				return 0, syscall.Errno(-result)
			}
			return int(done >> replyResult), nil
		case asked == 0 && uint32(done) == now:
			if next := (now>>requestBits+1)<<requestBits | what; request.CompareAndSwap(now, next) {
				asked = next
				l.wake(HdrRequest)
			}
			continue
		}
		if !time.Now().Before(end) {
			return 0, ErrAgentGone
		}
		if l.word(HdrAgent).Load() == AgentGone {
			return 0, ErrEnded
		}
		l.wait(HdrReply, uint32(done), 100*time.Millisecond)
	}
}

// AwaitAgent waits until the agent of the table at path, which has one, has come
// and gone, at most for that long, unless a process still counts. The table is not kept
// open meanwhile: the agent asks the kernel whether anybody has it.
func AwaitAgent(path string, patience time.Duration) {
	if counting, err := Counting(path); err != nil || counting {
		return
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		state, pid, err := agentOf(path)
		if err != nil || state == AgentGone {
			return
		}
		for pid != 0 && processStart(pid) != 0 && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
	}
}

// agentOf is the state of the table's agent, and its number if it is one of this
// pid namespace.
func agentOf(path string) (state, pid uint32, err error) {
	f, size, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	t := &Table{r: f, size: size}
	if err = t.readHead(); err != nil {
		return 0, 0, err
	}
	if state, err = t.u32(HdrAgent); err == nil && t.samePidNS() {
		pid, err = t.u32(HdrAgentPid)
	}
	return state, pid, err
}

// Service is the agent's end.
type Service struct {
	f *os.File
	t *Table
	l *live
}

// Serve opens the table at path, which has that nonce, for its agent.
func Serve(path string, nonce [16]byte) (*Service, error) {
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	s := &Service{f: f, t: &Table{r: f, size: size}}
	if err := s.t.readHead(); err != nil && !errors.Is(err, ErrBuilding) || s.t.Header.Nonce != nonce {
		f.Close()
		return nil, fmt.Errorf("%s is not the table of this program: %w", path, errors.Join(err, ErrNotTable))
	}
	if s.l, err = mapLive(f); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// File is the open table.
func (s *Service) File() *os.File { return s.f }

// Pid is the program's first process.
func (s *Service) Pid() int { return int(s.t.Pid) }

// Live reports whether counting has begun.
func (s *Service) Live() bool { return s.l.word(HdrState).Load() == StateLive }

// Ready tells those who ask that the agent is there.
func (s *Service) Ready() {
	s.l.word(HdrAgentPid).Store(uint32(os.Getpid()))
	s.l.word(HdrAgent).Store(AgentReady)
}

// Wait waits for a request, at most for that long or until Wake, and has it
// done. do returns a number of functions or a negative errno.
func (s *Service) Wait(patience time.Duration, do func(what uint32) int) {
	request, reply := s.l.word(HdrRequest).Load(), s.l.long(HdrReply)
	if uint32(reply.Load()) == request {
		s.l.wait(HdrRequest, request, patience)
		request = s.l.word(HdrRequest).Load()
	}
	if uint32(reply.Load()) == request {
		return
	}
	result := do(request & (1<<requestBits - 1))
	reply.Store(uint64(uint32(int32(result)))<<replyResult | uint64(request))
	s.l.wake(HdrReply)
}

// Wake ends a Wait.
func (s *Service) Wake() { s.l.wake(HdrRequest) }

// Used reports whether a process of the program is still there. The kernel is
// asked whether anybody else has the file mapped, so it must not be by us.
func (s *Service) Used() (bool, error) {
	if processStart(s.t.Pid) == s.t.StartTicks {
		return true, nil
	}
	if s.Live() && s.t.readHead() != nil {
		return false, ErrTruncated
	}
	s.l.close()
	used := s.t.Status() != Exited
	l, err := mapLive(s.f)
	if err != nil {
		return used, err
	}
	s.l = l
	return used, nil
}

// Close tells those who ask that nobody is there any more.
func (s *Service) Close() {
	s.l.word(HdrAgent).Store(AgentGone)
	s.l.wake(HdrReply)
	s.l.close()
	s.f.Close()
}

// wait waits while the word is value: until it is woken, or that long.
func (l *live) wait(at int, value uint32, patience time.Duration) {
	const futexWait = 0
	ts := syscall.NsecToTimespec(int64(patience))
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&l.header[at])), futexWait, uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// wake wakes all who wait for the word.
func (l *live) wake(at int) {
	const futexWake, all = 1, 1<<31 - 1
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&l.header[at])), futexWake, all, 0, 0, 0)
}
