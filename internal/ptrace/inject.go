package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Caller has a stopped thread make system calls. The thread runs code in a place that nobody
// uses, which gets it back to where it was should we die meanwhile:
//
//	at:    syscall                   with the registers of the call
//	       rt_sigprocmask(SIG_SETMASK, &mask, 0, 8)
//	       mov  $…,%rax … %r15       as it was
//	       jmp  *rip
//	       rip, mask
//	       a string for the calls
//	unmap: munmap of each range in a list
//	wait:  some time, for us to stop it, and the call at at
//
// We stop it behind the first instruction, or there. No flag is changed, nor memory.
type Caller struct {
	p     *Process
	t     *Thread
	at    uint64
	state Regs // where the thread goes on
	left  bool // it has gone on by itself
}

// patience is for how long a thread may take to come to the next end of a system call.
const patience = 10 * time.Second

// The place: how many bytes Caller needs, and where they are what.
const (
	callsSize = 2 + 31 + 15*10 + 6 + 2*8
	textSize  = 48
	unmapAt   = callsSize + textSize
	waitAt    = unmapAt + 25
	waitEnd   = waitAt + 15
	BlockSize = waitEnd + 16
)

// block is the code for a thread that goes on with r and mask.
func block(r *Regs, mask uint64, text string) []byte {
	le := binary.LittleEndian
	const ripSize = 8
	b := []byte{0x0f, 0x05}                                        // syscall
	b = le.AppendUint32(append(b, 0xb8), unix.SYS_RT_SIGPROCMASK)  // mov $14,%eax
	b = le.AppendUint32(append(b, 0xbf), uint32(unix.SIG_SETMASK)) // mov $2,%edi
	b = append(b, 0x48, 0x8d, 0x35)                                // lea mask(%rip),%rsi
	b = le.AppendUint32(b, uint32(callsSize-maskSize-(len(b)+4)))
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
	b = le.AppendUint32(b, uint32(callsSize-maskSize-ripSize-(len(b)+4)))
	b = le.AppendUint64(le.AppendUint64(b, r.Rip), mask)
	b = append(append(b, text...), make([]byte, textSize-len(text))...)
	b = append(b,
		0x48, 0x8b, 0x3b, // mov (%rbx),%rdi
		0x48, 0x8b, 0x73, 0x08, // mov 8(%rbx),%rsi
		0xb8, unix.SYS_MUNMAP, 0, 0, 0, // mov $11,%eax
		0x0f, 0x05, // syscall
		0x48, 0x8d, 0x5b, 0x10, // lea 16(%rbx),%rbx
		0x48, 0x8b, 0x0b, // mov (%rbx),%rcx
		0xe3, 0x02, // jrcxz wait
		0xeb, 0xe7, // jmp unmap
		0xb9, 0, 0, 0x40, 0, // wait: mov $1<<22,%ecx, a tenth of a second or so
		0xf3, 0x90, // pause
		0x48, 0x8d, 0x49, 0xff, // lea -1(%rcx),%rcx
		0xe3, 0x02, // jrcxz +2
		0xeb, 0xf6, // jmp pause
		0x4c, 0x89, 0xe7, // mov %r12,%rdi
		0x4c, 0x89, 0xee, // mov %r13,%rsi
		0xb8, unix.SYS_MUNMAP, 0, 0, 0, // mov $11,%eax
		0xe9) // jmp at
	return le.AppendUint32(b, -uint32(len(b)+4))
}

// isBlock reports whether somebody's Caller has left its code there: he was killed.
func isBlock(b []byte) bool {
	all := ^uint64(0)
	none, full := block(&Regs{}, 0, ""), block(&Regs{
		Rax: all, Rcx: all, Rdx: all, Rbx: all, Rbp: all, Rsi: all, Rdi: all, R8: all, R9: all,
		R10: all, R11: all, R12: all, R13: all, R14: all, R15: all, Rip: all,
	}, all, strings.Repeat("\xff", textSize))
	for i := range none {
		if none[i] == full[i] && b[i] != none[i] {
			return false
		}
	}
	return true
}

// ErrUsed is the error of NewCaller where the place is not empty.
var ErrUsed = errors.New("the place for system calls is in use")

// IsIn reports whether a stopped thread is in the code of a Caller at a place.
func (p *Process) IsIn(at uint64) bool {
	return slices.ContainsFunc(p.Threads, func(t *Thread) bool { return t.Regs.Rip-at < BlockSize })
}

