//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/setting"
)

// The Go runtime and what is linked with it take milliseconds to start, in which a
// short program has ended. So the entry starts the program of a plain run first, and
// the runtime beside it (entry_amd64.s):
//
//  1. prepare finds out, by looking only, whether the run is one: flags that need no
//     checking, a dynamic program for glibc, the library where run has put it, and a
//     directory for the table. Where the runtime may find no room (roomy), that is
//     tried next, as for every other command, else beside the program.
//  2. All signals are blocked: they wait until there is somebody to pass them on.
//  3. The program is started as Run does it (spawn).
//  4. The runtime starts, and unblocks none (keepBlocked). Whoever runs the command asks Started, and has Resume do the
//     rest of Run.
//
// Whatever is not as it mostly is, is left to Run, which does it or says why not. As
// for alone there is no runtime: no memory to allocate, no panic.

// Early is a run whose program was started before the runtime.
type Early struct {
	Pid     int
	Path    string // of the program
	Output  string // value of setting.Output
	Note    string // value of setting.Note
	ID      [16]byte
	Summary int
	Mangled bool // --no-demangle
	On      setting.Switches
}

// Started is the run that was started before the runtime; nil if there is none.
func Started() *Early {
	if ahead.Pid == 0 {
		return nil
	}
	return &ahead.Early
}

// carried is the SHA-256 of the library that this binary carries, in hex digits, and
// its size. The build says it (-ldflags -X): before the runtime there is no embed.FS.
var carried string

// summaryDefault is how many functions the summary shows.
const summaryDefault = 10

// maxVariables is how long an environment may be. A longer one is left to Run.
const maxVariables = 2048

// fewFiles is a limit of descriptors below which there may be none for a pipe.
const fewFiles = 64

// preparation is what the entry works with.
type preparation struct {
	Early
	args    []*byte // of the program
	program *byte   // path
	library *byte   // path
	named   *byte   // output that the user named

	search, cwd, home, cache, runtime *byte // variables; nil if there is none

	environ   [maxVariables]*byte
	variables int
	ready     bool // for begin

	uid         int
	stat, other syscall.Stat_t
	fs          syscall.Statfs_t
	limit       [2]uint64
	random      [16]byte
	block       [4096]byte // of a file
	dynamic     [4096]byte
	name        [33]byte
	texts
}

var ahead preparation

// early starts the program if the run is a plain one, and there is room for the runtime
// beyond doubt.
func early(args, env []*byte) {
	ahead.ready = ahead.prepare(args, env)
	if ahead.ready && ahead.roomy() {
		begin(env)
	}
}

// late is early when the room has been tried.
func late(args, env []*byte) {
	if ahead.ready && ahead.Pid == 0 {
		begin(env)
	}
}

// begin starts the program.
func begin(env []*byte) {
	a := &ahead
	setMask(^uint64(0))
	pid := spawn(a.program, &a.args[0], &a.environ[0], &atStart)
	if pid > 0 && atStart.errno == 0 {
		a.Pid, a.Path = pid, text(a.program)
		keepBlocked()
		forRuntime(env)
		return
	}
	a.ready = false
	if pid > 0 { // it was not executed: Run says why
		call(unix.SYS_WAIT4, pid, 0, 0, 0)
		atStart.errno = 0
	}
	setMask(atStart.blocked)
}

// runtimeSignal is an entry of the runtime's table of signals (sigTabT). Its flags say
// that the runtime never blocks a signal: since its own code may raise it, or since it
// ends the process by default. When a user sends such a one before a relay is there,
// this process would end, and the program be left alone.
type runtimeSignal struct {
	flags int32
	//lint:ignore U1000 it is the runtime's
	name string
}

// runtimeSignals is that table; nil if the build does not say where it is.
var runtimeSignals *[signals + 1]runtimeSignal

// letIn are the flags of Go 1.26 (_SigKill, _SigThrow, _SigUnblock), and these are the
// signals that have some. With a runtime of which that does not hold no program is
// started early.
const letIn = 1<<1 | 1<<2 | 1<<7

const letInSignals uint64 = 1<<syscall.SIGHUP | 1<<syscall.SIGINT | 1<<syscall.SIGQUIT | 1<<syscall.SIGILL |
	1<<syscall.SIGTRAP | 1<<syscall.SIGABRT | faults | 1<<syscall.SIGTERM | 1<<syscall.SIGSTKFLT |
	1<<syscall.SIGCHLD | 1<<syscall.SIGPROF | 1<<syscall.SIGSYS | 1<<32 | 1<<33 | 1<<34

const faults uint64 = 1<<syscall.SIGBUS | 1<<syscall.SIGFPE | 1<<syscall.SIGSEGV

