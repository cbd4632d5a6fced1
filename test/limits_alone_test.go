package test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAlone: where hotspots itself gets no threads, no descriptors or no memory the
// program runs all the same, uncounted, and one line says so.
func TestAlone(t *testing.T) {
	lane.Parallel(t)
	noclone := compile(t, need(t, "gcc"), nil, "noclone.c")
	dir := observerDir(t)
	for _, row := range []struct {
		name, why string
		root      bool
		before    []string
	}{
		{"SCHED_DEADLINE", "no more threads", true, []string{"chrt", "-d", "-T", "1000000", "-P", "10000000", "0"}},
		{"no clone", "no more threads", false, []string{noclone}},
		{"no process", "no more threads", true, limited("-u 1")},
		{"some processes", "no more threads", true, limited("-u 8")},
		{"address space", "too little address space", false, limited("-v 300000")},
		{"data", "too little address space", false, limited("-d 50000")},
		{"little data", "too little address space", false, limited("-d 2000")},
		{"few descriptors", "too few descriptors", false, limited("-n 7")},
		{"hardly any", "too few descriptors", false, limited("-n 4")},
		{"few in a cgroup", "no more threads", true, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.root {
				rootOnly(t, "may not be allowed")
			}
			start := row.before
			if strings.Contains(row.name, "process") {
				start = append(nobody(t, dir).args, row.before...)
			}
			if start == nil {
				start = inPidsCgroup(t, 12)
			}
			need(t, start[0])
			in := func(args ...string) result {
				return run(t, command{before: start, args: args, dir: "/", env: []string{"PATH=/proc/nonexistent::/usr/bin:/bin"}})
			}
			program := []string{"sh", "-c", "echo out; echo err >&2; exit 7"}
			without := in(program...)
			if without.status != 7 {
				t.Skipf("not here: %+v", without)
			}
			hotspots := build(t, "hotspots")
			for _, flags := range [][]string{{"--"}, nil, {"-o", filepath.Join(dir, "t"), "--lock", "--only=f", "--summary", "0"}} {
				with := in(append(append([]string{hotspots, "run"}, flags...), program...)...)
				line, rest, _ := strings.Cut(with.stderr, "\n")
				if !strings.Contains(line, "nothing is counted: ") || !strings.Contains(line, row.why) {
					t.Errorf("%q: the line is not about %q", line, row.why)
				}
				with.stderr = rest
				same(t, without, with)
			}
			for status, args := range map[int][]string{
				125: {"run", "--strict", "--", "sh"}, 127: {"run", "--", "no-such-program"}, 126: {"run", "--", "/etc/passwd"}, 1: {"report"},
			} {
				if r := in(append([]string{hotspots}, args...)...); r.status != status || strings.Contains(r.stderr, "goroutine") {
					t.Errorf("%q: status %d, not %d: %s", args, r.status, status, r.stderr)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "t")); err == nil {
		t.Error("there is a table")
	}
}

// TestFewDescriptors: where there are enough for hotspots to start, and too few for what it is
// asked for, the program runs all the same.
func TestFewDescriptors(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots := need(t, "gcc"), build(t, "hotspots")
	program := filepath.Join(t.TempDir(), "ends.c")
	if err := os.WriteFile(program, []byte(`#include <stdio.h>
int main(void) { puts("runs"); return 7; }`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range lane.Some([]string{"-pie", "-static"}, 0, 1) {
		runs := filepath.Join(t.TempDir(), "ends")
		run(t, cmd(gcc, link, "-o", runs, program))
		for _, files := range []string{"8", "9", "10", "12"} {
			for _, flag := range lane.Some([]string{"--follow-exec", "--time", "--threshold=5"}, 0, 1) {
				table := filepath.Join(t.TempDir(), "%p")
				r := run(t, command{before: limited("-n " + files), args: []string{hotspots, "run", flag, "--summary", "0", "-o", table, "--", runs}})
				if r.status != 7 || r.stdout != "runs\n" {
					t.Errorf("%s, %s, %s descriptors: %+v", link, flag, files, r)
				}
			}
		}
	}
}

// limited runs what follows with a limit of bash's ulimit.
func limited(limit string) []string {
	return []string{"bash", "-c", "ulimit " + limit + `; exec "$@"`, "bash"}
}

// inPidsCgroup runs what follows in a cgroup that may have so many threads.
func inPidsCgroup(t *testing.T, most int) []string {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup/pids/", "/sys/fs/cgroup/"} {
		dir, err := os.MkdirTemp(at, "dynprof-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(most)), 0) == nil {
			return []string{"bash", "-c", "echo $$ >" + dir + `/cgroup.procs && exec "$@"`, "bash"}
		}
	}
	t.Skip("no pids cgroups on this machine")
	return nil
}

// TestAbide: where there is no reason to fear for threads, and still none are left when
// the program runs, hotspots waits for it without its runtime, and passes on what is
// sent.
func TestAbide(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "may not make cgroups")
	const most, left = 1100, 7 // more than launch.fewTasks; fewer than hotspots needs
	full := compile(t, need(t, "gcc"), []string{"-O1"}, "full.c")
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "table")
	run(t, cmd(hotspots, "run", "--summary", "0", "-o", table+".first", "--", "true")) // the library has its place now
	const script = `trap "echo got; exit 3" TERM; kill -TERM $PPID; i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done; exit 4`
	r := run(t, command{before: inPidsCgroup(t, most), args: []string{full, strconv.Itoa(left), hotspots, "run", "-o", table, "--", "sh", "-c", script}})
	if r.status != 3 || r.stdout != "got\n" || !strings.Contains(r.stderr, "no summary: no more threads") {
		t.Errorf("%+v", r)
	}
}
