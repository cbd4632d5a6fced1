package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRunMuslInitialisers: a program of musl is counted from its libraries' initialisers on. If a
// library is missing it says so, once.
func TestRunMuslInitialisers(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	library, table := filepath.Join(dir, "libinitial.so"), filepath.Join(dir, "table")
	if err := os.Rename(compileWith(t, append(musl, "-shared", "-fPIC"), "initialiserslib.c"), library); err != nil {
		t.Fatal(err)
	}
	for _, flags := range lane.Some([][]string{{}, {"-no-pie", "-fno-pie"}}, 0) {
		program := compileWith(t, append(append(musl, library), flags...), "initialisers.c")
		counted := cmd(hotspots, "run", "--summary", "0", "-o", table, "--", program)
		without := run(t, cmd(program))
		same(t, without, run(t, counted))
		r := readReport(t, table)
		for object, calls := range map[string]map[string]uint64{
			program: {"of_program": 1001, "begins": 1, "main": 1},
			library: {"of_library": 1002, "inner": 1002, "library_begins": 1},
		} {
			for function, want := range calls {
				if n := r.late(object, function); n != want {
					t.Errorf("%s was called %d times, not %d", function, n, want)
				}
			}
		}
		if r.ObjectsMissed != 0 {
			t.Errorf("missed: %+v", r.Missed)
		}
		if err := os.Rename(library, library+"-"); err != nil {
			t.Fatal(err)
		}
		without = run(t, cmd(program))
		with := run(t, counted)
		oneLine(t, strings.Replace(with.stderr, without.stderr, "", 1), "has ended before the first instruction of its program", "")
		with.stderr = without.stderr
		same(t, without, with)
		if err := os.Rename(library+"-", library); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunOutsideKilled: hotspots is killed in front of its nth system call of a kind, and the
// program runs as ever, or was not executed.
func TestRunOutsideKilled(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	strace, hotspots, dir := need(t, "strace"), build(t, "hotspots"), t.TempDir()
	for _, how := range lane.Some([][]string{musl, {"gcc", "-O1", "-static"}}, 0) {
		program, made := compileWith(t, how, "victim.c"), filepath.Join(dir, "made")
		want := run(t, cmd(program, made)).stdout
		os.Remove(made)
		for _, call := range lane.Some([]string{"ptrace", "pwrite64"}, 0, 1) {
			for n, killed := 1, true; killed && !t.Failed(); n += lane.Of(13, 5) {
				r := run(t, cmd(strace, "-qq", "-o", "/dev/null", "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n),
					hotspots, "run", "--summary", "0", "-o", filepath.Join(dir, fmt.Sprint(n)), "--", program, made))
				os.Remove(made)
				killed = r.status == 128+int(syscall.SIGKILL)
				if r.stdout != want && (r.stdout != "" || !killed) {
					t.Errorf("%v: killed at %s %d: status %d, output %q: %s", how, call, n, r.status, r.stdout, r.stderr)
				}
			}
		}
	}
}