// knownRuntime reports whether the runtime's table is as it was when this was written.
func knownRuntime() bool {
	if runtimeSignals == nil {
		return false
	}
	for s := range runtimeSignals {
		if has := runtimeSignals[s].flags&letIn != 0; has != (s < signals && letInSignals>>s&1 != 0) {
			return false
		}
	}
	return true
}

// flagsBefore are what keepBlocked has changed.
var flagsBefore [signals + 1]int32

// keepBlocked has the runtime leave all signals blocked, on all its threads.
func keepBlocked() {
	for s := range runtimeSignals {
		flagsBefore[s] = runtimeSignals[s].flags
		runtimeSignals[s].flags &^= letIn
	}
}

// asBefore takes keepBlocked back, when a relay has all signals.
func asBefore() {
	if runtimeSignals == nil {
		return
	}
	for s := range runtimeSignals {
		runtimeSignals[s].flags = flagsBefore[s]
	}
}

// forRuntime changes the environment that the runtime is shown, and only it: all that
// runs further is done in turn, so that one CPU is enough, and every thread more takes
// the program's time; and it needs no SIGURG then, to have goroutines take turns. Nobody
// looks for a program any more, nor at home, so that these take the place of PATH and HOME.
func forRuntime(env []*byte) {
	debug := false // the user's
	for i := 0; i < len(env) && env[i] != nil; i++ {
		debug = debug || begins(text(env[i]), "GODEBUG=")
	}
	for i := 0; i < len(env) && env[i] != nil; i++ {
		switch v := text(env[i]); {
		case begins(v, "PATH="):
			env[i] = &maxProcs[0]
		case begins(v, "HOME=") && !debug:
			env[i] = &noPreemption[0]
		}
	}
}

var (
	maxProcs     = [...]byte{'G', 'O', 'M', 'A', 'X', 'P', 'R', 'O', 'C', 'S', '=', '1', 0}
	noPreemption = [...]byte{'G', 'O', 'D', 'E', 'B', 'U', 'G', '=', 'a', 's', 'y', 'n', 'c', 'p', 'r', 'e', 'e', 'm', 'p', 't', 'o', 'f', 'f', '=', '1', 0}
)

// prepare makes ready what spawn needs, and changes nothing outside of this process.
func (a *preparation) prepare(args, env []*byte) bool {
	ignored := atStart.ignored>>(syscall.SIGCHLD-1)&1 != 0
	if len(carried) <= sumDigits || atStart.closed != 0 || atStart.files[1] < fewFiles || ignored || len(env) > maxVariables-int(setting.Count) {
		return false
	}
	a.uid = call(unix.SYS_GETUID, 0, 0, 0, 0)
	a.Summary, a.On = summaryDefault, setting.Usual
	return knownRuntime() && a.flags(args) && a.readEnviron(env) && a.find() && a.countable() &&
		a.findLibrary() && a.place() && a.makeEnviron()
}

// flags reads the command line. Flags whose values need to be checked are Run's.
func (a *preparation) flags(args []*byte) bool {
	if len(args) < 3 || args[1] == nil || text(args[1]) != "run" {
		return false
	}
	for i := 2; i < len(args) && args[i] != nil; i++ {
		flag := text(args[i])
		switch {
		case flag == "--":
			a.args = args[i+1:]
			return len(a.args) > 1 && a.args[0] != nil
		case len(flag) < 2 || flag[0] != '-':
			a.args = args[i:]
			return true
		case flag == "-o", flag == "--output", flag == "--summary":
			i++
			if i >= len(args) || args[i] == nil || !a.value(flag, args[i]) {
				return false
			}
		case begins(flag, "--output="), begins(flag, "--summary="):
			name := len("--output")
			if flag[name] != '=' {
				name = len("--summary")
			}
			if !a.value(flag[:name], behind(args[i], name+1)) {
				return false
			}
		case !a.turn(flag):
			return false
		}
	}
	return false
}

// value takes the value of a flag that has one.
func (a *preparation) value(flag string, value *byte) bool {
	if flag != "--summary" {
		a.named = value
		return true
	}
	a.Summary = 0
	digits := text(value)
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' || i > 5 {
			return false
		}
		a.Summary = 10*a.Summary + int(digits[i]-'0')
	}
	return digits != "" && (digits[0] != '0' || len(digits) == 1) // 010 is another number to a shell, and to package strconv
}

// turn turns a switch on.
func (a *preparation) turn(flag string) bool {
	if len(flag) < 3 || flag[1] != '-' {
		return false
	}
	name := flag[2:]
	switch name {
	case DirectCalls:
		return true
	case "no-demangle":
		a.Mangled = true
		return true
	}
	for i := range setting.All {
		if s := &setting.All[i]; s.Kind == setting.Switch && s.Flag == name {
			a.On[i] = true
			switch setting.ID(i) {
			case setting.FollowExec, setting.Regions, setting.Allocs: // who is asked for by what is executed, or takes records, has to be there
				return false
			}
			return true
		}
	}
	return false
}
