package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// manyShort is a script that executes true and false many times, true with a child that does,
// too, and that goes on as another program at the end.
const manyShort = "i=0; while [ $i -lt 40 ]; do /bin/true; /bin/false; (/bin/true; /bin/expr $i + 1 >/dev/null); i=$((i+1)); done; exec /bin/echo done"

// TestFolded: of a run that executes many short programs one table is left of each, with the
// same counts as those of each process have together, function by function, and what each
// process called.
func TestFolded(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	counts := map[string]map[string]uint64{}
	for name, row := range map[string]struct {
		flags  []string
		tables int
	}{
		"apart":  {[]string{"--fold", "0"}, 162},
		"folded": {nil, 5}, // true, false, expr, sh, echo
	} {
		dir := t.TempDir()
		args := append([]string{hotspots, "run", "--follow-exec", "--objects", "all", "-o", filepath.Join(dir, "%e.%p.dynprof")}, row.flags...)
		r := run(t, cmd(append(args, "--", "/bin/sh", "-c", manyShort)...))
		if r.status != 0 || r.stdout != "done\n" {
			t.Fatalf("%+v", r)
		}
		for _, want := range []string{"80  /usr/bin/true\n", "40  /usr/bin/false\n", "40  /usr/bin/expr\n", " and 161 more, "} {
			if !strings.Contains(strings.ReplaceAll(r.stderr, "  /bin/", "  /usr/bin/"), want) {
				t.Errorf("%s: no %q in\n%s", name, want, r.stderr)
			}
		}
		tables, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(tables) != row.tables {
			t.Errorf("%s: %d tables, not %d: %v", name, len(tables), row.tables, tables)
		}
		counts[name] = sumsOf(t, tables)
		all := run(t, cmd(append([]string{hotspots, "report", "--by", "process", "--format", "csv"}, tables...)...))
		lines := strings.Split(strings.TrimSpace(all.stdout), "\n")
		if all.status != 0 || len(lines) != 1+162+40 { // with what the shell has forked
			t.Errorf("%s: %d lines of processes, %+v", name, len(lines), all)
		}
	}
	for k, n := range counts["apart"] {
		if counts["folded"][k] != n {
			t.Errorf("%s: %d calls, and %d folded", k, n, counts["folded"][k])
		}
	}
	if len(counts["apart"]) != len(counts["folded"]) || len(counts["apart"]) < 50 {
		t.Errorf("%d functions called, and %d folded", len(counts["apart"]), len(counts["folded"]))
	}
}

// sumsOf are the calls of each function in all tables together.
func sumsOf(t *testing.T, tables []string) map[string]uint64 {
	t.Helper()
	var r struct {
		TotalCalls uint64 `json:"total_calls"`
		Functions  []struct {
			Object, Function string
			Address          string
			Calls            uint64
		}
	}
	out := run(t, cmd(append([]string{build(t, "hotspots"), "report", "--format", "json"}, tables...)...))
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	all, sum := map[string]uint64{}, uint64(0)
	for _, f := range r.Functions {
		if sum += f.Calls; f.Calls > 0 {
			all[fmt.Sprint(f.Object, " ", f.Address, " ", f.Function)] += f.Calls
		}
	}
	if sum != r.TotalCalls {
		t.Errorf("%d calls of functions, %d in all", sum, r.TotalCalls)
	}
	return all
}
