// Package control takes what is asked of a running program from outside to its
// agent, and the answer back.
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
	t, err := file.OpenHead(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	w, err := t.MapWords()
	if err != nil {
		return 0, err
	}
	defer w.Close()
	end := time.Now().Add(patience)
	err = file.Guard(func() error {
		switch state := comeAgent(w, end); {
		case !t.Header.Snapshot.IsZero(), state == layout.AgentGone, state != layout.AgentNone && alive.Of(t) == alive.Exited:
			return ErrEnded
		case state != layout.AgentReady && w.Long(layout.HdrReserve).Load() != 0:
			return ErrAgentGone
		case state != layout.AgentReady:
			return ErrNoAgent
		case alive.SameKernel(&t.Identity) && alive.SamePidNS(&t.Identity) && alive.Start(w.Word(layout.HdrAgentPid).Load()) == 0:
			return ErrAgentGone
		}
		left, err = ask(w, what, end)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return left, nil
}

// comeAgent is the state of the agent. The program may have begun a moment ago, with a
// reserve that is kept for an agent, which is still to come.
func comeAgent(w *file.Words, end time.Time) (state uint32) {
	for {
		state = w.Word(layout.HdrAgent).Load()
		if state != layout.AgentNone || w.Long(layout.HdrReserve).Load() == 0 || !time.Now().Before(end) {
			return state
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ask does steps 1 and 3.
func ask(w *file.Words, what uint32, end time.Time) (int, error) {
	request, reply := w.Word(layout.HdrRequest), w.Long(layout.HdrReply)
	for asked := uint32(0); ; {
		now, done := request.Load(), reply.Load()
		switch {
		case asked != 0 && later(uint32(done), asked):
			return 0, nil // done, and the next one, too
		case asked != 0 && uint32(done) == asked:
			if result := int32(done >> replyResult); result < 0 {
				return 0, syscall.Errno(-result)
			}
			return int(done >> replyResult), nil
		case asked == 0 && uint32(done) == now:
			if next := (now>>requestBits+1)<<requestBits | what; request.CompareAndSwap(now, next) {
				asked = next
				w.Wake(layout.HdrRequest)
			}
			continue
		}
		if !time.Now().Before(end) {
			return 0, ErrAgentGone
		}
		if w.Word(layout.HdrAgent).Load() == layout.AgentGone {
			return 0, ErrEnded
		}
		w.Wait(layout.HdrReply, uint32(done), 100*time.Millisecond)
	}
}

// later reports whether request a was asked for after b: numbers begin again at 0.
func later(a, b uint32) bool { return int32((a>>requestBits-b>>requestBits)<<requestBits) > 0 }

// AwaitAgent waits until the agent of the table at path has come and gone, at most for that long,
// unless there is none to come, or a process still counts. The table is not kept
// open meanwhile: the agent asks the kernel whether anybody has it.
func AwaitAgent(path string, patience time.Duration) {
	if counting, err := alive.Counting(path); err != nil || counting {
		return
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		state, pid, err := agentOf(path)
		if err != nil {
			return
		}
		if state == layout.AgentGone {
			awaitReaped(int(pid))
			return
		}
		for pid != 0 && alive.Start(pid) != 0 && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
	}
}

// awaitReaped waits until nothing is left of the agent that has gone, at most for a
// while: nobody may reap it. Who waits for all processes of a sandbox takes the status
// of the last one for that of the program.
func awaitReaped(pid int) {
	const while = 200 * time.Millisecond
	for end := time.Now().Add(while); pid != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
	}
}

// agentOf is the state of the table's agent, and its number if it is one of this
// pid namespace. It is an error if none is to come.
func agentOf(path string) (state, pid uint32, err error) {
	t, err := file.OpenHead(path, os.O_RDONLY)
	if err != nil {
		return 0, 0, err
	}
	defer t.Close()
	reserve, err := t.U64(layout.HdrReserve)
	if err == nil {
		state, err = t.U32(layout.HdrAgent)
	}
	if err == nil && state == layout.AgentNone && reserve == 0 {
		err = ErrNoAgent
	}
	if err == nil && alive.SamePidNS(&t.Identity) {
		pid, err = t.U32(layout.HdrAgentPid)
	}
	return state, pid, err
}
