package alive

import (
	"syscall"
	"unsafe"
)

// monotonic is CLOCK_MONOTONIC in ns; package time keeps it to itself.
func monotonic() uint64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}
