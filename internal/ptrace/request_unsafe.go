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