// IsLeft reports whether a Caller that was killed has left something at a place. It is an error
// if that is not empty else, or a thread is there.
func (p *Process) IsLeft(at uint64) (left bool, err error) {
	b := make([]byte, BlockSize)
	if _, err := p.Mem.ReadAt(b, int64(at)); err != nil {
		return false, fmt.Errorf("its memory cannot be read: %w", err)
	}
	if len(bytes.Trim(b, "\x00")) == 0 {
		return false, nil
	}
	if !isBlock(b) && !isGate(b) || p.IsIn(at) {
		return false, ErrUsed
	}
	return true, nil
}

// Wipe takes away what a Caller has left at a place that was killed. It reports whether there
// was something.
func (p *Process) Wipe(at uint64) (left bool, err error) {
	if left, err = p.IsLeft(at); left && err == nil {
		_, err = p.Mem.WriteAt(make([]byte, BlockSize), int64(at))
	}
	return left, err
}

// NewCaller leads a thread to a place of BlockSize bytes, executable and zero, that nobody
// uses. It goes on with state. The text is for the calls: see Text.
func (p *Process) NewCaller(t *Thread, at uint64, state Regs, text string) (*Caller, error) {
	if len(text) >= textSize {
		return nil, fmt.Errorf("%q is too long", text)
	}
	c := &Caller{p: p, t: t, at: at, state: state}
	if _, err := p.IsLeft(at); err != nil {
		return nil, err
	}
	if _, err := p.Mem.WriteAt(block(&state, t.mask, text), int64(at)); err != nil {
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

// Text is where the process has the string of NewCaller.
func (c *Caller) Text() uint64 { return c.at + callsSize }

// SetText changes it.
func (c *Caller) SetText(text string) error {
	b := make([]byte, textSize)
	copy(b[:textSize-1], text)
	_, err := c.p.Mem.WriteAt(b, int64(c.Text()))
	return err
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
	err := c.t.Set(&r)
	for i := 0; i < 2 && err == nil; i++ { // its entry, its end
		err = c.next()
	}
	if err != nil {
		return 0, err
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

// Unmap unmaps some ranges, addresses and sizes, at least one, that are listed in memory, with
// a zero behind them, and then one that is told apart, in which the list may lie. Should we die meanwhile
// the thread does so all the same. It is not stopped for each, as to stop a thread takes longer than
// most of them: last, an address in what is listed last, cannot be read when it has come to the end.
func (c *Caller) Unmap(list, last, low, size uint64) error {
	r := c.calling(0, nil)
	r.Rip, r.Rbx, r.R12, r.R13 = c.at+unmapAt, list, low, size
	if err := c.t.Run(&r); err != nil {
		return err
	}
	for {
		c.awaitUnmapped(last)
		now, err := c.t.Fetch(patience)
		if err != nil {
			return err
		}
		switch {
		case now.Rip-(c.at+waitAt) < waitEnd-waitAt:
			_, err = c.Call(unix.SYS_MUNMAP, low, size)
			return err
		case now.Rip-c.at >= BlockSize: // it did not see us for so long
			c.left, c.t.repaired = true, false
			return nil
		}
		if err := request(unix.PTRACE_CONT, c.t.Tid, 0, 0); err != nil {
			return fmt.Errorf("thread %d cannot be run: %w", c.t.Tid, err)
		}
	}
}

// awaitUnmapped waits until an address cannot be read, but not for long.
func (c *Caller) awaitUnmapped(at uint64) {
	const most = 20 * time.Millisecond
	begun, b := time.Now(), make([]byte, 1)
	for took := time.Duration(0); took < most; took = time.Since(begun) {
		if _, err := c.p.Mem.ReadAt(b, int64(at)); err != nil {
			return
		}
		if took > little {
			Pause(took)
		}
	}
}

// next runs the thread to the next end of a system call's half.
func (c *Caller) next() error {
	until := time.Now().Add(patience)
	for {
		if err := request(unix.PTRACE_SYSCALL, c.t.Tid, 0, 0); err != nil {
			return fmt.Errorf("thread %d cannot be run: %w", c.t.Tid, err)
		}
		status, err := c.t.wait(until)
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

// End gets the thread back to where it was, and the place, too. Of a thread that does not stop
// the place stays as it is, for it to get back by itself.
func (c *Caller) End() error {
	if !c.left {
		if err := c.t.Restore(&c.state); err != nil {
			return err
		}
	}
	return c.Leave()
}

// Leave only restores the place: the thread has been led elsewhere.
func (c *Caller) Leave() error {
	_, err := c.p.Mem.WriteAt(make([]byte, BlockSize), int64(c.at))
	return err
}
