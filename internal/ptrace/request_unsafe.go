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

// sequenceAt is where a thread has its struct rseq (PTRACE_GET_RSEQ_CONFIGURATION); 0: it has
// none, or the kernel does not tell.
func sequenceAt(tid int) uint64 {
	var c struct {
		at                           uint64
		size, signature, flags, none uint32
	}
	if request(getRseq, tid, unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c))) != nil {
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
	err = request(getSigmask, tid, maskSize, uintptr(unsafe.Pointer(&mask)))
	return mask, err
}

func setMask(tid int, mask uint64) error {
	return request(setSigmask, tid, maskSize, uintptr(unsafe.Pointer(&mask)))
}

func nanosleep(t *unix.Timespec) {
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(t)), 0, 0)
}
