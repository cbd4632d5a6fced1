package test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// observer is a program of testdata/transparent. Every call of the function
// step is known beforehand.
type observer struct {
	program, frames, segment, plugin, before, audit string
	void                                            string // an empty directory
	dir                                             string // read by all, also by users without rights
}

const (
	steps     = 1000 // calls of step in each work() of observe.c
	uncertain = -1   // the number of calls is not compared
	uncounted = -2   // nothing is counted, and nothing is seen of it
)

const seccompLimit = "threads and children need system calls of ours, at which the filter kills"

func buildObserver(t *testing.T) *observer {
	t.Helper()
	gcc, gxx := need(t, "gcc"), need(t, "g++")
	source := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join("transparent", name))
		}
		return paths
	}
	o := &observer{
		program: compile(t, gcc, []string{"-O1"}, source("observe.c", "sees.c", "does.c", "runs.c")...),
		frames:  compile(t, gxx, []string{"-O1", "-rdynamic", "-fnon-call-exceptions"}, source("frames.cc")...),
		segment: compile(t, gcc, []string{"-O1"}, source("segment.c")...),
		plugin:  compile(t, gcc, []string{"-shared", "-fPIC"}, source("plugin.c")...),
		audit:   compile(t, gcc, []string{"-shared", "-fPIC"}, source("audit.c")...),
		before:  compile(t, gcc, []string{"-shared", "-fPIC"}, source("before.c")...),
	}
	o.dir = observerDir(t)
	o.void = filepath.Join(o.dir, "void")
	if err := os.Mkdir(o.void, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]*string{"observe": &o.program, "frames": &o.frames, "segment": &o.segment, "plugin.so": &o.plugin, "before.so": &o.before, "audit.so": &o.audit} {
		to := filepath.Join(o.dir, name)
		if err := os.Rename(*file, to); err != nil {
			t.Fatal(err)
		}
		*file = to
	}
	return o
}

// observerDir is a directory that every user may read: t.TempDir is not.
func observerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dynprof-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scene is a row: a program run without the library and with it.
type scene struct {
	name string
	// args is the command. What stands before "@" is run as it is, without the
	// library; OBSERVE is the program.
	args string
	env  []string
	in   string
	// preload is a library of the user's own.
	preload string
	// limit: a difference that the documents tell of.
	limit string
	// calls of step in all processes: steps if it is 0.
	calls int
	// refused: nothing is counted, and the library says one line with this. If
	// calls is uncertain it may be counted just as well.
	refused string
	// how the library comes in: all unless it is set.
	only  string // "run" or "preload"
	needs []func(*testing.T)
	// edit takes away from the output what no two runs have in common.
	edit func(string) string
}

