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

// dump runs the program until it dies of a fault, and returns its core.
func dump(t *testing.T, args ...string) string {
	t.Helper()
	if pattern := strings.TrimSpace(read(t, "/proc/sys/kernel/core_pattern")); strings.HasPrefix(pattern, "|") || strings.Contains(pattern, "/") {
		t.Skipf("cores go to %s on this machine", pattern)
	}
	dir := t.TempDir()
	c := cmd(append([]string{"sh", "-c", `ulimit -c unlimited || exit 77; exec "$@"`, "sh"}, args...)...)
	c.dir = dir
	r := run(t, c)
	cores, _ := filepath.Glob(filepath.Join(dir, "core*"))
	if r.status == 77 || len(cores) != 1 {
		t.Skipf("no core here: status %d, %v %s", r.status, cores, r.stderr)
	}
	return cores[0]
}

// backtrace is that of a core, without addresses, as a debugger shows it behind
// all that it says at its start.
func backtrace(t *testing.T, program, core string, debugger ...string) string {
	t.Helper()
	args := append(debugger, "-batch", "-nx", "-q", "-ex", "set debuginfod enabled off", "-ex", "echo begin\\n", "-ex", "bt", program, core)
	r := run(t, cmd(args...))
	_, out, _ := strings.Cut(r.stdout, "begin\n")
	if out == "" {
		t.Errorf("%v: %s%s", args, r.stdout, r.stderr)
	}
	return regexp.MustCompile(`0x[0-9a-f]+`).ReplaceAllString(out, "N")
}

// TestCores: the core of a counted program shows what that of the program alone
// does, wherever in a stub the fault was.
func TestCores(t *testing.T) {
	lane.Parallel(t)
	gdb, gcc := need(t, "gdb"), need(t, "gcc")
	program := compile(t, gcc, []string{"-O1", "-fno-optimize-sibling-calls"}, "cores.c")
	hotspots := build(t, "hotspots")
	for _, where := range []string{"whole", "pushes", "carries", "calls", "jumps"} {
		want := backtrace(t, program, dump(t, program, where), gdb)
		if !strings.Contains(want, where) || !strings.Contains(want, "main") {
			t.Fatalf("without the library: %s", want)
		}
		for _, flags := range lane.Some(variants, 3) {
			args := append(append([]string{hotspots, "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags...), "--", program, where)
			if got := backtrace(t, program, dump(t, args...), hotspots, "gdb"); got != want {
				t.Errorf("%s %v: %s", where, flags, difference(want, got))
			}
		}
		preload := []string{"env", "LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table"), program, where}
		if got := backtrace(t, program, dump(t, preload...), hotspots, "gdb"); got != want {
			t.Errorf("%s, preloaded: %s", where, difference(want, got))
		}
	}
}

// TestCoresWithout: what is no core, or of no counted program, is said in one line,
// and gdb runs all the same.
func TestCoresWithout(t *testing.T) {
	lane.Parallel(t)
	gdb, gcc := need(t, "gdb"), need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "cores.c")
	core := dump(t, program, "whole")
	hotspots, out := build(t, "hotspots"), filepath.Join(t.TempDir(), "stubs")
	for _, row := range []struct{ of, says string }{
		{program, "is no core"}, {core, "nothing in it was counted"}, {"/void", "no such file"}, {"2147483647", "no such file"},
	} {
		r := run(t, cmd(hotspots, "symbols", "-o", out, row.of))
		if r.status != 1 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, row.says) {
			t.Errorf("symbols of %s: status %d: %s", row.of, r.status, r.stderr)
		}
	}
	if want, got := backtrace(t, program, core, gdb), backtrace(t, program, core, hotspots, "gdb"); got != want {
		t.Error(difference(want, got))
	}
}

var resident = regexp.MustCompile(`(?m)^.*\?\? \(\) from .*/libdynprof\.so\n`)

// TestCoresSteps: gdb on a process, at each of many instructions of the program, of
// stubs, and behind a kernel site, finds the functions from main on.
func TestCoresSteps(t *testing.T) {
	lane.Parallel(t)
	need(t, "gdb")
	program := compile(t, need(t, "gcc"), []string{"-O1", "-fno-optimize-sibling-calls"}, "cores.c")
	for _, objects := range []string{"", "all"} {
		e := exec.Command(program, "spins")
		table := filepath.Join(t.TempDir(), "table")
		e.Env = append(os.Environ(), "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, "DYNPROF_OBJECTS="+objects)
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Process.Kill() })
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // until it spins
			if run(t, cmd(build(t, "hotspots"), "report", table)).status == 0 && readReport(t, table).calls(t, "main") > 0 {
				break
			} else if time.Now().After(end) {
				t.Fatal("it does not start")
			}
		}
		const steps = 600
		commands := filepath.Join(t.TempDir(), "commands")
		text := "set debuginfod enabled off\necho begin\\n\ntbreak 'syscall@plt'\ncontinue\n" + strings.Repeat("stepi\nbt\n", steps)
		if err := os.WriteFile(commands, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, cmd(build(t, "hotspots"), "gdb", "-batch", "-nx", "-q", "-p", fmt.Sprint(e.Process.Pid), "-x", commands))
		e.Process.Kill()
		e.Wait()
		_, out, begun := strings.Cut(r.stdout, "begin\n")
		if strings.Contains(r.stderr, "Operation not permitted") && !begun {
			t.Skip("gdb may not debug here: " + r.stderr)
		}
		out = resident.ReplaceAllString(out, "") // has no symbols, and unwinds
		if n := strings.Count(out, " main ()\n"); n < steps || strings.Contains(out, "??") || !strings.Contains(out, "stub of whole ()") || !strings.Contains(r.stdout, "/libdynprof.so\n#1 ") {
			t.Errorf("objects %q: %d of %d backtraces begin in main:\n%s%s", objects, n, steps, out, r.stderr)
		}
	}
}
