package test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestMlock: what is mapped besides the program does not count against its limit of
// locked memory, and is not locked.
func TestMlock(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot set limits and become another user")
	gcc := need(t, "gcc")
	dir := observerDir(t)
	p := copyFile(t, compile(t, gcc, []string{"-O1"}, "mlock.c"), filepath.Join(dir, "mlock"))
	library := copyFile(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"), filepath.Join(dir, "late.so"))
	size, err := strconv.Atoi(strings.TrimSpace(run(t, cmd(p, "size")).stdout))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		args  []string
		steps uint64
	}{
		{"enough", []string{"all", strconv.Itoa(size + 512)}, 1000 + 100},
		{"too little", []string{"all", strconv.Itoa(size / 2)}, 1000 + 100},
		{"none", []string{"all", "0"}, 1000 + 100},
		{"much", []string{"all", strconv.Itoa(size + (64 << 10))}, 1000 + 100},
		{"all rights", []string{"rich", strconv.Itoa(size + 512)}, 1000 + 100},
		{"all rights, a library", []string{"rich", strconv.Itoa(size + (16 << 10)), library}, 1000 + 100},
	} {
		t.Run(row.name, func(t *testing.T) {
			inVariants(t, cmd(append([]string{p}, row.args...)...), func(t *testing.T, r *report) {
				if n := r.calls(t, "step"); n != row.steps {
					t.Errorf("step: %d calls, not %d", n, row.steps)
				}
				if n := r.late(library, "late_step"); len(row.args) > 2 && n != 100 {
					t.Errorf("late_step: %d calls, not 100", n)
				}
			})
		})
	}
}
