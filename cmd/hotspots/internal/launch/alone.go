//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/setting"
)

// The Go runtime ends the process, after a trace, where it gets no threads, no
// descriptors or too little memory. So that is tried before it starts (entry_amd64.s), and where it
// would fail there is alone, which runs the program in this process, uncounted.
//
// Nothing of the runtime is there for what follows: no memory to allocate, no panic.

// What the runtime takes: address space that it reserves, memory that it maps,
// and threads. The planner's are with them, since they are not there to have
// either; and the program needs a process. Found by trying, with Go 1.26 (ulimit
// -v: 760 MB; ulimit -d: 88 MB; ulimit -u).
const (
	reservedBytes = 768 << 20
	mappedBytes   = 96 << 20
	trialThreads  = 16
	// For the runtime alone, when the program has its process and its planner.
	ownThreads = 8
	// The runtime's two, the two ends of a relay's pipe, and one for a file.
	ownFiles = 5
)

// Why the runtime cannot start.
const (
	fewThreads = iota
	littleMemory
	fewDescriptors
)

// trial is what the entry works with.
type trial struct {
	over    uint32 // the threads may end
	threads [trialThreads]uint32
	g       [2]uintptr // the first is where the thread's pointer to g is
	zeros   [128]uintptr
	path    [unix.PathMax]byte
}

var tried trial

func become(path *byte, argv, env **byte) (errno int)
func tell(text string)

// text is the string that ends with a zero byte, in place.
func text(p *byte) string

func reasonOf(why int) string {
	switch why {
	case littleMemory:
		return "there is too little address space (ulimit -v, ulimit -d?)\n"
	case fewDescriptors:
		return "there are too few descriptors (ulimit -n?)\n"
	}
	return "no more threads can be made (SCHED_DEADLINE, ulimit -u, a cgroup's limit, a sandbox?)\n"
}

// lacksFiles reports whether there are fewer descriptors than hotspots needs, under the
// hard limit, to which package syscall raises the other. The runtime opens those of the
// first three that are closed, too. The system call is that of libc and of package
// syscall: services have setrlimit denied, and are killed by it.
func lacksFiles() (lacks bool) {
	const standard = 3
	var fds [ownFiles + standard]int
	limit := atStart.files
	callLimit(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, &[2]uint64{limit[1], limit[1]}, nil)
	n, need := 0, ownFiles
	for fd := range standard {
		need += int(atStart.closed >> fd & 1)
	}
	for ; n < need; n++ {
		if fds[n] = call(unix.SYS_EVENTFD2, 0, unix.O_CLOEXEC, 0, 0); fds[n] < 0 {
			break
		}
	}
	for i := range n {
		call(unix.SYS_CLOSE, fds[i], 0, 0, 0)
	}
	callLimit(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, &limit, nil)
	return n < need
}

// alone gets the arguments and the environment, each with the null pointer that
// ends it, and returns an exit status if it cannot execute a program.
func alone(args, env []*byte, why int) int {
	if ahead.Pid != 0 {
		return abide(why)
	}
	reason := reasonOf(why)
	program, strict := programOf(args)
	switch {
	case program == 0:
		say("hotspots cannot run: ", reason)
		return 1
	case strict || setting.IsOn(value(env, setting.All[setting.Strict].Variable)):
		say("not run, as --strict says: ", reason)
		return 125
	}
	say("nothing is counted: ", reason)
	errno := search(args[program:], env)
	tell("hotspots: ")
	tell(text(args[program]))
	if errno == int(syscall.ENOENT) || errno == int(syscall.ENOTDIR) {
		tell(": not found\n")
		return 127
	}
	tell(": cannot be executed\n")
	return 126
}

func say(what, why string) {
	tell("hotspots: ")
	tell(what)
	tell(why)
}

// value is that of a variable, empty if there is none.
func value(env []*byte, name string) string {
	for _, p := range env {
		if p == nil {
			break
		}
		v := text(p)
		if len(v) > len(name) && v[:len(name)] == name && v[len(name)] == '=' {
			return v[len(name)+1:]
		}
	}
	return ""
}

// programOf finds the program among the arguments of `hotspots run`, 0 if there is
// none, and whether it is not to run uncounted.
func programOf(args []*byte) (at int, strict bool) {
	if len(args) < 2 || args[0] == nil || args[1] == nil || text(args[1]) != "run" {
		return 0, false
	}
	for i := 2; i < len(args) && args[i] != nil; i++ {
		a := text(args[i])
		switch {
		case a == "--":
			if i+1 < len(args) && args[i+1] != nil {
				return i + 1, strict
			}
			return 0, strict
		case len(a) < 2 || a[0] != '-':
			return i, strict
		case a[1] != '-':
			if a == "-h" {
				return 0, strict
			}
			if len(a) == 2 { // its value comes next
				i++
			}
		case a == "--help":
			return 0, strict
		case a == "--strict":
			strict = true
		case !hasValue(a) && !IsSwitch(a[2:]):
			i++
		}
	}
	return 0, strict
}

func hasValue(flag string) bool {
	for i := range len(flag) {
		if flag[i] == '=' {
			return true
		}
	}
	return false
}

// DirectCalls is the flag that asks for what is the default now: that calls lead straight
// to the stubs. Scripts may say it still.
const DirectCalls = "direct-calls"

// Time is the flag for CPU time. It may have a value, behind = only.
const Time = "time"

// Audit is the flag that has regions audited.
const Audit = "audit"

// Times is the flag that has the times of accesses to regions noted.
const Times = "times"

// IsSwitch reports whether a flag of `hotspots run` takes no value.
func IsSwitch(flag string) bool {
	return setting.IsSwitch(flag) || flag == "no-demangle" || flag == DirectCalls || flag == Time || flag == Audit || flag == Times || flag == "help"
}

// search executes a program as execvp(3) does, but for scripts without an
// interpreter. It returns why it could not.
func search(args, env []*byte) int {
	name := text(args[0])
	for i := range len(name) {
		if name[i] == '/' {
			return become(args[0], &args[0], &env[0])
		}
	}
	dirs, errno := value(env, "PATH"), int(syscall.ENOENT)
	if dirs == "" {
		dirs = "/bin:/usr/bin"
	}
	for from := 0; from <= len(dirs); {
		end := from
		for end < len(dirs) && dirs[end] != ':' {
			end++
		}
		if path := join(dirs[from:end], name); path != nil {
			switch err := become(path, &args[0], &env[0]); syscall.Errno(err) {
			case syscall.ENOENT, syscall.ENOTDIR:
			default:
				errno = err
			}
		}
		from = end + 1
	}
	return errno
}

// join makes a path of the two; nil if it is too long.
func join(dir, name string) *byte {
	if len(dir)+len(name)+2 > len(tried.path) {
		return nil
	}
	n := copy(tried.path[:], dir)
	if n > 0 {
		tried.path[n] = '/'
		n++
	}
	n += copy(tried.path[n:], name)
	tried.path[n] = 0
	return &tried.path[0]
}