// scenes is the table.
func (o *observer) scenes() []scene {
	user := []func(*testing.T){needsRoot}
	spaces := []func(*testing.T){needsNamespaces}
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
		{name: "signals", args: "OBSERVE signals"},
		{name: "signals, some ignored", args: "env --ignore-signal=CHLD,HUP,USR1,PIPE,RTMIN @ OBSERVE signals", limit: "hotspots run must wait for its child, so SIGCHLD is not ignored"},
		{name: "signals, some blocked", args: "env --block-signal=CHLD,TERM,USR2,RTMAX @ OBSERVE signals"},
		{name: "limits", args: "prlimit --nofile=100:200 --core=0:1000 --stack=4000000:8000000 --nproc=1000:2000 @ OBSERVE limits"},
		{name: "process", args: "OBSERVE process one 'two three'"},
		{name: "process, controlled", args: "OBSERVE -controls @ OBSERVE process", only: "preload"}, // a subreaper's child is none
		{name: "process on one core", args: "taskset 1 nice -n 5 @ OBSERVE process"},
		{name: "process with an unknown child", args: "OBSERVE -with-child @ OBSERVE adopts", only: "preload", calls: 2 * steps},
		{name: "heap", args: "OBSERVE heap"},
		{name: "heap, fixed addresses", args: "setarch -R @ OBSERVE heap"},
		{name: "children's resources", args: "OBSERVE children", limit: "the planner's time and memory show"},
		{name: "closing all", args: "OBSERVE closing", calls: 4 * steps},

		// What a program does.
		{name: "signalfd, sigwait, sigtimedwait", args: "OBSERVE waiting", calls: 4 * steps},
		{name: "own fault handler", args: "OBSERVE faults", calls: 4 * steps},
		{name: "kill of the own group", args: "OBSERVE groups", calls: 2 * steps},
		{name: "kill of the own session", args: "setsid -w @ OBSERVE groups", calls: 2 * steps},
		{name: "chroot", args: "OBSERVE jail " + o.void, calls: 14 * steps, needs: user},
		{name: "raw setresuid", args: "OBSERVE rights", calls: 2 * steps, needs: user},
		{name: "unshare user namespace", args: "OBSERVE user-namespace", calls: 2 * steps, needs: spaces},
		{name: "no new privileges, not dumpable", args: "OBSERVE undumpable", calls: 14 * steps},
		{name: "text that cannot be written", args: "OBSERVE -deny-patches OBSERVE -deny-execute @ OBSERVE undumpable", refused: "cannot be made writable"},
		{name: "limits of its own", args: "OBSERVE limited", calls: 25 * steps},
		{name: "no address space left", args: "OBSERVE cramped", calls: 3 * steps},
		{name: "seccomp strict", args: "OBSERVE strict", calls: 2 * steps},
		{name: "seccomp filter: write and exit only", args: "OBSERVE sandbox", calls: 2 * steps},
		{name: "seccomp filter, TSYNC: 1 thread", args: "OBSERVE sandbox-threads 1", calls: 6 * steps, limit: seccompLimit},
		{name: "seccomp filter, TSYNC: 40 threads", args: "OBSERVE sandbox-threads 40", calls: 84 * steps, limit: seccompLimit},
		{name: "seccomp filter: a child", args: "OBSERVE sandbox-forks 1", calls: 2 * steps, limit: seccompLimit},
		{name: "seccomp filter: 12 children", args: "OBSERVE sandbox-forks 12", calls: 13 * steps, limit: seccompLimit},
		{name: "generated code", args: "OBSERVE generates", calls: 2 * steps},
		{name: "text made writable", args: "OBSERVE opens-text", calls: 2 * steps},
		{name: "longjmp and coroutines", args: "OBSERVE jumps", calls: 2 * steps},
		{name: "small stacks, big TLS", args: "OBSERVE threads", calls: 7 * steps},
		{name: "asynchronous cancellation", args: "OBSERVE cancels", calls: uncertain},
		{name: "own use of GS", args: o.segment, calls: uncertain, refused: "GS"},
		{name: "order of constructors and atexit", args: "OBSERVE order", env: []string{"OBSERVE_ORDER=1"}, calls: 3 * steps},
		{name: "plugin", args: "OBSERVE plugin " + o.plugin},
		{name: "plugin, bound at start", args: "OBSERVE plugin " + o.plugin, env: []string{"LD_BIND_NOW=1"}},
		{name: "IFUNC of the program", args: "OBSERVE indirect"},
		{name: "SIGPIPE", args: "OBSERVE pipes"},
		{name: "input to its end", args: "OBSERVE echo", in: "one\ntwo\n", calls: 2 * steps},
		{name: "exceptions, backtraces, thread_local", args: o.frames, calls: 100*10 + 4},
		{name: "exception that nobody catches", args: "timeout 20 @ " + o.frames + " why", calls: uncertain},
		{name: "exception from a handler of a fault", args: "timeout 20 @ " + o.frames + " fault", calls: uncertain, limit: "stubs have no unwind data"},

		// Processes that start others.
		{name: "daemon", args: "OBSERVE -reap @ OBSERVE daemonizes", calls: 4 * steps},
		{name: "execs itself", args: "OBSERVE chain 3"},
		{name: "vfork, posix_spawn, system, popen", args: "OBSERVE starts", calls: steps + 1},
		{name: "SIGCHLD", args: "OBSERVE announced", calls: 4 * steps},
		{name: "subreaper", args: "OBSERVE adopts", calls: 2 * steps},

		// Where a program runs.
		{name: "another user", args: "setpriv --reuid 65534 --regid 65534 --clear-groups @ OBSERVE process", needs: user},
		{name: "another user without capabilities", args: "setpriv --reuid 65534 --bounding-set=-all --no-new-privs @ OBSERVE limited", needs: user, calls: 25 * steps},
		{name: "user namespace", args: "unshare -U @ OBSERVE process", needs: spaces},
		{name: "user namespace as root", args: "unshare -Ur @ OBSERVE undumpable", needs: spaces, calls: 14 * steps},
		{name: "PID 1", args: "unshare -Urpf --mount-proc @ OBSERVE adopts", needs: spaces, only: "preload", calls: 2 * steps},
		{name: "PID 1 below hotspots", args: "unshare -Urpf --mount-proc @ OBSERVE starts", needs: spaces, only: "run", calls: steps + 1},
		{name: "nohup", args: "nohup @ OBSERVE signals"},
		{name: "setsid", args: "setsid -w @ OBSERVE process", only: "preload"}, // hotspots would be the parent
		{name: "timeout", args: "timeout 100 @ OBSERVE process"},
		{name: "fixed addresses", args: "setarch -R @ OBSERVE limited", calls: 25 * steps},
		{name: "PR_SET_MDWE", args: "OBSERVE -mdwe @ OBSERVE undumpable", needs: []func(*testing.T){o.needMDWE}, calls: 14 * steps},
		{name: "write and execute denied by seccomp", args: "OBSERVE -deny-execute @ OBSERVE undumpable", calls: 14 * steps},
		{name: "few descriptors", args: "prlimit --nofile=12:12 @ OBSERVE undumpable", calls: 14 * steps},
		{name: "four descriptors", args: "prlimit --nofile=4:4 @ OBSERVE undumpable", only: "preload", refused: "too many open files"},
		{name: "no /proc", args: "unshare -Urm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh @ OBSERVE undumpable", needs: spaces, refused: "is /proc mounted?"},
		{name: "no process more", args: "setpriv --reuid 65531 --regid 65531 --clear-groups prlimit --nproc=1 @ OBSERVE echo", needs: user, only: "preload", refused: "process limit"},
		{name: "no process more, by its own limit", args: "setpriv --reuid 65532 --regid 65532 --clear-groups @ OBSERVE one-process", needs: user, only: "preload", calls: 2 * steps},
		{name: "little address space", args: "prlimit --as=50000000:50000000 @ OBSERVE echo", only: "preload", refused: "resource limit"},
		{name: "little address space, soft limit", args: "prlimit --as=50000000: @ OBSERVE echo", only: "preload", calls: 2 * steps},
		{name: "no file may grow", args: "prlimit --fsize=0:0 @ OBSERVE limited", only: "preload", refused: "too large"},
		{name: "no file may grow, soft limit", args: "prlimit --fsize=0: @ OBSERVE limited", only: "preload", calls: 25 * steps},
		{name: "the message finds a full file", args: "prlimit --fsize=0:0 sh -c 'exec \"$@\" 2>" + o.dir + "/full' sh @ OBSERVE echo", only: "preload", calls: uncounted},
		{name: "the message finds a broken pipe", args: "OBSERVE -broken-stderr prlimit --nofile=4:4 @ OBSERVE echo", only: "preload", calls: uncounted},
		{name: "strace -f", args: "strace -f -o /dev/null @ OBSERVE starts", only: "preload", calls: steps + 1},
		{name: "valgrind", args: "valgrind -q --tool=none --trace-children=yes @ OBSERVE echo", only: "preload", calls: uncertain}, // its launcher is the first program
		{name: "LD_AUDIT", args: "OBSERVE starts", env: []string{"LD_AUDIT=" + o.audit}, calls: steps + 1},
		{name: "small stack", args: "prlimit --stack=65536:65536 @ OBSERVE jumps", only: "preload", calls: 2 * steps},
		{name: "old layout of the address space", args: "setarch -L @ OBSERVE limited", calls: 25 * steps},
		{name: "all memory executable", args: "setarch -X @ OBSERVE undumpable", calls: 14 * steps},
		{name: "little data", args: "prlimit --data=3000000:3000000 @ OBSERVE echo", only: "preload", refused: "resource limit"},
		{name: "directory that is gone", args: "sh -c 'cd $(mktemp -d) && rmdir $PWD && exec \"$@\"' sh @ OBSERVE limits"},
		{name: "umask of nothing", args: "sh -c 'umask 777; exec \"$@\"' sh @ OBSERVE process"},
		{name: "bound at start", args: "OBSERVE starts", env: []string{"LD_BIND_NOW=1"}, calls: steps + 1},
	}
}

