// Package mem is the one place that maps, protects and looks at memory by
// address. Nothing else imports golang.org/x/sys/unix for mappings or turns
// integers into pointers.
package mem

import "golang.org/x/sys/unix"

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
