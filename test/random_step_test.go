package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// stepLimit bounds the instructions of a random program, libc's included.
const stepLimit = 2_000_000

// errTooLong is a program that steps cannot follow in reasonable time.
var errTooLong = errors.New("too many instructions")

// stepped runs the program one instruction at a time, from main to its return,
// and counts the arrivals at each function: all but jumps of a function's own
// body to its entry. What it knows of the program is its symbol table. Ran is how often
// each of its instructions was arrived at, came are all arrivals in their order.
func stepped(program string, symbols *symbolTable) (calls, ran truth, came []arrival, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e := exec.Command(program)
	e.Env = append(os.Environ(), "LD_BIND_NOW=1")
	e.Dir = os.TempDir()
	e.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := e.Start(); err != nil {
		return nil, nil, nil, err
	}
	s := stepper{pid: e.Process.Pid, symbols: symbols, counts: truth{}, ran: truth{}}
	defer e.Wait()
	defer e.Process.Kill()
	if err := s.toMain(program); err != nil {
		return nil, nil, nil, fmt.Errorf("stepping through %s: %w", program, err)
	}
	if err := s.steps(); err != nil {
		return nil, nil, nil, fmt.Errorf("stepping through %s: %w", program, err)
	}
	return s.counts, s.ran, s.came, nil
}

// stepper is a traced program.
type stepper struct {
	pid     int
	symbols *symbolTable
	counts  truth
	ran     truth
	came    []arrival
	base    uint64 // where the program is mapped, less its link-time address
	back    uint64 // main's return address
}

// arrival is a thread in front of an instruction.
type arrival struct{ pc, sp uint64 }

// resume lets the program go on, by PtraceCont or one step, until it traps. The
// timer of -pg means nothing here.
func (s *stepper) resume(on func() error) error {
	for {
		if err := errors.Join(on(), s.wait()); !errors.Is(err, errTimer) {
			return err
		}
	}
}

var errTimer = errors.New("SIGPROF")

func (s *stepper) step() error { return syscall.PtraceSingleStep(s.pid) }
func (s *stepper) cont() error { return syscall.PtraceCont(s.pid, 0) }

func (s *stepper) wait() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.pid, &status, syscall.WALL, nil); err != nil {
		return err
	}
	if status.Stopped() && status.StopSignal() == syscall.SIGPROF {
		return errTimer
	}
	if !status.Stopped() || status.StopSignal() != syscall.SIGTRAP {
		return fmt.Errorf("it does not stop, but %#x", status)
	}
	return nil
}

// toMain runs to main, by a breakpoint.
func (s *stepper) toMain(program string) error {
	if err := s.wait(); err != nil {
		return err
	}
	var err error
	if s.base, err = s.mapped(program); err != nil {
		return err
	}
	main := uintptr(s.base)
	for addr, names := range s.symbols.functions {
		for _, name := range names {
			if name == "main" {
				main += uintptr(addr)
			}
		}
	}
	var saved [1]byte
	if _, err := syscall.PtracePeekText(s.pid, main, saved[:]); err != nil {
		return err
	}
	if _, err := syscall.PtracePokeText(s.pid, main, []byte{0xcc}); err != nil {
		return err
	}
	if err := s.resume(s.cont); err != nil {
		return err
	}
	if _, err := syscall.PtracePokeText(s.pid, main, saved[:]); err != nil {
		return err
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(s.pid, &regs); err != nil {
		return err
	}
	regs.Rip = uint64(main)
	var ret [8]byte
	if _, err := syscall.PtracePeekData(s.pid, uintptr(regs.Rsp), ret[:]); err != nil {
		return err
	}
	for i, b := range ret {
		s.back |= uint64(b) << (8 * i)
	}
	return syscall.PtraceSetRegs(s.pid, &regs)
}

// mapped is the load bias of the program: 0 if it is not position-independent.
func (s *stepper) mapped(program string) (uint64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.pid))
	if err != nil {
		return 0, err
	}
	for _, line := range bytes.Split(maps, []byte("\n")) {
		if !strings.HasSuffix(string(line), program) {
			continue
		}
		var at uint64
		if _, err := fmt.Sscanf(string(line), "%x-", &at); err != nil {
			return 0, err
		}
		if s.symbols.text.Addr >= 0x400000 && at == 0x400000 {
			return 0, nil
		}
		return at, nil
	}
	return 0, errors.New("not in its own maps")
}

// steps goes from main to its return.
func (s *stepper) steps() error {
	last := uint64(0)
	var regs syscall.PtraceRegs
	for range stepLimit {
		if err := syscall.PtraceGetRegs(s.pid, &regs); err != nil {
			return err
		}
		if regs.Rip == s.back {
			return nil
		}
		pc := regs.Rip - s.base
		if s.symbols.functions[pc] != nil && (!s.symbols.body(last, pc) || s.symbols.isCall(last)) {
			s.counts[pc]++
		}
		if pc-s.symbols.text.Addr < s.symbols.text.Size {
			s.ran[pc]++
			s.came = append(s.came, arrival{pc, regs.Rsp})
		}
		last = pc
		if err := s.resume(s.step); err != nil {
			return err
		}
	}
	return errTooLong
}
