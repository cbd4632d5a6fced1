package attach

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/seccomp"
)

// Whether a program's sandbox lets it make our system calls, which it would never make itself.

const startInstead = "start it with hotspots run"

var errUnread = errors.New("has a seccomp filter, which may end it at a system call of ours: attach as root (CAP_SYS_ADMIN), who may read it, or " + startInstead)

func checkSandbox(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	may := mayRead()
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		s, err := ptrace.ReadStatus(pid, tid)
		if err != nil {
			continue // it has ended
		}
		err = sandboxed(s)
		if err == nil && s.Seccomp != 0 && !may {
			err = errUnread
		}
		if err != nil {
			return fmt.Errorf("%s (%d) %w", s.Name, pid, err)
		}
	}
	return nil
}

// sandboxed: threads that are led elsewhere and get back by themselves do so by a return that
// no shadow stack knows.
func sandboxed(s *ptrace.Status) error {
	const strict = 1 // SECCOMP_MODE_STRICT
	switch {
	case s.Shadow:
		return errors.New("has shadow stacks: " + startInstead)
	case s.Seccomp == strict:
		return errors.New("is in seccomp's strict mode, which ends it at any system call of ours: " + startInstead)
	}
	return nil
}

// mayRead reports whether the kernel lets us read others' filters, as far as we know: not from
// within a user namespace.
func mayRead() bool {
	self, err := ptrace.ReadStatus(os.Getpid(), os.Getpid())
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return err == nil && self.Seccomp == 0 && unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// verdicts are those of filters that were read: threads mostly have the same.
type verdicts map[string]error

// check is an error if a filter of a stopped thread may do more than refuse, whatever system call
// is made, or refuses one that we need.
func (v verdicts) check(t *ptrace.Thread) error {
	all, err := t.Filters()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) {
		return errUnread
	}
	if err != nil {
		return fmt.Errorf("has a seccomp filter that cannot be read: %w", err)
	}
	for _, f := range all {
		err, known := v[string(f)]
		if !known {
			err = verdict(f)
			v[string(f)] = err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needed is what is made in front of anything that could fail, or is not looked at.
var needed = []struct {
	name string
	nr   int
}{
	{"mmap", unix.SYS_MMAP}, {"munmap", unix.SYS_MUNMAP}, {"mprotect", unix.SYS_MPROTECT}, {"mremap", unix.SYS_MREMAP}, {"madvise", unix.SYS_MADVISE},
	{"memfd_create", unix.SYS_MEMFD_CREATE}, {"close", unix.SYS_CLOSE}, {"pread64", unix.SYS_PREAD64}, {"futex", unix.SYS_FUTEX}, {"arch_prctl", unix.SYS_ARCH_PRCTL},
	{"rt_sigaction", unix.SYS_RT_SIGACTION}, {"rt_sigprocmask", unix.SYS_RT_SIGPROCMASK}, {"rt_sigreturn", unix.SYS_RT_SIGRETURN}, {"gettid", unix.SYS_GETTID}, {"getpid", unix.SYS_GETPID},
	{"socketpair", unix.SYS_SOCKETPAIR}, {"setsockopt", unix.SYS_SETSOCKOPT}, {"recvmsg", unix.SYS_RECVMSG},
}

func verdict(b []byte) error {
	filter, err := seccomp.Parse(b)
	if err != nil {
		return err
	}
	switch {
	case seccomp.Of(filter, seccomp.Any)&seccomp.Else != 0:
		return errors.New("has a seccomp filter that may do more to a system call of ours than refuse it: " + startInstead)
	case seccomp.SeesAddresses(filter):
		return errors.New("has a seccomp filter that looks at where system calls are made: " + startInstead)
	}
	for _, c := range needed {
		if seccomp.Of(filter, c.nr) != seccomp.Allowed {
			return fmt.Errorf("has a seccomp filter that may refuse %s: %s", c.name, startInstead)
		}
	}
	return nil
}
