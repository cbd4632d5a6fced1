package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/x86"
)

// TestBlock: the code that a thread is in while it makes our system calls gets it back, with
// all its registers.
func TestBlock(t *testing.T) {
	r := Regs{Rax: 1, Rcx: 2, Rdx: 3, Rbx: 4, Rbp: 5, Rsi: 6, Rdi: 7, R8: 8, R9: 9, R10: 10, R11: 11, R12: 12, R13: 13, R14: 14, R15: 15, Rip: 16}
	whole := block(&r, 17, "text")
	if len(whole) != BlockSize || string(bytes.TrimRight(whole[callsSize:unmapAt], "\x00")) != "text" {
		t.Fatalf("%d bytes, not %d: %q", len(whole), BlockSize, whole[callsSize:unmapAt])
	}
	b := whole[:callsSize]
	le := binary.LittleEndian
	if le.Uint64(b[callsSize-16:]) != 16 || le.Uint64(b[callsSize-8:]) != 17 {
		t.Errorf("behind it: % x", b[callsSize-16:])
	}
	code := b[:callsSize-16]
	var loads []uint64
	for at := 0; at < len(code); {
		var in x86.Inst
		if err := x86.Decode(code[at:], &in); err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		if in.Len == 10 { // mov $imm64,%reg
			reg := uint64(code[at]&1)<<3 | uint64(code[at+1]&7)
			loads = append(loads, reg, le.Uint64(code[at+2:]))
		}
		switch code[at] {
		case 0x48:
			if code[at+1] == 0x8d {
				if to := at + int(in.Len) + int(int32(le.Uint32(code[at+3:]))); to != callsSize-8 {
					t.Errorf("the mask is read at %d", to)
				}
			}
		case 0xff:
			if to := at + int(in.Len) + int(int32(le.Uint32(code[at+2:]))); to != callsSize-16 {
				t.Errorf("it leads to what is at %d", to)
			}
		}
		at += int(in.Len)
	}
	want := []uint64{0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15}
	if !slices.Equal(loads, want) {
		t.Errorf("registers and values: %v", loads)
	}
}

// TestGate: the code that a dynamic linker is led to goes on to the program, and puts back what
// has led there; nothing but a gate is known as one.
func TestGate(t *testing.T) {
	const entry, slot = 0x1122334455667788, 0x99aabbccddeeff00
	b, at := gate(entry, slot), 0
	if len(b) != BlockSize || len(bytes.TrimRight(b, "\x00")) != gateSize {
		t.Fatalf("% x", b)
	}
	var starts []int
	for at < gateSize {
		var in x86.Inst
		if err := x86.Decode(b[at:], &in); err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		starts = append(starts, at)
		at += int(in.Len)
	}
	le := binary.LittleEndian
	if want := []int{0, 5, gateStop, 17, 27}; at != gateSize || !slices.Equal(starts, want) || le.Uint64(b[9:]) != entry || le.Uint64(b[19:]) != slot {
		t.Errorf("instructions at %v, not %v: % x", starts, want, b)
	}
	if !isGate(b) || isGate(make([]byte, BlockSize)) || isGate(block(&Regs{}, 0, "")) || isBlock(b) {
		t.Error("not told apart")
	}
	b[BlockSize-1] = 1
	if isGate(b) {
		t.Error("another is taken for one")
	}
}

// TestIsBlock: what a Caller has left is known by its code, whatever it was for; nothing else is.
func TestIsBlock(t *testing.T) {
	b := block(&Regs{Rax: 0x1122334455667788, R15: 1, Rip: 2}, 3, "/proc/1/fd/7")
	if !isBlock(b) || isBlock(make([]byte, BlockSize)) {
		t.Fatal("not known")
	}
	for i := range b {
		was := b[i]
		b[i]++
		if isBlock(b) && (i < 34 || i >= unmapAt) { // values begin behind that
			t.Errorf("with another byte %d", i)
		}
		b[i] = was
	}
}

