package test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// scenes is the table.
func (o *observer) scenes() []scene {
	return []scene{
		// What a program sees.
		{name: "environment", args: "env A=1 B= @ OBSERVE environment"},
		{name: "the kernel's view of the environment", args: "OBSERVE kernel-environment", limit: "/proc/self/environ keeps our variables"},
		{name: "an empty environment", args: "env -i @ OBSERVE environment", edit: sorted},
		{name: "a library of the user's", args: "OBSERVE environment", preload: o.before, edit: sorted},
		{name: "a library of the user's works", args: "OBSERVE process", preload: o.before},
		{name: "descriptors", args: "OBSERVE fds", calls: steps},
		{name: "descriptors, more are open", args: "sh -c 'exec 5</dev/null 7>&1 9<>/dev/zero; exec \"$@\"' sh @ OBSERVE fds"},
		{name: "descriptors, none is open", args: "sh -c 'exec 0<&- 2>&-; exec \"$@\"' sh @ OBSERVE fds", only: "preload"},
		{name: "room for descriptors", args: "sh -c '\"$@\"; exit $?' sh @ grep FDSize /proc/self/status", calls: uncertain}, // by a parent that has few
		{name: "signals", args: "OBSERVE signals"},
		{name: "signals, some ignored", args: "env --ignore-signal=CHLD,HUP,USR1,PIPE,RTMIN @ OBSERVE signals", limit: "hotspots run must wait for its child, so SIGCHLD is not ignored"},
		{name: "signals, some blocked", args: "env --block-signal=CHLD,TERM,USR2,RTMAX @ OBSERVE signals"},
		{name: "limits", args: "prlimit --nofile=100:200 --core=0:1000 --stack=4000000:8000000 --nproc=1000:2000 @ OBSERVE limits"},
		{name: "process", args: "OBSERVE process one 'two three'"},
		{name: "process, controlled", args: "OBSERVE -controls @ OBSERVE process", only: "preload"}, // a subreaper's child is none
		{name: "process on one core", args: "taskset 1 nice -n 5 @ OBSERVE process"},
		{name: "heap", args: "OBSERVE heap"},
		{name: "heap, fixed addresses", args: "setarch -R @ OBSERVE heap"},
		{name: "children's resources", args: "OBSERVE children", limit: "the planner's time and memory show"},

		// What a program does.
		{name: "own fault handler", args: "OBSERVE faults", calls: 4 * steps},
		{name: "limits that may not be set", args: "OBSERVE -kill-limits @ OBSERVE undumpable", calls: 14 * steps},
		{name: "text that cannot be written", args: "OBSERVE -deny-patches OBSERVE -deny-execute @ OBSERVE undumpable", refused: "cannot be made writable"},
		{name: "text of which only a byte can be written", args: "OBSERVE -deny-patches OBSERVE -deny-execute @ OBSERVE undumpable", env: []string{"DYNPROF_ALLOW_TRAPS=1"}, refused: "cannot be made writable"},
		{name: "generated code", args: "OBSERVE generates", calls: 2 * steps},
		{name: "text made writable", args: "OBSERVE opens-text", calls: 2 * steps},
		{name: "longjmp and coroutines", args: "OBSERVE jumps", calls: 2 * steps},
		{name: "small stacks, big TLS", args: "OBSERVE threads", calls: 7 * steps},
		{name: "asynchronous cancellation", args: "OBSERVE cancels", calls: uncertain},
		{name: "own use of GS", args: o.segment, calls: 3},
		{name: "order of constructors and atexit", args: "OBSERVE order", env: []string{"OBSERVE_ORDER=1"}, calls: 3 * steps},
		{name: "plugin", args: "OBSERVE plugin " + o.plugin},
		{name: "plugin, bound at start", args: "OBSERVE plugin " + o.plugin, env: []string{"LD_BIND_NOW=1"}},
		{name: "IFUNC of the program", args: "OBSERVE indirect"},
		{name: "SIGPIPE", args: "OBSERVE pipes"},
		{name: "input to its end", args: "OBSERVE echo", in: "one\ntwo\n", calls: 2 * steps},
		{name: "exceptions, backtraces, thread_local", args: o.frames, calls: 100*10 + 4},
		{name: "exception that nobody catches", args: "timeout 20 @ " + o.frames + " why", calls: uncertain},
		{name: "exception from a handler of a fault", args: "timeout 20 @ " + o.frames + " fault", calls: uncertain},

		// Processes that start others.
		{name: "daemon", args: "OBSERVE -reap @ OBSERVE daemonizes", calls: 4 * steps},
		{name: "execs itself", args: "OBSERVE chain 3", env: []string{"DYNPROF_FOLLOW_SELF=0"}},
		{name: "vfork, posix_spawn, system, popen", args: "OBSERVE starts", calls: steps + 1},
		{name: "SIGCHLD", args: "OBSERVE announced", calls: 4 * steps},

		// Where a program runs.
		{name: "nohup", args: "nohup @ OBSERVE signals"},
		{name: "setsid", args: "setsid -w @ OBSERVE process", only: "preload"}, // hotspots would be the parent
		{name: "timeout", args: "timeout 100 @ OBSERVE process"},
		{name: "fixed addresses", args: "setarch -R @ OBSERVE limited", calls: 25 * steps},
		{name: "PR_SET_MDWE", args: "OBSERVE -mdwe @ OBSERVE undumpable", needs: []func(*testing.T){o.needMDWE}, calls: 14 * steps},
		{name: "write and execute denied by seccomp", args: "OBSERVE -deny-execute @ OBSERVE undumpable", calls: 14 * steps},
		{name: "the message finds a full file", args: "prlimit --fsize=0:0 sh -c 'exec \"$@\" 2>" + o.dir + "/full' sh @ OBSERVE echo", only: "preload", calls: uncounted},
		{name: "the message finds a broken pipe", args: "OBSERVE -broken-stderr prlimit --nofile=4:4 @ OBSERVE echo", only: "preload", calls: uncounted},
		{name: "valgrind", args: "valgrind -q --tool=none --trace-children=yes @ OBSERVE echo", only: "preload", calls: uncertain}, // its launcher is the first program
		{name: "LD_AUDIT", args: "OBSERVE starts", env: []string{"LD_AUDIT=" + o.audit}, calls: steps + 1},
		{name: "small stack", args: "prlimit --stack=65536:65536 @ OBSERVE jumps", only: "preload", calls: 2 * steps},
		{name: "old layout of the address space", args: "setarch -L @ OBSERVE limited", calls: 25 * steps},
		{name: "all memory executable", args: "setarch -X @ OBSERVE undumpable", calls: 14 * steps},
		{name: "directory that is gone", args: "sh -c 'cd $(mktemp -d) && rmdir $PWD && exec \"$@\"' sh @ OBSERVE limits"},
		{name: "umask of nothing", args: "sh -c 'umask 777; exec \"$@\"' sh @ OBSERVE process"},
		{name: "bound at start", args: "OBSERVE starts", env: []string{"LD_BIND_NOW=1"}, calls: steps + 1},
	}
}