// TestTransparent: a program cannot tell that it is counted, and does what it
// did.
func TestTransparent(t *testing.T) {
	o := buildObserver(t)
	for _, s := range o.scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, check := range s.needs {
				check(t)
			}
			before, after := o.words(t, s.args)
			do := func(with ...string) result {
				return s.run(t, slices.Concat(before, with, after))
			}
			without := do()
			if slices.Contains([]int{2, 77, 126, 127}, without.status) {
				t.Fatalf("the row does not run: %+v", without)
			}
			for _, way := range o.ways(t, s.preload) {
				if s.only == "" || s.only == way.name {
					s.compare(t, way.name+" "+way.objects, without, do(way.args...), way.table)
				}
			}
		})
	}
}

func (s *scene) run(t *testing.T, args []string) result {
	t.Helper()
	need(t, args[0])
	c := command{args: args, env: s.env, stdin: s.in}
	if s.preload != "" {
		c.env = append(c.env, "LD_PRELOAD="+s.preload)
	}
	r := run(t, c)
	if s.edit != nil {
		r.stdout = s.edit(r.stdout)
	}
	return r
}

// compare fails unless the program did the same with the library, and was
// counted.
func (s *scene) compare(t *testing.T, how string, without, with result, table string) {
	t.Run(how, func(t *testing.T) {
		if s.refused != "" && (s.calls != uncertain || with.stderr != without.stderr) {
			if list := tables(t, table); len(list) != 0 {
				t.Errorf("there is %v", list)
			}
			if line := with.stderr; strings.Count(line, "\n") != 1 || !strings.Contains(line, s.refused) {
				t.Errorf("stderr is not one line about %s: %q", s.refused, line)
			}
			with.stderr = without.stderr
			same(t, without, with)
			return
		}
		if s.limit != "" && (without.stdout != with.stdout || without.status != with.status) {
			t.Skip("known difference: " + s.limit)
		}
		same(t, without, with)
		if s.calls == uncounted {
			if list := tables(t, table); len(list) != 0 {
				t.Errorf("there is %v", list)
			}
			return
		}
		if len(tables(t, table)) != 1 {
			t.Fatalf("%d tables", len(tables(t, table)))
		}
		r := readReport(t, tables(t, table)[0])
		want := s.calls
		if want == 0 {
			want = steps
		}
		if want > 0 {
			if n := r.calls(t, "step"); n != uint64(want) {
				t.Errorf("step: %d calls, not %d", n, want)
			}
		}
	})
}

