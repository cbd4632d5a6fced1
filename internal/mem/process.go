// Package mem is the one place that maps, protects and looks at memory by
// address. Nothing else imports golang.org/x/sys/unix for mappings or turns
// integers into pointers.
package mem

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTime is the CPU time that all threads of a process have taken (clock_getcpuclockid(3)).
func ProcessTime(pid uint32) (time.Duration, error) {
	const ofProcess, scheduled = 3, 2 // bits of the number, and which clock (linux/posix-timers.h)
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<ofProcess|scheduled), &ts)
	return time.Duration(ts.Nano()), err
}

// AwaitProcess returns when process pid has ended, or is not to be waited for.
func AwaitProcess(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return
		}
	}
}
