package test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRunGoFollows: what a static Go program executes, which makes all system calls at one place,
// is counted with --follow-exec, whatever it is, and told of without. It sees nothing of it.
func TestRunGoFollows(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	const each = 1000 // mixture.c, gocalls
	hotspots, program := build(t, "hotspots"), goStatic(t, "testdata/gocalls")
	others := []string{program, compileWith(t, []string{"gcc", "-O1", "-static"}, "mixture.c"), compileWith(t, musl, "mixture.c"), compileWith(t, []string{"gcc", "-O1"}, "mixture.c")}
	args := append([]string{program}, others...)
	for range lane.Of(1, 3) {
		args = append(args, others...)
	}
	executed, ways := len(args)-1, 2
	without := run(t, cmd(args...))
	t.Run("followed", func(t *testing.T) {
		tables := t.TempDir()
		with := run(t, cmd(append([]string{hotspots, "run", "--follow-exec", "--fold", "0", "--summary", "0", "-o", filepath.Join(tables, "%e.%p"), "--"}, args...)...))
		told := strings.Count(with.stderr, "not counted: ") + strings.Count(with.stderr, "nothing is counted: ")
		with.stderr = notOurs(with.stderr) // who was not asked in time runs uncounted, and it is said
		same(t, without, with)
		all, err := filepath.Glob(filepath.Join(tables, "*"))
		if err != nil {
			t.Fatal(err)
		}
		counted := map[uint64]int{}
		for _, table := range all {
			r := readReport(t, table)
			name := "work"
			if r.Program == program {
				name = "main.work"
			}
			counted[r.calls(t, name)]++
		}
		own, want := uint64(executed*ways), executed*ways+1
		if counted[own] != 1 || counted[each]+told != want || len(counted) != 2 {
			t.Errorf("%d programs with %d calls, not %d, %d were told of; and %v (calls: processes)", counted[each], each, want, told, counted)
		}
	})
	t.Run("told", func(t *testing.T) {
		table := filepath.Join(t.TempDir(), "table")
		same(t, without, run(t, cmd(append([]string{hotspots, "run", "--summary", "0", "-o", table, "--"}, args...)...)))
		r := readReport(t, table)
		if calls, all := r.calls(t, "main.work"), executed*ways+1; r.Executed != all || calls != uint64(executed*ways) {
			t.Errorf("%d programs, not %d; %d calls", r.Executed, all, calls)
		}
	})
}

// TestRunGoForks: processes that a static Go program makes, sharing nothing, count in rows of
// their own.
func TestRunGoForks(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	const children, each = 10, 100000 // gocalls
	for kind, flags := range goKinds {
		t.Run(kind, func(t *testing.T) {
			program, table := goStatic(t, "testdata/gocalls", flags...), filepath.Join(t.TempDir(), "table")
			without := run(t, cmd(program, "forks"))
			same(t, without, run(t, cmd(build(t, "hotspots"), "run", "--strict", "--summary", "0", "--only", "main.work", "-o", table, "--", program, "forks")))
			if n := readReport(t, table).calls(t, "main.work"); n != 2*children*each {
				t.Errorf("%d calls, not %d", n, 2*children*each)
			}
			var r struct {
				Processes []struct{ Calls int }
			}
			out := run(t, cmd(build(t, "hotspots"), "report", "--by", "process", "--format", "json", table))
			if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
				t.Fatalf("%v: %s", err, out.stderr)
			}
			counted := map[int]int{}
			for _, p := range r.Processes {
				counted[p.Calls]++
			}
			if counted[each] != children || counted[children*each] != 1 {
				t.Errorf("%v (calls: processes)", counted)
			}
		})
	}
}

// TestRunGoFiltered: a static Go program that installs a filter which kills runs on, and is
// counted: from then on nothing of ours makes a system call that it would not.
func TestRunGoFiltered(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	const threads, each = 50, 1000 // gocalls
	program, table := goStatic(t, "testdata/gocalls"), filepath.Join(t.TempDir(), "table")
	without := run(t, cmd(program, "filtered"))
	same(t, without, run(t, cmd(build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", table, "--", program, "filtered")))
	if n := readReport(t, table).calls(t, "main.work"); n != threads*each {
		t.Errorf("%d calls, not %d", n, threads*each)
	}
}
