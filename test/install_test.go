package test

import (
	"os"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestSelftest: what is built here counts exactly in all its ways, whatever the user has
// set, and leaves nothing behind.
func TestSelftest(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	c := cmd(build(t, "hotspots"), "selftest")
	c.env = []string{"TMPDIR=" + dir, "DYNPROF_ONLY=nothing", "DYNPROF_OBJECTS=libc.so.6"}
	r := run(t, c)
	if r.status != 0 || r.stderr != "" || !strings.HasSuffix(r.stdout, "all 13 ways to count are exact\n") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
