//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// fewTasks is a number of processes and threads that others may have used up.
const fewTasks = 1024

// roomy reports whether there is nothing that would keep the runtime from starting, but
// what others use up.
func (a *preparation) roomy() bool {
	const deadline = 6 // sched(7): who may not have threads; newer policies are not known
	policy := call(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0, 0)
	return policy >= 0 && policy < deadline &&
		call(unix.SYS_PRCTL, unix.PR_GET_SECCOMP, 0, 0, 0) == 0 &&
		a.most(unix.RLIMIT_AS) == unix.RLIM_INFINITY && a.most(unix.RLIMIT_DATA) == unix.RLIM_INFINITY &&
		a.most(unix.RLIMIT_NPROC) >= fewTasks && a.roomyCgroup()
}

// most is the limit of a resource; 0 if it is not known.
func (a *preparation) most(resource int) uint64 {
	if callLimit(unix.SYS_PRLIMIT64, 0, resource, nil, &a.limit) != 0 {
		return 0
	}
	return a.limit[0]
}

var ownCgroups = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'c', 'g', 'r', 'o', 'u', 'p', 0}

// roomyCgroup reports whether the cgroup of this process, without those above, has
// room for enough threads (cgroups(7): lines of number:controllers:path).
func (a *preparation) roomyCgroup() bool {
	n := a.readFile(&ownCgroups[0])
	if n <= 0 || n >= len(a.block) { // cut off
		return false
	}
	a.block[n] = 0
	at, of := "", "" // the path, and the mount that it is in
	lines := text(&a.block[0])
	for from := 0; from < len(lines); {
		end := from
		for end < len(lines) && lines[end] != '\n' {
			end++
		}
		line := lines[from:end]
		for i := range len(line) {
			switch rest := line[i:]; {
			case begins(rest, ":pids:"):
				at, of = rest[len(":pids:"):], "/sys/fs/cgroup/pids"
			case begins(rest, "::") && of == "":
				at, of = rest[len("::"):], "/sys/fs/cgroup"
			default:
				continue
			}
			break
		}
		from = end + 1
	}
	return of != "" && a.roomyAt(of, at)
}

// roomyAt looks at one cgroup. The root of all has no limit.
func (a *preparation) roomyAt(mount, path string) bool {
	root := path == "/"
	if root {
		path = ""
	}
	dir := a.join(mount, path, "/pids.max")
	if dir == nil {
		return false
	}
	n := a.readFile(dir)
	if n <= 0 {
		return root && syscall.Errno(-n) == syscall.ENOENT
	}
	if a.block[0] == 'm' { // max
		return true
	}
	most := 0
	for i := 0; i < min(n, 9) && a.block[i] >= '0' && a.block[i] <= '9'; i++ {
		most = 10*most + int(a.block[i]-'0')
	}
	return most >= fewTasks
}

// readFile reads the begin of a file into a.block. It returns how much that is, or the
// negative number of an error.
func (a *preparation) readFile(path *byte) int {
	fd := callAt(unix.SYS_OPENAT, unix.AT_FDCWD, path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if fd < 0 {
		return fd
	}
	n := callAt(unix.SYS_READ, fd, &a.block[0], len(a.block), 0)
	call(unix.SYS_CLOSE, fd, 0, 0, 0)
	return n
}

// abide is what is left to do when the program runs and the runtime cannot start after
// all: it passes on what users send, stops with the program, and returns the status
// that it ends with.
func abide(why int) int {
	a := &ahead
	say("no summary: ", reasonOf(why))
	var info [infoSize / 4]int32
	for {
		status := [2]uint32{}
		switch pid := callWait(unix.SYS_WAIT4, a.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, 0); {
		case pid == -int(syscall.EINTR):
		case pid < 0:
			return 125
		case pid > 0 && status[0]&0xff == 0x7f:
			call(unix.SYS_KILL, call(unix.SYS_GETPID, 0, 0, 0, 0), int(syscall.SIGSTOP), 0, 0)
			call(unix.SYS_KILL, a.Pid, int(syscall.SIGCONT), 0, 0)
		case pid > 0 && status[0]&0x7f != 0:
			return 128 + int(status[0]&0x7f)
		case pid > 0:
			return int(status[0] >> 8 & 0xff)
		}
		signal := callInfo(unix.SYS_RT_SIGTIMEDWAIT, &everySignal, &info, 0, 8)
		const code, byUser = 2, 0 // word of the kernel's siginfo_t
		if signal > 0 && info[code] <= byUser {
			call(unix.SYS_KILL, a.Pid, signal, 0, 0)
		}
	}
}

var everySignal uint64 = 1<<64 - 1
