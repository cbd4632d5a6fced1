// Package sigmask sets which signals a thread has blocked.
package sigmask

import "golang.org/x/sys/unix"

// Set blocks exactly the signals of the set, bit 0 being signal 1, in this
// thread (lock it first) and returns those that were blocked.
func Set(blocked uint64) (old uint64) {
	set, was := unix.Sigset_t{}, unix.Sigset_t{}
	set.Val[0] = blocked
	if unix.PthreadSigmask(unix.SIG_SETMASK, &set, &was) != nil {
		return blocked
	}
	return was.Val[0]
}
