package ptrace

import (
	"slices"

	"golang.org/x/sys/unix"
)

// What the kernel has in rax of a thread that was interrupted in a system call, and will make
// it again if no handler runs (linux/errno.h).
const (
	restartSys     = -512
	restartNoIntr  = -513
	restartNoHand  = -514
	restartBlock   = -516
	callSize       = 2 // of the instruction `syscall`
	restartSyscall = unix.SYS_RESTART_SYSCALL
)

// interruptible are system calls that return EINTR where a thread was stopped and went on,
// although no handler has run (signal(7)), and that have done nothing then: they can be made
// again. close(2), which is done when it returns EINTR, is not among them.
var interruptible = []uint64{
	unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
	unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_RT_SIGTIMEDWAIT,
	unix.SYS_IO_GETEVENTS, unix.SYS_IO_PGETEVENTS, unix.SYS_IO_URING_ENTER,
	// of sockets with SO_RCVTIMEO and SO_SNDTIMEO
	unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_SPLICE, unix.SYS_SENDFILE,
	unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_CONNECT,
}

// Again is r, or, of a thread that was stopped in a system call and is to make it again, the
// state in front of that. With it the kernel does nothing more about it.
func Again(r Regs, signalled bool) Regs {
	if int64(r.Orig_rax) < 0 {
		return r
	}
	switch got := int64(r.Rax); {
	case got == restartSys, got == restartNoIntr, got == restartNoHand:
		r.Rax = r.Orig_rax
	case got == restartBlock:
		r.Rax = restartSyscall
	case got == -int64(unix.EINTR) && !signalled && slices.Contains(interruptible, r.Orig_rax):
		r.Rax = r.Orig_rax
	default:
		r.Orig_rax = noSyscall // it has returned
		return r
	}
	r.Rip -= callSize
	r.Orig_rax = noSyscall
	return r
}

// isInterrupted reports whether the kernel would tell a thread that a signal has interrupted
// its system call, where none has.
func (p *Process) isInterrupted(t *Thread) bool {
	r := &t.Regs
	return int64(r.Orig_rax) >= 0 && int64(r.Rax) == -int64(unix.EINTR) && slices.Contains(interruptible, r.Orig_rax) && !p.signalled(t)
}

// signalled reports whether a signal with a handler is the reason that the thread's system
// call was interrupted, or may be. Who cannot be asked is taken to be.
func (p *Process) signalled(t *Thread) bool {
	s, err := ReadStatus(p.Pid, t.Tid)
	if err != nil {
		return true
	}
	stops := uint64(1)<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	is := s.Pending &^ s.Blocked
	if t.Signal > 0 {
		is |= 1 << (t.Signal - 1)
	}
	return is&(s.Caught|stops) != 0
}
