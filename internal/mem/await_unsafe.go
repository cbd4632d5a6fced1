package mem

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Await waits until a word in shared memory is another, or for so long (futex(2)).
func Await(word *uint32, is uint32, most time.Duration) {
	const wait = 0 // FUTEX_WAIT
	limit := unix.NsecToTimespec(int64(most))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), wait, uintptr(is), uintptr(unsafe.Pointer(&limit)), 0, 0)
}
