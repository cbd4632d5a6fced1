package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/ptrace"
)

// Follower counts programs from outside that counted ones execute.
//
// With --follow-exec counted programs tell of others that they are about to execute, and that
// load no library of ours (libdynprof/resident/sites/outside.c): these are attached to in front of
// their first instruction. Nobody is traced for longer than that takes.
type Follower struct {
	fd      int
	path    string
	request Request
	hold    func() (release func())
	say     func(format string, args ...any)
	busy    sync.WaitGroup
}

// Follow listens at a path. r is what programs are to be counted by; while one is traced that may
// be a child of this process nobody may wait for it: hold sees to that.
func Follow(path string, r *Request, hold func() (release func()), say func(string, ...any)) (*Follower, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := &Follower{fd: fd, path: path, request: *r, hold: hold, say: say}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		f.End()
		return nil, os.NewSyscallError("listen", err)
	}
	go f.listen()
	return f, nil
}

func (f *Follower) listen() {
	for {
		c, _, err := unix.Accept4(f.fd, unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			f.busy.Go(func() { f.serve(c) })
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBADF): // it was ended
			return
		default:
			time.Sleep(time.Millisecond) // no descriptor is free
		}
	}
}

// End ends it. Programs that are about to be counted are waited for: some milliseconds each.
func (f *Follower) End() {
	const patience = 5 * time.Second
	os.Remove(f.path)
	unix.Shutdown(f.fd, unix.SHUT_RDWR)
	through := make(chan struct{})
	go func() { f.busy.Wait(); close(through) }()
	select {
	case <-through:
	case <-time.After(patience):
	}
	unix.Close(f.fd)
}

// serve counts the program that a thread is about to execute, which has connected.
func (f *Follower) serve(c int) {
	runtime.LockOSThread() // who begins to trace goes on
	defer runtime.UnlockOSThread()
	open := true
	answer := func() error {
		_, err := unix.Write(c, []byte{1}) // which waits for nothing
		return errors.Join(os.NewSyscallError("write", err), f.closed(c, &open))
	}
	defer func() { f.closed(c, &open) }() // which lets it go on, too
	pid, tid, err := peer(c)
	if err != nil {
		f.say("not counted: %v", err)
		return
	}
	defer f.hold()()
	r := f.request
	r.Pid = pid
	process, err := ptrace.Follow(pid, tid, answer)
	if err == nil {
		_, err = Start(&r, process)
		process.Release()
	}
	var ended *ptrace.Ended
	if err != nil && !errors.Is(err, ptrace.ErrNotExecuted) && !errors.As(err, &ended) {
		f.say("not counted: %v", err)
	}
}

func (f *Follower) closed(c int, open *bool) error {
	if !*open {
		return nil
	}
	*open = false
	return os.NewSyscallError("close", unix.Close(c))
}

// peer is which thread of which process has connected, and says so.
func peer(c int) (pid, tid int, err error) {
	cred, err := unix.GetsockoptUcred(c, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	pid = int(cred.Pid)
	patience := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(c, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, 0, err
	}
	b := make([]byte, 4)
	n, err := unix.Read(c, b)
	for err == unix.EINTR { // Go's run time sends signals to its threads
		n, err = unix.Read(c, b)
	}
	if err != nil || n != len(b) {
		return 0, 0, errors.Join(err, errors.New("it does not say who it is"))
	}
	tid, err = ptrace.ThreadOf(pid, int(binary.LittleEndian.Uint32(b)))
	return pid, tid, err
}
