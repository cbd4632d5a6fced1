package test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// observing is what report says of a bound.
type observing struct {
	Bound, Share  float64
	Cost          uint64 `json:"cost_ns"`
	Time          uint64 `json:"cpu_ns"`
	Hot, Observed int
}

// TestBlocksOverhead: within a bound functions are observed by turns, while threads of two
// processes come by. Calls are exact, and instructions those of the calls that were observed.
func TestBlocksOverhead(t *testing.T) {
	lane.Parallel(t)
	file := buildSwitched(t)
	all := runSwitched(t, []string{file, "main", "100"}, "--blocks")
	for _, one := range []struct{ mode, bound string }{{"observed", "100%"}, {"turns", "2%"}} {
		got := runSwitched(t, []string{file, one.mode, "50"}, "--overhead", one.bound)
		n := got["middle"].calls
		for name, times := range map[string]int64{"leaf": 5, "pointed": 1, "middle": 1, "jumps": 1} {
			if f := got[name]; f.calls != times*n || f.observed > f.calls {
				t.Errorf("%s: %s has %d calls of %d, %d observed", one.bound, name, f.calls, times*n, f.observed)
			}
		}
		f, each := got["leaf"], eachCall(t, all, "leaf")
		if f.instructions != f.observed*each || f.observed == 0 || one.mode == "turns" && f.observed == f.calls {
			t.Errorf("%s: leaf has %d instructions of %d of %d calls, %d each", one.bound, f.instructions, f.observed, f.calls, each)
		}
		for _, name := range []string{"middle", "pointed", "main"} {
			if f := got[name]; f.instructions >= 0 {
				t.Errorf("%s: %s, which calls others, has a copy: %+v", one.bound, name, f)
			}
		}
	}
}

// TestBlocksOverheadPaused: calls that main makes while counting is not paused are counted, and
// leaf's instructions are those of the calls that were observed, while main pauses and resumes
// and the agent turns.
func TestBlocksOverheadPaused(t *testing.T) {
	lane.Parallel(t)
	const pauses, own = 40, 100
	file := buildSwitched(t)
	all := runSwitched(t, []string{file, "main", "100"}, "--blocks")
	got := runSwitched(t, []string{file, "pauses", "20000"}, "--overhead", "100%", "--threshold", "10")
	if f := got["alone"]; f.calls != pauses*own {
		t.Errorf("alone has %d calls, not %d", f.calls, pauses*own)
	}
	if f, each := got["leaf"], eachCall(t, all, "leaf"); f.instructions >= 0 && f.instructions != f.observed*each {
		t.Errorf("leaf: %+v, %d instructions each", f, each)
	}
}

// TestBlocksOverheadLate: functions of a library that is loaded later are observed, too, each
// time that it is.
func TestBlocksOverheadLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-Wall", "-Werror", "-shared", "-fPIC"}, "overheadlatelib.c")
	program := compile(t, gcc, []string{"-O1", "-Wall", "-Werror", "-pthread", "-I../libdynprof"}, "overheadlate.c")
	table := filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(build(t, "hotspots"), "run", "--overhead", "100%", "--summary", "0", "-o", table, "--", program, library)); r.status != 0 || r.stdout+r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	tab, flow := flowOf(t, table)
	loaded := 0
	for i := range flow.Blocks {
		b := &flow.Blocks[i]
		if f := &tab.Functions[b.Function]; tab.Objects[f.Object].Path != library || f.Name != "late_leaf" || b.Flags&layout.BlockEntry == 0 {
			continue
		}
		if loaded++; b.Runs == 0 {
			t.Errorf("nothing of late_leaf was observed, number %d", loaded)
		}
		if n, some := flow.Observed(b.Function); some && n != b.Runs {
			t.Errorf("its entry ran %d times in %d calls that were observed", b.Runs, n)
		}
	}
	if loaded != 2 {
		t.Errorf("late_leaf was loaded %d times, not twice", loaded)
	}
}

// TestBlocksOverheadTold: report says what observing cost, by estimate, and of what.
func TestBlocksOverheadTold(t *testing.T) {
	lane.Parallel(t)
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "table")
	r := run(t, cmd(hotspots, "run", "--overhead", "100%", "-o", table, "--", buildSwitched(t), "observed", "50"))
	if r.status != 0 || !strings.Contains(r.stderr, "of CPU time by estimate, of 100%; ") {
		t.Fatalf("%+v", r)
	}
	var got struct{ Observing *observing }
	r = run(t, cmd(hotspots, "report", "--format", "json", table))
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	o := got.Observing
	if o == nil {
		t.Fatalf("%s", r.stdout)
	}
	if o.Bound != 1 || o.Cost == 0 || o.Time == 0 || o.Hot == 0 || o.Observed == 0 || o.Observed > o.Hot {
		t.Errorf("%+v", *o)
	}
	if r = run(t, cmd(hotspots, "export", "--format", "folded", table)); !strings.Contains(r.stderr, "instructions of some calls only") {
		t.Errorf("export does not say that these are some: %s", r.stderr)
	}
}

// TestBlocksOverheadRefused: what is no bound, and what does not go with one.
func TestBlocksOverheadRefused(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	for _, one := range []struct{ args, says string }{
		{"--overhead 0%", `--overhead: "0%" is not a share of CPU time from 0.1% to 100%`},
		{"--overhead 101%", "from 0.1% to 100%"},
		{"--overhead 0.05%", "with one decimal at most"},
		{"--overhead x", "is not a share"},
		{"--overhead 5% --trips", "do not go with --overhead"},
		{"--overhead 5% --edges", "do not go with --overhead"},
	} {
		args := append(append([]string{hotspots, "run"}, strings.Fields(one.args)...), "--", "true")
		if r := run(t, cmd(args...)); r.status != 125 || !strings.Contains(r.stderr, one.says) {
			t.Errorf("%s: %+v", one.args, r)
		}
	}
	for env, says := range map[string]string{"DYNPROF_OVERHEAD=7x": "DYNPROF_OVERHEAD", "DYNPROF_OVERHEAD=5%,DYNPROF_TRIPS=1": "do not go with"} {
		c := cmd("true")
		c.env = append([]string{"LD_PRELOAD=" + build(t, "libdynprof.so")}, strings.Split(env, ",")...)
		if r := run(t, c); r.status != 0 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %+v", env, r)
		}
	}
}
