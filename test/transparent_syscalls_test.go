package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestBehindCalls: rcx leads behind the program's system call, wherever that is made.
func TestBehindCalls(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct {
		build []string
		ways  [][]string
	}{
		{[]string{"-O1"}, [][]string{nil, {"--blocks"}, {"--lock"}}},
		{[]string{"-O1", "-static"}, [][]string{nil}},
	} {
		program := compile(t, need(t, "gcc"), row.build, "behindcall.c")
		without := run(t, cmd(program))
		if strings.Count(without.stdout, " 0\n") != 18 {
			t.Fatal(without.stdout)
		}
		for _, flags := range row.ways {
			args := append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags...)
			same(t, without, run(t, cmd(append(args, "--", program)...)))
		}
	}
}
