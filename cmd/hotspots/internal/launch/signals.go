package launch

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Signals to this process are for the program. A handler of our own, in
// spawn_amd64.s, tells of each by a pipe, with what the kernel says of its
// origin (siginfo_t), which package os/signal does not. One thread reads
// them and sees the program stop and end, so that no signal is sent to a number
// that is another process's by then, and nothing has to be handed on when it ends:
//
//   - What the terminal made went to the whole process group, the program too.
//   - What the program or a child of it sent it did not send to itself, or sent
//     to the group.
//   - What another process sent to the group the program has, too (witness.go).
//   - All else is passed on, once; with its value if it has one.
//   - When the program stops by a signal that this process got as well, or under
//     a shell with job control, so does this process: who waits sees it.

const (
	signals  = 64
	infoSize = 128 // of siginfo_t

	byUser   = 0  // si_code: kill(2)
	byThread = -6 // tgkill(2), which may not be repeated as it was

	toOthers = syscall.Signal(signals - 1) // sent to threads of this process
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
	thread   int32                // the relay's; 0 before it is there
	others   uint64               // what other threads block, a bit for each, 0 being signal 1
	runtimes [signals + 1]uintptr // handlers of the Go runtime, for signals that it needs
}

// neededByRuntime are signals that the Go runtime sends itself, or that faults
// are.
var neededByRuntime = []syscall.Signal{
	syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS,
	syscall.SIGSTKFLT, syscall.SIGURG, syscall.SIGPROF,
}

var stopping = []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}

func caughtAddress() uintptr
func setAction(sig int, new, old *action) (errno int)
func setMask(blocked uint64) (old uint64)
func queue(pid, sig int, info *[infoSize]byte)

// relay passes signals on to the program.
type relay struct {
	pid  int
	from int // end of the pipe to read from
	old  [signals + 1]action

	witness int              // a process; 0 if there is none yet, negative if there will be none
	waiting [][infoSize]byte // signals of which is to be found out whether the group got them
	words   []word           // what the witness told
	told    int              // how many of them before it was all

	lastWord time.Time

	transfers layout.Transfers // of the program, when it had ended

	stopped syscall.Signal // that stopped the program; 0 if it runs
	asked   bool           // this process got a signal that stops
	resumed bool           // this process has stopped, and no SIGCONT was seen since
}

