package launch

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Signals to this process are for the program. A handler of our own, in
// spawn_amd64.s, tells of each by a pipe, with what the kernel says of its
// origin (siginfo_t), which package os/signal does not. One goroutine reads
// them and sees the program stop and end, so that no signal is sent to a number
// that is another process's by then:
//
//   - What the terminal made went to the whole process group, the program too.
//   - What the program or a child of it sent it did not send to itself, or sent
//     to the group.
//   - All else is passed on, once; with its value if it has one.
//   - When the program stops by a signal that this process got as well, or under
//     a shell with job control, so does this process: who waits sees it.

const (
	signals  = 64
	infoSize = 128 // of siginfo_t

	byUser   = 0  // si_code: kill(2)
	byThread = -6 // tgkill(2), which may not be repeated as it was
)

// action is the kernel's struct sigaction.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	siginfo  = 0x4
	onStack  = 0x08000000
	restart  = 0x10000000
	restorer = 0x04000000
)

// caught is what hotspots_caught reads.
var caught receiver

type receiver struct {
	to       int32                // end of the pipe to write to
	program  int32                // 0 before it is there
	self     int32                // this process
	runtimes [signals + 1]uintptr // handlers of the Go runtime, for signals that it needs
}

// neededByRuntime are signals that the Go runtime sends itself, or that faults
// are.
var neededByRuntime = []syscall.Signal{
	syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS,
	syscall.SIGSTKFLT, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF,
}

var stopping = []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}

func caughtAddress() uintptr
func setAction(sig int, new, old *action) (errno int)
func setMask(blocked uint64) (old uint64)
func queue(pid, sig int, info *[infoSize]byte)

// relay passes signals on to the program.
type relay struct {
	pid   int
	from  int // end of the pipe to read from
	infos chan [infoSize]byte
	old   [signals + 1]action

	stopped syscall.Signal // that stopped the program; 0 if it runs
	asked   bool           // this process got a signal that stops
	resumed bool           // this process has stopped, and no SIGCONT was seen since
}

// newRelay catches all signals that can be, also those that were ignored or
// blocked: the program may handle them.
func newRelay() (*relay, error) {
	ends := make([]int, 2)
	if err := syscall.Pipe2(ends, syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	syscall.SetNonblock(ends[1], true)
	r := &relay{from: ends[0], infos: make(chan [infoSize]byte)}
	caught.to, caught.program, caught.self = int32(ends[1]), 0, int32(os.Getpid())
	setAction(int(syscall.SIGURG), nil, &r.old[syscall.SIGURG]) // always the runtime's
	for s := 1; s <= signals; s++ {
		setAction(s, nil, &r.old[s])
		if slices.Contains(neededByRuntime, syscall.Signal(s)) {
			caught.runtimes[s] = r.old[s].handler
		}
		setAction(s, r.ours(), nil) // refused for SIGKILL and SIGSTOP
	}
	return r, nil
}

// ours has the runtime's return from a handler.
func (r *relay) ours() *action {
	return &action{handler: caughtAddress(), flags: siginfo | onStack | restart | restorer, restorer: r.old[syscall.SIGURG].restorer, mask: ^uint64(0)}
}

// end gives the signals back. The pipe stays: a handler may still run.
func (r *relay) end() {
	for s := 1; s <= signals; s++ {
		setAction(s, &r.old[s], nil) // refused for SIGKILL and SIGSTOP
	}
}

// read hands out what comes by the pipe.
func (r *relay) read() {
	for {
		var info [infoSize]byte
		n, err := syscall.Read(r.from, info[:])
		switch {
		case err == syscall.EINTR:
		case n != infoSize:
			return // "BUG": writes of that size are whole
		default:
			r.infos <- info
		}
	}
}

// pass sends the signal to the program, unless it has it.
func (r *relay) pass(info *[infoSize]byte) {
	word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(info[at:]))) }
	s, code, sender := syscall.Signal(word(0)), word(8), word(16)
	switch {
	case s == syscall.SIGCONT && r.resumed:
		// A shell sends it to the group; another may have sent it to us alone.
		r.resumed = false
		if state(r.pid) == 'T' {
			syscall.Kill(r.pid, s)
		}
	case code > byUser && !forUsAlone(s), code <= byUser && r.isOurs(sender):
	case code < byUser && code != byThread:
		queue(r.pid, int(s), info)
	default:
		syscall.Kill(r.pid, s) // an error means that it may not be signalled: set-user-ID
	}
	if slices.Contains(stopping, s) {
		r.asked = true
		r.stop()
	}
}

// forUsAlone reports whether a signal that the kernel made was for this process
// and not for the group: from a timer of before the exec, or a hangup, which the
// first process of a session is told of.
func forUsAlone(s syscall.Signal) bool {
	if s == syscall.SIGHUP || s == syscall.SIGCONT {
		return session(0) == os.Getpid()
	}
	return s == syscall.SIGALRM
}

// isOurs reports whether the process is this one or comes from the program.
func (r *relay) isOurs(pid int) bool {
	for pid > 1 && pid != r.pid && pid != os.Getpid() {
		stat := procStat(pid)
		if len(stat) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(stat[1])
		if pid == os.Getpid() {
			return false
		}
	}
	return pid > 1
}

// stop stops this process if the program has stopped and somebody waits for us
// to do the same.
func (r *relay) stop() {
	s := r.stopped
	if s == 0 || !(r.asked && s != syscall.SIGSTOP || jobControl()) || state(r.pid) != 'T' {
		return
	}
	r.stopped, r.asked, r.resumed = 0, false, true
	if s != syscall.SIGSTOP {
		setAction(int(s), &action{}, nil)
		defer setAction(int(s), r.ours(), nil)
	}
	syscall.Tgkill(os.Getpid(), syscall.Gettid(), s) // to this thread: it has stopped when the call is over
}

// jobControl reports whether a shell waits for this process, the first of its
// group, in the foreground of a terminal.
func jobControl() bool {
	stat := procStat(os.Getpid())
	if len(stat) < 6 {
		return false
	}
	group := strconv.Itoa(os.Getpid())
	return stat[2] == group && stat[5] == group && session(os.Getppid()) == session(0)
}

func session(pid int) int {
	sid, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(sid)
}

// state is the letter of the process's state, 0 if it is not known.
func state(pid int) byte {
	if stat := procStat(pid); len(stat) > 0 {
		return stat[0][0]
	}
	return 0
}

// procStat returns the fields of /proc/PID/stat behind the name: state ppid
// pgrp session tty_nr tpgid (proc(5)).
func procStat(pid int) []string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// serve passes signals on until the program has ended, and reaps it.
func (r *relay) serve() (syscall.WaitStatus, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer setMask(setMask(0)) // also those that this process was started with blocked
	changes, seen := make(chan error), make(chan struct{})
	go await(r.pid, changes, seen)
	go r.read()
	for {
		select {
		case info := <-r.infos:
			r.pass(&info)
		case err := <-changes:
			var ws syscall.WaitStatus
			if err == nil {
				_, err = syscall.Wait4(r.pid, &ws, syscall.WUNTRACED|syscall.WNOHANG, nil)
			}
			if err != nil || ws.Exited() || ws.Signaled() {
				caught.program = 0
				return ws, err
			}
			if ws.Stopped() { // that is told once: it may go on, and stop again
				r.stopped = ws.StopSignal()
				r.stop()
			}
			seen <- struct{}{}
		}
	}
}
