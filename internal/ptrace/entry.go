package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Between a program's start and its first instruction its dynamic linker runs, which jumps to
// where the kernel has told it (AT_ENTRY). A gate is code that it is told of instead:
//
//	at:  mov  $39,%eax    getpid
//	     syscall          here it is stopped
//	     mov  $entry,%rax
//	     mov  %rax,slot   what it was told becomes what it was
//	     jmp  *%rax
//
// So nothing depends on us: should we die meanwhile, the program begins all the same. A
// breakpoint, which would kill it then, is not needed.
const (
	gateStop = 5 + callSize // behind the system call
	gateSize = gateStop + 10 + 10 + 2
)

// gate is padded with zeros.
func gate(entry, slot uint64) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte{0xb8}, unix.SYS_GETPID)                       // mov $39,%eax
	b = append(b, 0x0f, 0x05)                                                 // syscall
	b = le.AppendUint64(append(b, 0x48, 0xb8), entry)                         // mov $entry,%rax
	b = le.AppendUint64(append(b, 0x48, 0xa3), slot)                          // mov %rax,slot
	return append(append(b, 0xff, 0xe0), make([]byte, BlockSize-gateSize)...) // jmp *%rax
}

// isGate reports whether somebody has left a gate there, who was killed.
func isGate(b []byte) bool {
	none, full := gate(0, 0), gate(^uint64(0), ^uint64(0))
	for i := range none {
		if none[i] == full[i] && b[i] != none[i] {
			return false
		}
	}
	return true
}

// Ended is the error of RunToEntry of a process that has ended instead, and is waited for.
type Ended struct{ Status unix.WaitStatus }

func (e *Ended) Error() string { return "has ended before the first instruction of its program" }

// births are system calls that no dynamic linker makes in front of a program's entry.
var births = []uint64{
	unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
}

// RunToEntry has a process that Execute has stopped go on to the entry of its program, behind
// its dynamic linker. Until then it gets its signals. places are executable memory of BlockSize
// bytes each, that nobody uses.
func (p *Process) RunToEntry(entry uint64, places func(yield func(at uint64) bool)) error {
	const typeOfEntry = 9 // AT_ENTRY
	t := p.Threads[0]
	slot, err := p.auxv(t.Regs.Rsp, typeOfEntry)
	if err != nil {
		return fmt.Errorf("process %d: %w", p.Pid, err)
	}
	at, err := p.openGate(entry, slot, places)
	if err != nil {
		return fmt.Errorf("process %d: %w", p.Pid, err)
	}
	err = p.tell(slot, at)
	if err == nil {
		err = p.arrive(t, at+gateStop)
	}
	var ended *Ended
	if errors.As(err, &ended) {
		p.Threads = nil
		return fmt.Errorf("process %d %w", p.Pid, err)
	}
	if err == nil {
		t.Regs.Rip, t.Regs.Orig_rax = entry, noSyscall
		err = t.Set(&t.Regs)
	}
	if again := p.tell(slot, entry); again == nil { // else who is told of the gate finds it
		_, again = p.Mem.WriteAt(make([]byte, BlockSize), int64(at))
		err = errors.Join(err, again)
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.Pid, err)
	}
	return nil
}

// auxv is where the value of a type is in the auxiliary vector, of a process that begins: behind
// its arguments and its environment, on its stack.
func (p *Process) auxv(sp, kind uint64) (uint64, error) {
	const most = 64 << 20 // more than arguments may have
	b, le := make([]byte, 4096), binary.LittleEndian
	lists := 2 // that end with a zero before
	for at := sp + 8; at < sp+most; {
		n, err := p.Mem.ReadAt(b, int64(at))
		if n < 16 {
			return 0, fmt.Errorf("its stack cannot be read: %w", err)
		}
		for i := 0; i+16 <= n; i, at = i+8, at+8 {
			word := le.Uint64(b[i:])
			switch {
			case lists > 0:
				if word == 0 {
					lists--
				}
				continue
			case word == kind:
				return at + 8, nil
			case word == 0:
				return 0, errors.New("it was not told where its program begins")
			}
			i, at = i+8, at+8
		}
	}
	return 0, errors.New("its arguments have no end")
}

func (p *Process) openGate(entry, slot uint64, places func(yield func(at uint64) bool)) (uint64, error) {
	err := error(ErrUsed)
	for at := range places {
		if b := make([]byte, BlockSize); !p.isFree(at, b) {
			continue
		}
		if _, err = p.Mem.WriteAt(gate(entry, slot), int64(at)); err == nil {
			return at, nil
		}
	}
	return 0, fmt.Errorf("no code has room behind it for a jump to its program: %w", err)
}

func (p *Process) isFree(at uint64, b []byte) bool {
	_, err := p.Mem.ReadAt(b, int64(at))
	return err == nil && len(bytes.Trim(b, "\x00")) == 0
}

func (p *Process) tell(slot, entry uint64) error {
	_, err := p.Mem.WriteAt(binary.LittleEndian.AppendUint64(nil, entry), int64(slot))
	return err
}

// arrive has a thread go on until it has made the system call in front of an address.
func (p *Process) arrive(t *Thread, behind uint64) error {
	how, sig, halves := unix.PTRACE_SYSCALL, unix.Signal(0), 0
	for {
		status, err := t.goOn(how, sig)
		if err != nil {
			return err
		}
		if !status.Stopped() {
			return &Ended{status}
		}
		how, sig = unix.PTRACE_SYSCALL, status.StopSignal()
		switch event := int(status) >> 16; {
		case event == eventStop && sig != unix.SIGTRAP:
			how, sig = listen, 0 // its process is stopped, until it is continued
		case event == eventStop:
			sig = 0
		case sig == syscallTrap:
			sig = 0
			if err := unix.PtraceGetRegs(t.Tid, &t.Regs); err != nil {
				return fmt.Errorf("cannot be looked at: %w", err)
			}
			if t.Regs.Rip == behind {
				halves++
			} else if slices.Contains(births, t.Regs.Orig_rax) {
				return errors.New("begins with what no dynamic linker does")
			}
			if halves == 2 {
				t.mask, err = sigmask(t.Tid)
				return err
			}
		}
	}
}
