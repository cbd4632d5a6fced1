package test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestByProgram: of a run of several programs it is shown how often each ran, and its calls.
func TestByProgram(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	r := run(t, cmd(hotspots, "run", "--follow-exec", "--objects", "all", "-o", filepath.Join(dir, "%e.%p.dynprof"), "--", "/bin/sh", "-c", "/bin/true; /bin/true; /bin/true; /bin/false; exit 0"))
	if r.status != 0 || !regexp.MustCompile(`(?s) FUNCTION\n.* RUNS +PROGRAM\n.* 3  \S+/true\n`).MatchString(r.stderr) {
		t.Errorf("%+v", r)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.dynprof"))
	if err != nil || len(tables) != 5 {
		t.Fatalf("%v %v", tables, err)
	}
	var list struct {
		TotalCalls uint64 `json:"total_calls"`
		Programs   []struct {
			Program string
			Runs    int
			Calls   uint64
		}
	}
	if err := json.Unmarshal([]byte(run(t, cmd(append([]string{hotspots, "report", "--by", "program", "--format", "json"}, tables...)...)).stdout), &list); err != nil {
		t.Fatal(err)
	}
	total, runs := uint64(0), map[string]int{}
	for i, p := range list.Programs {
		if total += p.Calls; i > 0 && p.Calls > list.Programs[i-1].Calls {
			t.Errorf("%+v", list.Programs)
		}
		runs[filepath.Base(p.Program)] = p.Runs
	}
	if total != list.TotalCalls || runs["true"] != 3 || runs["false"] != 1 || len(runs) != 3 {
		t.Errorf("%+v", list)
	}
	for _, args := range [][]string{{"--by", "program"}, {"--by", "program", "--format", "csv"}} {
		r := run(t, cmd(append(append([]string{hotspots, "report"}, args...), tables...)...))
		if r.status != 0 || !regexp.MustCompile(`(?m)(^|  3  )\S+/true(,3,\d+)?$`).MatchString(r.stdout) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