// newRelay catches all signals that can be, also those that were ignored or
// blocked: the program may handle them.
func newRelay() (*relay, error) {
	ends := make([]int, 2)
	if err := syscall.Pipe2(ends, syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	r := &relay{from: ends[0]}
	others.Lock()
	others.wake = ends[1]
	others.Unlock()
	caught.to, caught.program, caught.self = int32(ends[1]), 0, int32(os.Getpid())
	setAction(int(syscall.SIGURG), nil, &r.old[syscall.SIGURG]) // always the runtime's
	for s := 1; s <= signals; s++ {
		setAction(s, nil, &r.old[s])
		if slices.Contains(neededByRuntime, syscall.Signal(s)) {
			caught.runtimes[s] = r.old[s].handler
		} else {
			caught.others |= 1 << (s - 1)
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

// outlive gives back those signals only that stop this process, or tell it that nobody
// reads what it writes. All others came for a program that has ended, or too late for
// it: who waits is told how that ended, and not that we were killed behind it.
func (r *relay) outlive() {
	for _, s := range append([]syscall.Signal{syscall.SIGCONT, syscall.SIGPIPE}, stopping...) {
		setAction(int(s), &r.old[s], nil)
	}
}

// pass sends the signal to the program, unless it has it.
func (r *relay) pass(info *[infoSize]byte) {
	word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(info[at:]))) }
	s, code, sender := syscall.Signal(word(0)), word(8), word(16)
	switch {
	case s == syscall.SIGCONT && r.resumed:
		// A shell sends it to the group; another may have sent it to us alone.
		if state(r.pid) == 'T' {
			syscall.Kill(r.pid, s)
		}
	case code > byUser && !forUsAlone(s), code <= byUser && r.isOurs(sender):
	case code < byUser && code != byThread:
		queue(r.pid, int(s), info)
	default:
		syscall.Kill(r.pid, s) // an error means that it may not be signalled: set-user-ID
	}
	r.heed(s)
}

// heed does what a signal asks of this process, whoever passes it on.
func (r *relay) heed(s syscall.Signal) {
	if s == syscall.SIGCONT {
		r.resumed = false
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
		pid, _ = strconv.Atoi(string(stat[1]))
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
	return string(stat[2]) == group && string(stat[5]) == group && session(os.Getppid()) == session(0)
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
func procStat(pid int) [][]byte {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return procfile.FieldsOf(b)
}

// serve passes signals on until the program has ended, and reaps it. It calls look now
// and then, if that is not nil.
func (r *relay) serve(look func()) (syscall.WaitStatus, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old := setMask(0) // also those that this process was started with blocked
	defer setMask(old & atStart.blocked &^ (faults >> 1))
	next, lasting := newLooks(look != nil), time.Now().Add(brief)
	for {
		ws, err := r.changed()
		if err != nil || ws.Exited() || ws.Signaled() {
			caught.program = 0
			return ws, err
		}
		wait := next.wait()
		if r.witness == 0 {
			if left := time.Until(lasting); left <= 0 {
				r.haveWitness()
			} else if wait < 0 || left < wait {
				wait = left
			}
		}
		switch {
		case len(r.waiting) > 0 || await(r.from, wait):
			r.read()
			r.decide()
		case next.due():
			look()
			next.looked()
		}
	}
}

// changed takes notice of how the program is: whether it has stopped, or has ended. The
// kernel sends SIGCHLD when that changes, which comes by the pipe as the others do; and
// tells of a stop once. Whom this process has adopted, as the first of a pid namespace or
// a subreaper, is reaped as well: without us the program would be told of them. While other
// threads of this process trace it is left to them.
func (r *relay) changed() (ws syscall.WaitStatus, err error) {
	const running = 0xffff // as the kernel says that it goes on
	others.Lock()
	defer others.Unlock()
	pid, whom := -1, -1
	ended := hasEnded(r.pid)
	if ended { // it is there until somebody waits for it
		r.transfers = transfersOf(r.pid)
	}
	if others.count > 0 {
		if whom = r.pid; !ended {
			return running, nil
		}
	}
	for err == syscall.EINTR || err == nil && pid != 0 && pid != r.pid {
		pid, err = syscall.Wait4(whom, &ws, syscall.WUNTRACED|syscall.WNOHANG, nil)
	}
	if err != nil {
		return running, os.NewSyscallError("wait4", err)
	}
	if pid == 0 {
		return running, nil
	}
	if ws.Stopped() { // it may go on, and stop again
		r.stopped = ws.StopSignal()
		r.stop()
	}
	return ws, nil
}

// others are threads of this process that trace the program, or what may be adopted: of their
// stops they alone are to be told, and the kernel tells whoever waits first.
var others struct {
	sync.Mutex
	count int
	wake  int // end of the pipe to write to
}

// hasEnded reports whether a child has ended, and can be waited for.
func hasEnded(pid int) bool {
	const exited, killed, dumped = 1, 2, 3 // CLD_*
	var is unix.Siginfo
	if unix.Waitid(unix.P_PID, pid, &is, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil {
		return false
	}
	return is.Code == exited || is.Code == killed || is.Code == dumped
}

// Hold has nobody wait for children of this process but for the program's end, until release is
// called.
func Hold() (release func()) {
	others.Lock()
	defer others.Unlock()
	others.count++
	return func() {
		others.Lock()
		defer others.Unlock()
		if others.count--; others.count == 0 {
			var again [infoSize]byte
			syscall.Write(others.wake, again[:]) // if that is full it is looked all the same
		}
	}
}

// await waits until there is something to read, or that long if it is not negative. It
// reports whether it was not that long.
func await(fd int, patience time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	var ts *unix.Timespec
	if patience >= 0 {
		t := unix.NsecToTimespec(int64(patience))
		ts = &t
	}
	n, err := unix.Ppoll(fds, ts, nil)
	return n > 0 || err != nil
}

// looks says when to look at the program: soon after its start, then less and less often.
type looks struct {
	pause time.Duration
	at    time.Time
	never bool
}

func newLooks(any bool) *looks {
	const first = 5 * time.Millisecond
	return &looks{first, time.Now().Add(first), !any}
}

// wait is how long it is until the next look; negative for ever.
func (l *looks) wait() time.Duration {
	if l.never {
		return -1
	}
	return max(0, time.Until(l.at))
}

func (l *looks) due() bool { return !l.never && l.wait() == 0 }

func (l *looks) looked() {
	const last = 5 * time.Second
	l.pause = min(2*l.pause, last)
	l.at = time.Now().Add(l.pause)
}