// TestTransparent: a program cannot tell that it is counted, and does what it
// did. What is known to break others is in sandbox_test.go.
func TestTransparent(t *testing.T) {
	lane.Parallel(t)
	o := buildObserver(t)
	o.play(t, o.scenes())
}

// TestTransparentFollowExec: our variables stay, for what the program executes.
func TestTransparentFollowExec(t *testing.T) {
	lane.Parallel(t)
	o := buildObserver(t)
	dir := t.TempDir()
	r := run(t, command{args: []string{build(t, "hotspots"), "run", "--summary", "0", "--follow-exec", "-o", dir + "/%p", "--", o.program, "chain", "3"}})
	if r.status != 5 || r.stderr != "" || r.stdout != "left: 3\nleft: 2\nleft: 1\nleft: 0\n" {
		t.Errorf("%+v", r)
	}
	// One process, four programs: the same %p, numbered.
	if list := tables(t, dir); len(list) != 4 {
		t.Errorf("tables %v, not 4", list)
	}
	for _, table := range tables(t, dir) {
		if n := readReport(t, table).calls(t, "step"); n != steps {
			t.Errorf("%s: %d calls of step", table, n)
		}
	}
}

// TestTransparentSignals: hotspots run passes signals on, and its status is the
// program's.
func TestTransparentSignals(t *testing.T) {
	lane.Parallel(t)
	o := buildObserver(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		for sub, want := range map[string]int{"killed": 128 + int(sig), "handles": int(sig)} {
			t.Run(sub+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				table := filepath.Join(t.TempDir(), "table")
				c := exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", o.program, sub)
				out, err := c.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(out)
				if line, err := in.ReadString('\n'); line != "ready: 1\n" {
					t.Errorf("%q, %v", line, err)
				}
				c.Process.Signal(sig)
				io.Copy(io.Discard, in)
				c.Wait()
				if got := c.ProcessState.ExitCode(); got != want {
					t.Errorf("status %d, not %d", got, want)
				}
				if r := readReport(t, table); r.calls(t, "step") < steps || r.Status == "running" {
					t.Errorf("%d calls of step, %s", r.calls(t, "step"), r.Status)
				}
			})
		}
	}
}

