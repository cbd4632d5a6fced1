package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestFilters: what the library believes that a seccomp filter lets through is
// what the kernel says of it; at a mistake the program would be killed.
func TestFilters(t *testing.T) {
	lane.Parallel(t)
	judge := compile(t, need(t, "gcc"), []string{"-O1", "-I../libdynprof/resident"}, "filters.c")
	if r := run(t, cmd(judge, "2000", "1")); r.status != 0 {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
