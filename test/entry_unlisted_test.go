package test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestUnlisted: coverage says how much code there is that no object has, of
// ours there is none.
func TestUnlisted(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "unlisted.c")
	hotspots := build(t, "hotspots")
	for name, flags := range map[string][]string{
		"default": nil, "all": {"--objects", "all"}, "kept calls": {"--keep-calls"}, "lock": {"--lock"},
		"all, controlled": {"--objects", "all", "--threshold", "1000", "--control"},
	} {
		t.Run(name, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table")
			r := startSignalled(t, slices.Concat([]string{hotspots, "run", "--summary", "0", "-o", table}, flags, []string{"--", program})...)
			var c struct {
				CodeAnonymous uint64 `json:"code_anonymous"`
				CodeInFiles   uint64 `json:"code_in_files"`
			}
			out := run(t, cmd(hotspots, "coverage", "--format", "json", table))
			if err := json.Unmarshal([]byte(out.stdout), &c); err != nil {
				t.Fatalf("%v: %s", err, out.stderr)
			}
			if c.CodeAnonymous != 3<<20 || c.CodeInFiles != 65536 {
				t.Errorf("%+v", c)
			}
			const line = "3072 KiB mapped of no file, 64 KiB of files that the dynamic linker has not loaded"
			if text := run(t, cmd(hotspots, "coverage", table)).stdout; !strings.Contains(text, line) {
				t.Errorf("no line: %s", text)
			}
			if got := r.end(); got != "0" {
				t.Errorf("status %s", got)
			}
		})
	}
}
