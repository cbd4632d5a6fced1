package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// scarce tries attach, and detach from who is attached to, each by a command that has too little
// of something. Whatever becomes of it the program goes on, counted wholly or not at all, and
// nothing is left in the end.
func scarce(t *testing.T, a *attached, before, what string, how func(args ...string) command) (r result) {
	t.Helper()
	for _, does := range []string{"attach", "detach"} {
		args := []string{build(t, "hotspots"), does, a.pid()}
		if does == "detach" {
			os.Remove(a.attach())
		} else {
			args = []string{build(t, "hotspots"), does, "-o", "table", a.pid()}
		}
		r = run(t, how(args...))
		if r.status > 2 {
			t.Errorf("%s, %s: status %d: %s", does, what, r.status, r.stderr)
		}
		if r.status == 1 && (strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "hotspots: ")) {
			t.Errorf("%s, %s: %s", does, what, r.stderr)
		}
		a.goesOn()
		if d := a.hotspots("detach"); d.status != 0 && !strings.Contains(d.stderr, "is not attached to") {
			t.Errorf("detach, after %s: status %d: %s", what, d.status, d.stderr)
		}
		if now := a.state(); now != before {
			t.Fatalf("after %s, %s, something is left: %q: %s", does, what, r.stderr, difference(before, now))
		}
		if does == "attach" && r.status != 0 {
			return r
		}
	}
	return r
}

// TestAttachScarce: there is too little of something for hotspots.
func TestAttachScarce(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4")
	before, dir := a.state(), openDir(t)
	const mounts = `mount -t tmpfs -o size=%dk none . && cd "$PWD"`
	for _, row := range []struct {
		name, limit string
		values      []int
	}{
		{"files of a size", "ulimit -f %d", []int{0, 1, 100, 100000, 10000000}},
		{"descriptors", "ulimit -n %d", []int{3, 5, 7, 9, 11, 13, 15}},
		{"address space", "ulimit -v %d", []int{100000, 1300000, 600000, 1000000, 1100000, 1200000, 1250000, 1350000, 1400000, 1600000, 2000000}},
		{"a file system", mounts, []int{4, 100, 40, 200, 300, 1000}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var apart []string
			if row.limit == mounts {
				rootOnly(t, "cannot mount")
				apart = []string{need(t, "unshare"), "-m"}
			}
			status := map[int]int{}
			for _, value := range lane.Some(row.values, 1) {
				limit := fmt.Sprintf(row.limit, value)
				status[value] = scarce(t, a, before, limit, func(args ...string) command {
					os.Remove(filepath.Join(dir, "table"))
					return command{before: append(apart, "sh", "-c", limit+` && exec "$@"`, "sh"), args: args, dir: dir}
				}).status
			}
			t.Logf("status: %v", status)
		})
	}
	a.endsInterrupted() // one that has too little memory dies at any moment
}

// TestAttachFails: each of its system calls fails once, of those that take something.
func TestAttachFails(t *testing.T) {
	lane.Parallel(t)
	strace := need(t, "strace")
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c")
	for _, row := range lane.Some([][]string{{"pwrite64", "ENOSPC"}, {"fallocate", "ENOSPC"}, {"ftruncate", "EFBIG"}, {"memfd_create", "EMFILE"}, {"write", "ENOSPC"}, {"openat", "EMFILE"}, {"pread64", "EIO"}}, 0, 1) {
		call, failure := row[0], row[1]
		t.Run(call, func(t *testing.T) {
			a := startAttached(t, p, "4")
			before, dir := a.state(), t.TempDir()
			failed := 0
			for n := 1; n < 1000 && !t.Failed(); n += lane.Of(29, 11) {
				log := filepath.Join(dir, "log")
				scarce(t, a, before, fmt.Sprintf("%s %d", call, n), func(args ...string) command {
					return command{dir: dir, args: append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=" + call,
						"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, failure, n)}, args...)}
				})
				if !strings.Contains(read(t, log), "(INJECTED)") {
					break
				}
				failed++
			}
			t.Logf("%d calls have failed", failed)
			a.endsInterrupted()
		})
	}
}