func TestAgain(t *testing.T) {
	const rip = 0x1000
	errno := func(n int64) uint64 { return uint64(-n) }
	none := ^uint64(0)
	for name, row := range map[string]struct {
		in        Regs
		signalled bool
		want      Regs
	}{
		"in its own code":            {Regs{Rip: rip, Rax: 5, Orig_rax: none}, false, Regs{Rip: rip, Rax: 5, Orig_rax: none}},
		"in its own code, as if":     {Regs{Rip: rip, Rax: errno(512), Orig_rax: none}, false, Regs{Rip: rip, Rax: errno(512), Orig_rax: none}},
		"returned":                   {Regs{Rip: rip, Rax: 5, Orig_rax: unix.SYS_READ}, false, Regs{Rip: rip, Rax: 5, Orig_rax: none}},
		"made again":                 {Regs{Rip: rip, Rax: errno(512), Orig_rax: unix.SYS_FUTEX}, false, Regs{Rip: rip - 2, Rax: unix.SYS_FUTEX, Orig_rax: none}},
		"made again, no handler":     {Regs{Rip: rip, Rax: errno(514), Orig_rax: unix.SYS_POLL}, true, Regs{Rip: rip - 2, Rax: unix.SYS_POLL, Orig_rax: none}},
		"goes on with its time":      {Regs{Rip: rip, Rax: errno(516), Orig_rax: unix.SYS_NANOSLEEP}, false, Regs{Rip: rip - 2, Rax: unix.SYS_RESTART_SYSCALL, Orig_rax: none}},
		"interrupted by us":          {Regs{Rip: rip, Rax: errno(4), Orig_rax: unix.SYS_EPOLL_WAIT}, false, Regs{Rip: rip - 2, Rax: unix.SYS_EPOLL_WAIT, Orig_rax: none}},
		"interrupted by a signal":    {Regs{Rip: rip, Rax: errno(4), Orig_rax: unix.SYS_EPOLL_WAIT}, true, Regs{Rip: rip, Rax: errno(4), Orig_rax: none}},
		"close is done all the same": {Regs{Rip: rip, Rax: errno(4), Orig_rax: unix.SYS_CLOSE}, false, Regs{Rip: rip, Rax: errno(4), Orig_rax: none}},
	} {
		if got := Again(row.in, row.signalled); got != row.want {
			t.Errorf("%s: rip %#x rax %d orig_rax %d", name, got.Rip, int64(got.Rax), int64(got.Orig_rax))
		}
	}
}

func TestStatus(t *testing.T) {
	s := parseStatus([]byte("Name:\ta b: c\nState:\tT (stopped)\nTgid:\t11\nTracerPid:\t12\nNSpid:\t100\t7\nUid:\t1\t2\t3\t4\nVmLck:\t      16 kB\nx86_Thread_features:\tshstk wrss \nSigPnd:\t0000000000000001\nShdPnd:\t0000000000000002\nSigBlk:\t0000000000000004\nSigCgt:\t0000000180000000\nSeccomp:\t2\n"))
	want := Status{Name: "a b: c", State: 'T', Group: 11, TracerID: 12, Numbers: []int{100, 7}, UID: 2, Locked: 16, Shadow: true, Pending: 3, Blocked: 4, Caught: 0x180000000, Seccomp: 2}
	if s.Name != want.Name || s.State != want.State || s.Group != want.Group || s.TracerID != want.TracerID || !slices.Equal(s.Numbers, want.Numbers) || s.UID != want.UID ||
		s.Locked != want.Locked || s.Shadow != want.Shadow || s.Pending != want.Pending || s.Blocked != want.Blocked || s.Caught != want.Caught || s.Seccomp != want.Seccomp {
		t.Errorf("%+v", s)
	}
	if s := parseStatus([]byte("Uid:\nState:\nNSpid:\n:\n\x00")); s.UID != -1 || s.State != 0 {
		t.Errorf("%+v", s)
	}
}

func TestIsKernels(t *testing.T) {
	for stat, want := range map[string]bool{
		"2 (kthreadd) S 0 0 0 0 -1 2129984 0": true, "9 (a) b) R 1 9 9 0 -1 4194304 0": false, "9 (x) Z 1 9 9 0 -1": false, "9 (x) Z 1 9 9 0 -1 x": false, "": false,
	} {
		if IsKernels([]byte(stat)) != want {
			t.Errorf("%q: not %v", stat, want)
		}
	}
}

// TestStop: a process is stopped, makes a system call for us, and sleeps on.
func TestStop(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := exec.Command("sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	time.Sleep(20 * time.Millisecond)
	p, err := Stop(c.Process.Pid, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Threads) != 1 || p.Threads[0].Tid != c.Process.Pid || p.Threads[0].Signal != 0 {
		t.Errorf("%d threads", len(p.Threads))
	}
	if s, err := ReadStatus(c.Process.Pid, c.Process.Pid); err != nil || s.TracerID != unix.Gettid() { // the thread, not its process
		t.Errorf("%+v, %v", s, err)
	}
	p.Release()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s, err := ReadStatus(c.Process.Pid, c.Process.Pid)
		if err == nil && s.TracerID == 0 && s.State == 'S' {
			break
		}
		if err != nil || time.Now().After(until) {
			t.Fatalf("afterwards: %+v, %v", s, err)
		}
	}
	if _, err := Stop(1<<22+1, time.Second, nil); err == nil {
		t.Error("who is not there was stopped")
	}
}

