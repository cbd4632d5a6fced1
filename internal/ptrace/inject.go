package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Caller has a stopped thread make system calls. The thread runs code in a place that nobody
// uses, which gets it back to where it was should we die meanwhile:
//
//	at:   syscall                   with the registers of the call
//	      rt_sigprocmask(SIG_SETMASK, &mask, 0, 8)
//	      mov  $…,%rax … %r15       as it was
//	      jmp  *rip
//	      rip, mask
//
// We stop it behind the first instruction. No flag is changed, nor memory.
type Caller struct {
	p     *Process
	t     *Thread
	at    uint64
	was   []byte
	state Regs // where the thread goes on
}

// BlockSize is how many bytes Caller needs.
const BlockSize = 2 + 31 + 15*10 + 6 + 16

// block is the code for a thread that goes on with r and mask.
func block(r *Regs, mask uint64) []byte {
	le := binary.LittleEndian
	const ripSize = 8
	b := []byte{0x0f, 0x05}                                        // syscall
	b = le.AppendUint32(append(b, 0xb8), unix.SYS_RT_SIGPROCMASK)  // mov $14,%eax
	b = le.AppendUint32(append(b, 0xbf), uint32(unix.SIG_SETMASK)) // mov $2,%edi
	b = append(b, 0x48, 0x8d, 0x35)                                // lea mask(%rip),%rsi
	b = le.AppendUint32(b, uint32(BlockSize-maskSize-(len(b)+4)))
	b = le.AppendUint32(append(b, 0xba), 0)              // mov $0,%edx
	b = le.AppendUint32(append(b, 0x41, 0xba), maskSize) // mov $8,%r10d
	b = append(b, 0x0f, 0x05, 0x90)                      // syscall; nop
	for i, v := range []uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15} {
		n := byte(i)
		if i >= 4 { // rsp is as it was
			n++
		}
		b = le.AppendUint64(append(b, 0x48|n>>3, 0xb8|n&7), v) // mov $v,%reg
	}
	b = append(b, 0xff, 0x25) // jmp *rip(%rip)
	b = le.AppendUint32(b, uint32(BlockSize-maskSize-ripSize-(len(b)+4)))
	return le.AppendUint64(le.AppendUint64(b, r.Rip), mask)
}

// ErrUsed is the error of NewCaller where the place is not empty.
var ErrUsed = errors.New("the place for system calls is in use")

// NewCaller leads a thread to a place of BlockSize bytes, executable and zero, that nobody
// uses. It goes on with state.
func (p *Process) NewCaller(t *Thread, at uint64, state Regs) (*Caller, error) {
	c := &Caller{p: p, t: t, at: at, was: make([]byte, BlockSize), state: state}
	if _, err := p.Mem.ReadAt(c.was, int64(at)); err != nil {
		return nil, fmt.Errorf("its memory cannot be read: %w", err)
	}
	if len(bytes.Trim(c.was, "\x00")) > 0 {
		return nil, ErrUsed
	}
	if _, err := p.Mem.WriteAt(block(&state, t.mask), int64(at)); err != nil {
		return nil, fmt.Errorf("its text cannot be written to: %w", err)
	}
	first := c.calling(unix.SYS_GETPID, nil)
	err := t.Set(&first)
	if err == nil {
		err = setMask(t.Tid, ^uint64(0))
	}
	if err != nil {
		return nil, errors.Join(err, c.End())
	}
	return c, nil
}

func (c *Caller) calling(nr uint64, args []uint64) Regs {
	var a [6]uint64
	copy(a[:], args)
	r := c.state
	r.Rax, r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = nr, a[0], a[1], a[2], a[3], a[4], a[5]
	r.Rip, r.Orig_rax = c.at, noSyscall
	return r
}

// Call makes a system call, which must not wait.
func (c *Caller) Call(nr uint64, args ...uint64) (uint64, error) {
	r := c.calling(nr, args)
	if err := c.t.Set(&r); err != nil {
		return 0, err
	}
	for range 2 { // its entry, its end
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if err := unix.PtraceGetRegs(c.t.Tid, &r); err != nil {
		return 0, err
	}
	const mostErrno = 4095
	if n := -int64(r.Rax); n > 0 && n <= mostErrno {
		return 0, syscall.Errno(n)
	}
	return r.Rax, nil
}

// next runs the thread to the next end of a system call's half.
func (c *Caller) next() error {
	const patience = 10 * time.Second
	until := time.Now().Add(patience)
	for {
		if err := request(unix.PTRACE_SYSCALL, c.t.Tid, 0, 0); err != nil {
			return fmt.Errorf("thread %d cannot be run: %w", c.t.Tid, err)
		}
		status, err := wait(c.t.Tid, until)
		switch {
		case err != nil:
			return fmt.Errorf("thread %d %w", c.t.Tid, err)
		case !status.Stopped():
			return fmt.Errorf("thread %d has ended", c.t.Tid)
		case status.StopSignal() == syscallTrap:
			return nil
		case int(status)>>16 == eventStop: // it was asked to stop, or its process was
			c.t.note(status)
		default:
			return fmt.Errorf("thread %d was stopped by signal %d in a system call of ours", c.t.Tid, status.StopSignal())
		}
	}
}

// End gets the thread back to where it was, and the place, too.
func (c *Caller) End() error {
	err := c.t.Restore(&c.state)
	return errors.Join(err, c.Leave())
}

// Leave only restores the place: the thread has been led elsewhere.
func (c *Caller) Leave() error {
	_, err := c.p.Mem.WriteAt(c.was, int64(c.at))
	return err
}