// way is one way to bring the library into a program.
type way struct {
	name, objects string
	args          []string // before the program's
	table         string   // directory of it
}

// ways: a library of the user's stands before ours, then behind it.
func (o *observer) ways(t *testing.T, users string) (ways []way) {
	t.Helper()
	for _, objects := range []string{"", "all"} {
		preload := build(t, "libdynprof.so")
		if users != "" && objects == "" {
			preload = users + ":" + preload
		} else if users != "" {
			preload += ":" + users
		}
		for _, name := range []string{"run", "preload"} {
			dir, err := os.MkdirTemp(o.dir, "table")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "table")
			args := []string{"env", "DYNPROF_OUTPUT=" + file, "DYNPROF_OBJECTS=" + objects, "LD_PRELOAD=" + preload}
			if name == "run" {
				args = []string{build(t, "hotspots"), "run", "--summary", "0", "--objects", objects, "-o", file, "--"}
			}
			ways = append(ways, way{name, objects, args, dir})
		}
	}
	return ways
}

// TestTransparentFollowExec: our variables stay, for what the program executes.
func TestTransparentFollowExec(t *testing.T) {
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

// TestTransparentDebugger: gdb stops where it would, with the same backtrace.
func TestTransparentDebugger(t *testing.T) {
	gdb := need(t, "gdb")
	o := buildObserver(t)
	debug := func(more ...string) result {
		args := []string{gdb, "-batch", "-nx", "-q", "-ex", "set startup-with-shell off", "-ex", "set style enabled off"}
		args = append(append(args, more...), "-ex", "break await", "-ex", "run starts", "-ex", "bt", "-ex", "delete", "-ex", "continue", o.program)
		r := run(t, cmd(args...))
		r.stdout = regexp.MustCompile(`(?m)^(\[|Setting ).*\n|0x[0-9a-f]+`).ReplaceAllString(r.stdout, "")
		return r
	}
	without := debug()
	if !strings.Contains(without.stdout, "#0 ") || !strings.Contains(without.stdout, "nobody is left") {
		t.Fatalf("gdb did not do what the test wants: %+v", without)
	}
	for _, w := range o.ways(t, "") {
		if w.name == "preload" {
			t.Run("objects "+w.objects, func(t *testing.T) {
				with := debug("-ex", "set environment LD_PRELOAD "+build(t, "libdynprof.so"),
					"-ex", "set environment DYNPROF_OUTPUT "+w.table+"/table", "-ex", "set environment DYNPROF_OBJECTS "+w.objects)
				same(t, without, with)
				if n := readReport(t, w.table+"/table").calls(t, "step"); n != steps+1 {
					t.Errorf("step: %d calls", n)
				}
			})
		}
	}
}

// TestTransparentSignals: hotspots run passes signals on, and its status is the
// program's.
func TestTransparentSignals(t *testing.T) {
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

func tables(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// words splits a command at spaces, but for those in single quotes, and at
// "@".
func (o *observer) words(t *testing.T, args string) (before, after []string) {
	t.Helper()
	for _, w := range regexp.MustCompile(`'[^']*'|[^ ]+`).FindAllString(args, -1) {
		switch w {
		case "@":
			before, after = after, nil
			continue
		case "OBSERVE":
			w = o.program
		}
		after = append(after, strings.Trim(w, "'"))
	}
	return before, after
}

func sorted(out string) string {
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may do this")
	}
}

func needsNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(need(t, "unshare"), "-Ur", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespaces here: %s", out)
	}
}

func (o *observer) needMDWE(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(o.program, "-mdwe", "true").CombinedOutput(); err != nil {
		t.Skipf("no PR_SET_MDWE in this kernel: %s", out)
	}
}
