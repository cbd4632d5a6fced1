package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// gdb runs a session, one command a line, in gdb. What has addresses or process
// numbers in it is edited.
func gdb(t *testing.T, session string, args ...string) string {
	t.Helper()
	c := []string{need(t, "gdb"), "-batch", "-nx", "-q"}
	session = "set startup-with-shell off\nset breakpoint pending on\nset width 0\nset debuginfod enabled off\n" + session
	for _, line := range strings.Split(strings.TrimSpace(session), "\n") {
		c = append(c, "-ex", line)
	}
	r := run(t, cmd(append(c, args...)...))
	if strings.Contains(r.stderr, "ptrace: Operation not permitted") {
		t.Skip("gdb may not debug here: " + r.stderr)
	}
	out := regexp.MustCompile(`(?m)^(Using host |\[Thread debugging|\[Detaching).*\n`).ReplaceAllString(r.stdout, "")
	return regexp.MustCompile(`0x[0-9a-f]+|process \d+`).ReplaceAllString(out, "N")
}

// inGdb are gdb's commands that bring the library in.
func inGdb(t *testing.T, table string) string {
	t.Helper()
	return fmt.Sprintf("set environment LD_PRELOAD %s\nset environment DYNPROF_OUTPUT %s\n", build(t, "libdynprof.so"), table)
}

// Sessions that stop at entries, step, and go on. Those that step by line are
// for programs with lines.
const (
	gdbBefore = "break leaf\nbreak none\nbreak sum\nrun\nbt\ncontinue\nbt\nfinish\nSTEP\nnext\ncontinue\nbt\ninfo breakpoints\ndelete\ncontinue\n"
	gdbAfter  = "break main\nrun\nbreak leaf\nbreak none\nbreak sum\ncontinue\nbt\ncontinue\nbt\nfinish\nSTEP\nnext\ncontinue\nbt\ndelete\ncontinue\n"
	gdbLines  = "break middle\nrun\nbt\nstep\nbt\nstep\nstep\nnext\nnext\ninfo locals\nstepi\nstepi\ndelete\n" +
		"break sum if n == 8\ncontinue\nuntil\nnext\nfinish\nnext\ntbreak leaf\ncontinue\ncall deep(2)\nup\ninfo locals\ndelete\ncontinue\n"
)

// TestGdb: a session in gdb is the same with the library, with breakpoints set
// before the start, over which the library must not write, and after it.
// Functions whose lines gdb knows are left to it, all others counted.
func TestGdb(t *testing.T) {
	lane.Parallel(t)
	for _, build := range lane.Some([]string{
		"gcc -O0", "gcc -O2 -fcf-protection=full -no-pie", "clang -O1",
		"gcc -O0 -g", "gcc -O2 -g", "clang -O2 -g",
	}, 1, 4) {
		t.Run(build, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(build)
			lines := strings.HasSuffix(build, "-g")
			p := compile(t, need(t, words[0]), words[1:], "debugged.c")
			sessions, step := []string{gdbBefore, gdbAfter}, "nexti"
			if lines {
				sessions, step = []string{gdbBefore, gdbAfter, gdbLines}, "step"
			}
			for i, session := range sessions {
				session = strings.ReplaceAll(session, "STEP", step)
				table := filepath.Join(t.TempDir(), "table")
				without := gdb(t, session, p)
				with := gdb(t, inGdb(t, table)+"set environment DYNPROF_OBJECTS all\n"+session, p)
				if with != without || !strings.Contains(without, "Breakpoint 1,") {
					t.Errorf("session %d: %s", i, difference(without, with))
				}
				checkDebugged(t, readReport(t, table), lines, i == 0)
			}
		})
	}
}

// TestGdbUnknownLines: lines that the planner cannot read are taken to be everywhere.
func TestGdbUnknownLines(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O0", "-g", "-Wl,--compress-debug-sections=zstd"}, "debugged.c")
	table := filepath.Join(t.TempDir(), "table")
	gdb(t, inGdb(t, table)+"run\n", p)
	checkDebugged(t, readReport(t, table), true, false)
}