// stopped is a process that this thread has stopped, until the test ends.
func stopped(t *testing.T) *Process {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c := exec.Command("sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	p, err := Stop(c.Process.Pid, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p
}

// TestWaitSeldom: who does not come for long is asked for less and less often: who wants for a CPU is
// not to be kept from it by that.
func TestWaitSeldom(t *testing.T) {
	p := stopped(t)
	pauses := func() int64 {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
			t.Fatal(err)
		}
		return r.Nvcsw
	}
	before, begun := pauses(), time.Now()
	if _, err := p.Threads[0].wait(begun.Add(300 * time.Millisecond)); err != ErrPatience { // it is stopped already
		t.Errorf("it came: %v", err)
	}
	if n, most := pauses()-before, 200+time.Since(begun).Milliseconds(); n > most {
		t.Errorf("%d pauses, more than %d", n, most)
	}
}

// TestInfo: what the kernel writes is there also where the stack has to grow for the call that asks,
// and is elsewhere then.
func TestInfo(t *testing.T) {
	p := stopped(t)
	const mask, deepest = 1 << 9, 1 << 12
	who, wrong := Tracee(p.Pid), 0
	if err := who.SetMask(mask); err != nil {
		t.Fatal(err)
	}
	for n := range deepest {
		deeper(n, func() {
			if info, err := who.Info(); err != nil || info[0] != byte(unix.SIGTRAP) {
				wrong++
			}
			if is, err := who.Mask(); err != nil || is != mask {
				wrong++
			}
		})
	}
	if wrong != 0 {
		t.Errorf("wrong at %d depths of %d", wrong, deepest)
	}
}

// deeper calls f with so many frames more on the stack.
//
//go:noinline
func deeper(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deeper(n-1, f)
}

func asleepOf(t *testing.T, pid int) int {
	tids, err := tasks(pid)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Pid: pid}
	asleep, _ := p.order(tids, p.states())
	return len(asleep)
}

// TestStopOrder: who sleeps is stopped while who runs still does, the first thread last of all.
func TestStopOrder(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const sleepers = 8
	c := exec.Command("python3", "-c", fmt.Sprintf(`
import threading, time
for i in range(%d): threading.Thread(target=time.sleep, args=(1000,)).start()
def spin():
    print(threading.get_native_id(), flush=True)
    while True: pass
threading.Thread(target=spin).start()
time.sleep(1000)`, sleepers))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	var spins int
	if _, err := fmt.Fscan(out, &spins); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if asleepOf(t, c.Process.Pid) == sleepers {
			break
		}
		if time.Now().After(until) {
			t.Fatal("its threads do not sleep")
		}
	}
	called := 0
	p, err := Stop(c.Process.Pid, time.Second, func(early []*Thread) {
		called++
		if len(early) != sleepers {
			t.Errorf("%d threads are stopped early", len(early))
		}
		for _, tid := range []int{spins, c.Process.Pid} {
			if s, err := ReadStatus(c.Process.Pid, tid); err != nil || s.TracerID != 0 || slices.ContainsFunc(early, func(t *Thread) bool { return t.Tid == tid }) {
				t.Errorf("thread %d is stopped early: %+v, %v", tid, s, err)
			}
		}
		for _, e := range early {
			if s, err := ReadStatus(c.Process.Pid, e.Tid); err != nil || s.State != 't' {
				t.Errorf("thread %d is not stopped: %+v, %v", e.Tid, s, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if called != 1 || len(p.Threads) != sleepers+2 || p.Threads[sleepers].Tid != spins || p.Threads[sleepers+1].Tid != c.Process.Pid {
		t.Errorf("called %d times, %d threads", called, len(p.Threads))
	}
}

// TestCallerLost: a thread that does not stop again gets back by itself, from code that stays.
func TestCallerLost(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := exec.Command("cat")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	says := func(text string) {
		t.Helper()
		b := make([]byte, len(text))
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, b); err != nil || string(b) != text {
			t.Fatalf("%q, %v", b, err)
		}
	}
	says("it works\n")
	p, err := Stop(c.Process.Pid, 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps, err := procfile.Read(fmt.Sprintf("/proc/%d/maps", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var call *Caller
	for line := range strings.Lines(string(maps)) {
		var low, high uint64
		if n, _ := fmt.Sscanf(line, "%x-%x r-xp", &low, &high); n != 2 || !strings.Contains(line, " r-xp ") || strings.HasPrefix(line, "ffff") {
			continue
		}
		if call, err = p.NewCaller(p.Threads[0], high-BlockSize, Again(p.Threads[0].Regs, false), ""); !errors.Is(err, ErrUsed) {
			break
		}
	}
	if err != nil || call == nil {
		t.Fatal(err)
	}
	if err := request(unix.PTRACE_CONT, p.Pid, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := call.End(); err == nil {
		t.Error("a thread that runs was led back")
	}
	if left, err := p.IsLeft(call.at); !left || err != nil {
		t.Errorf("its code is gone: %v, %v", left, err)
	}
	says("it goes on\n")
	if _, err := p.Threads[0].Fetch(10 * time.Second); err != nil {
		t.Error(err)
	}
	p.Release()
	says("without us, too\n")
}
