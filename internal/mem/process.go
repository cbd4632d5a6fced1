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