// checkDebugged: what gdb had its breakpoints in before the start is left, and
// what it knows the lines of.
func checkDebugged(t *testing.T, r *report, lines, before bool) {
	t.Helper()
	for _, name := range []string{"leaf", "none", "sum", "middle", "deep"} {
		f := r.named(t, name)
		switch {
		case lines:
			if f.Reason != "debugged" {
				t.Errorf("%+v: gdb knows its lines", f)
			}
		case before && (name == "leaf" || name == "none" || name == "sum"):
			if f.Tactic == "none" && f.Reason != "bytes-changed" {
				t.Errorf("%+v: gdb's breakpoint is in it", f)
			}
		case f.Tactic == "none" || f.Calls == 0 && name == "deep":
			t.Errorf("%+v: not counted", f)
		}
	}
}

// TestGdbAttach: gdb comes when the program runs, with jumps in its entries; calls still
// go by way of them, as a program needs to which a debugger is to be attached.
func TestGdbAttach(t *testing.T) {
	lane.Parallel(t)
	const session = "break leaf\nbreak none\nbreak sum\ncontinue\nbt\ncontinue\nbt\nfinish\nnexti\ncontinue\nbt\ndelete\ncontinue\n"
	for _, flags := range []string{"-O0", "-O2 -g"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			p := compile(t, need(t, "gcc"), strings.Fields(flags), "debugged.c")
			attach := func(env ...string) string {
				e := exec.Command(p, "wait")
				e.Env = append(os.Environ(), env...)
				if err := e.Start(); err != nil {
					t.Fatal(err)
				}
				defer e.Wait()
				defer time.AfterFunc(patience, func() { e.Process.Kill() }).Stop()
				awaitSleep(t, e.Process.Pid, p)
				out := gdb(t, session, "-p", fmt.Sprint(e.Process.Pid))
				_, out, _ = strings.Cut(out, "Breakpoint 3 at") // before it is where it waits
				return out
			}
			table := filepath.Join(t.TempDir(), "table")
			without, with := attach(), attach("LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, "DYNPROF_KEEP_CALLS=1")
			if without != with || !strings.Contains(without, "Breakpoint 2") {
				t.Errorf("%s", difference(without, with))
			}
			r := readReport(t, table)
			for name, want := range map[string]uint64{"leaf": 6, "sum": 3, "none": 3, "middle": 3} {
				if n := r.calls(t, name); n != want && flags == "-O0" || n == 0 {
					t.Errorf("%s: %d calls, not %d", name, n, want)
				}
			}
		})
	}
}

// awaitSleep waits until process pid has come to the wait in main.
func awaitSleep(t *testing.T, pid int, program string) {
	t.Helper()
	for range 10000 {
		where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if exe == program && strings.Contains(string(where), "nanosleep") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s does not come to wait", program)
}

// TestGdbDebian: breakpoints at functions of a program as Debian ships it, before
// the start and when it runs.
func TestGdbDebian(t *testing.T) {
	lane.Parallel(t)
	lua, script := need(t, "lua5.4"), filepath.Join(t.TempDir(), "script")
	write(t, script, "print(#('x'):rep(7))", 0o600)
	for name, session := range map[string]string{
		"before": "break luaL_newstate\nbreak lua_pushstring\nbreak lua_gettop\nrun\nbt 3\ncontinue\nbt 3\nfinish\nnexti\ndelete\ncontinue\n",
		"after":  "break luaL_newstate\nrun\nbreak lua_gettop\nbreak lua_pushstring\ncontinue\nbt 3\nfinish\nnexti\ncontinue\nbt 3\ndelete\ncontinue\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := filepath.Join(t.TempDir(), "table")
			args := []string{"--args", lua, script}
			without := gdb(t, session, args...)
			with := gdb(t, inGdb(t, table)+session, args...)
			if without != with || !strings.Contains(without, "exited normally") {
				t.Errorf("%s", difference(without, with))
			}
			if n := readReport(t, table).TotalCalls; n < 1000 {
				t.Errorf("%d calls", n)
			}
		})
	}
}
