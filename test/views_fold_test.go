package test

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestFoldedExport: the tables of a run are exported while it goes on and tables are folded
// into others, whose names are gone then.
func TestFoldedExport(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	c := exec.Command(hotspots, "run", "--follow-exec", "--summary", "0", "-o", filepath.Join(dir, "%e.%p.dynprof"), "--",
		"/bin/sh", "-c", "read go; i=0; while [ $i -lt 20 ]; do i=$((i+1)); /bin/true; /bin/false; /usr/bin/expr $i + 1 >&2; done; echo done; read end; exit 0")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	shell := ""
	for until := time.Now().Add(patience); shell == ""; time.Sleep(10 * time.Millisecond) { // the shell waits
		if time.Now().After(until) {
			t.Fatal("the shell has no table")
		}
		if all, _ := filepath.Glob(filepath.Join(dir, "*.dynprof")); len(all) == 1 && run(t, cmd(hotspots, "report", all[0])).status == 0 {
			shell = all[0]
		}
	}
	done := make(chan bool)
	go func() {
		line := make([]byte, 5)
		_, err := io.ReadFull(stdout, line)
		done <- err == nil && string(line) == "done\n"
	}()
	io.WriteString(stdin, "go\n")
	for going := true; going; {
		for _, format := range []string{"folded", "openmetrics", "csv", "parquet"} {
			r := run(t, cmd(hotspots, "export", "--run", "--format", format, shell, "-o", filepath.Join(dir, "out."+format)))
			if r.status != 0 || r.stderr != "" {
				t.Errorf("%s: %+v", format, r)
			}
		}
		select {
		case ok := <-done:
			if going = false; !ok {
				t.Error("the program has not said that it is done")
			}
		default:
		}
	}
	stdin.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*.dynprof")); len(all) != 4 { // sh, true, false, expr
		t.Errorf("%d tables are left: %v", len(all), all)
	}
}