// TestOwnNumber: variables that name the process which they are for, by its number, name
// the program where they would without hotspots; others stay.
func TestOwnNumber(t *testing.T) {
	lane.Parallel(t)
	const program = `sh -c 'for n in $LISTEN_PID $WATCHDOG_PID $SYSTEMD_EXEC_PID; do [ $n = $$ ] && echo mine || echo $n; done; echo $LISTEN_FDS'`
	for _, numbers := range []string{
		"LISTEN_PID=$$ LISTEN_FDS=1 WATCHDOG_PID=$$ SYSTEMD_EXEC_PID=$$", "LISTEN_PID=1 LISTEN_FDS=2 WATCHDOG_PID=-1 SYSTEMD_EXEC_PID=$$",
		"LISTEN_PID=1 WATCHDOG_PID=x SYSTEMD_EXEC_PID=99999999999999999999", "SYSTEMD_EXEC_PID=1",
	} {
		how := func(run string) command { return cmd("sh", "-c", numbers+" exec "+run+" "+program) }
		without := run(t, how(""))
		for _, flags := range []string{"", "--threshold 10", "--lock"} {
			t.Run(numbers+" "+flags, func(t *testing.T) {
				same(t, without, run(t, how(build(t, "hotspots")+" run --summary 0 -o '"+filepath.Join(t.TempDir(), "table")+"' "+flags+" --")))
			})
		}
	}
}

// TestVariables: the program gets each string of the environment, also those that a Go
// program is not shown by its own library.
func TestVariables(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, "gcc", []string{"-O1"}, "variables.c")
	without := run(t, command{args: []string{program, program}})
	if strings.Count(without.stdout, "[TWICE=") != 3 || !strings.Contains(without.stdout, "[]\n") {
		t.Fatalf("%+v", without)
	}
	for _, flags := range [][]string{nil, {"--threshold", "10"}, {"--heat"}, {"--strict", "--objects", "all"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			args := append([]string{program, build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags...)
			same(t, without, run(t, command{args: append(args, "--", program)}))
		})
	}
}

// TestOrphans: hotspots as the first process of a container adopts the program's orphans,
// and leaves no corpses.
func TestOrphans(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot make a pid namespace")
	const program = `sh -c 'for i in 1 2 3 4 5 6 7 8; do (true &); done; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; grep -q "^State:.Z" /proc/[1-9]*/status || exit 3; done; echo corpses'`
	for _, flags := range []string{"", "--threshold 10", "--control"} {
		t.Run(flags, func(t *testing.T) {
			args := build(t, "hotspots") + " run --summary 0 -o " + filepath.Join(t.TempDir(), "table") + " " + flags + " -- " + program
			r := run(t, cmd(need(t, "unshare"), "-pf", "--mount-proc", "sh", "-c", "exec "+args))
			if r.status != 3 || r.stdout != "" {
				t.Errorf("status %d, %s%s", r.status, r.stdout, r.stderr)
			}
		})
	}
}
