package ptrace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// request makes a ptrace(2) call whose arguments are numbers.
func request(what, tid int, addr, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// requestAt is request with memory that the kernel reads or writes. As a number it would be where the
// memory was before this call had the stack grow, and the memory with it.
func requestAt(what, tid int, addr uintptr, data unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// requestSlow is request where it may take long: others of ours run meanwhile.
func requestSlow(what, tid int, addr, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(what), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// sequenceAt is where a thread has its struct rseq (PTRACE_GET_RSEQ_CONFIGURATION); 0: it has
// none, or the kernel does not tell.
func sequenceAt(tid int) uint64 {
	var c struct {
		at                           uint64
		size, signature, flags, none uint32
	}
	if requestAt(getRseq, tid, unsafe.Sizeof(c), unsafe.Pointer(&c)) != nil {
		return 0
	}
	return c.at
}

// filter is the bytes of one of a thread's seccomp filters; nil: it has no more.
func filter(tid, i int) ([]byte, error) {
	const insts, size = 4096, 8 // BPF_MAXINSNS
	b := make([]byte, insts*size)
	n, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(tid), uintptr(i), uintptr(unsafe.Pointer(&b[0])), 0, 0)
	switch errno {
	case 0:
		return b[:n*size], nil
	case unix.ENOENT:
		return nil, nil
	}
	return nil, errno
}

const maskSize = 8

func sigmask(tid int) (mask uint64, err error) {
	err = requestAt(getSigmask, tid, maskSize, unsafe.Pointer(&mask))
	return mask, err
}

func setMask(tid int, mask uint64) error {
	return requestAt(setSigmask, tid, maskSize, unsafe.Pointer(&mask))
}

func nanosleep(t *unix.Timespec) {
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(t)), 0, 0)
}

// peek is what has come of a thread, or of any, and of which one: 0, of none. It is told again.
func (t *Thread) peek(whom, options int) (status unix.WaitStatus, tid int) {
	var is struct { // siginfo_t of SIGCHLD
		signo, errno, code, none int32
		pid, uid, status         int32
		rest                     [100]byte
	}
	const exited, killed, dumped, core = 1, 2, 3, 0x80 // CLD_*, WCOREFLAG
	options |= unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT | unix.WALL
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(whom), uintptr(t.Tid), uintptr(unsafe.Pointer(&is)), uintptr(options), 0, 0)
		if errno == 0 {
			break
		}
		if errno != unix.EINTR { // it has ended, and somebody has waited for it
			return unix.WaitStatus(unix.SIGKILL), t.Tid
		}
	}
	switch is.code {
	case exited:
		return unix.WaitStatus(is.status << 8), int(is.pid)
	case killed:
		return unix.WaitStatus(is.status), int(is.pid)
	case dumped:
		return unix.WaitStatus(is.status | core), int(is.pid)
	}
	return unix.WaitStatus(is.status<<8 | 0x7f), int(is.pid)
}

// SigInfo is what the kernel tells of a signal (siginfo_t).
type SigInfo [128]byte

// Info is that of the signal that a tracee is about to be told of.
func (t Tracee) Info() (s SigInfo, err error) {
	err = requestAt(unix.PTRACE_GETSIGINFO, int(t), 0, unsafe.Pointer(&s))
	return s, err
}

// SetInfo has it told something else.
func (t Tracee) SetInfo(s *SigInfo) error {
	return requestAt(unix.PTRACE_SETSIGINFO, int(t), 0, unsafe.Pointer(s))
}

// Begins reports whether a tracee that has stopped for a system call is at its beginning.
func (t Tracee) Begins() (bool, error) {
	const entry = 1 // PTRACE_SYSCALL_INFO_ENTRY
	var b [88]byte
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, callInfo, uintptr(t), unsafe.Sizeof(b), uintptr(unsafe.Pointer(&b)), 0, 0); errno != 0 {
		return false, errno
	}
	return b[0] == entry, nil
}
