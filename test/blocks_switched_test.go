package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Blocks that are counted of some calls: of functions that are hot, and where counting is not
// paused (testdata/switched.c).

// switchedFunction is what is known of a function; instructions are -1 where they are not.
type switchedFunction struct {
	calls, instructions, observed int64
}

// runSwitched runs a command with these flags, and returns the executable's functions.
func runSwitched(t *testing.T, program []string, flags ...string) map[string]switchedFunction {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	args := append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table}, flags...)
	if r := run(t, cmd(append(append(args, "--"), program...)...)); r.status != 0 || r.stderr != "" {
		t.Fatalf("%v: status %d: %s%s", flags, r.status, r.stdout, r.stderr)
	} else if n := strings.Count(r.stdout, "\n"); program[1] != "main" && n > 0 {
		t.Errorf("%v: %s", flags, r.stdout)
	}
	var list struct {
		Functions []struct {
			Object, Name string
			Calls        int64
			Instructions *int64
			Observed     *int64 `json:"observed_calls"`
		}
	}
	if err := json.Unmarshal([]byte(run(t, cmd(build(t, "hotspots"), "report", "--format", "json", table)).stdout), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]switchedFunction{}
	for _, f := range list.Functions {
		if f.Object != program[0] || f.Calls == 0 {
			continue
		}
		one := switchedFunction{f.Calls, -1, f.Calls}
		if f.Instructions != nil {
			one.instructions = *f.Instructions
		}
		if f.Observed != nil {
			one.observed = *f.Observed
		}
		all[f.Name] = one
	}
	return all
}

// sameCalls compares the calls of functions.
func sameCalls(t *testing.T, what string, got, want map[string]switchedFunction) {
	t.Helper()
	for name, f := range want {
		if got[name].calls != f.calls {
			t.Errorf("%s: %s has %d calls, not %d", what, name, got[name].calls, f.calls)
		}
	}
}

// eachCall is how many instructions a call executes.
func eachCall(t *testing.T, all map[string]switchedFunction, name string) int64 {
	t.Helper()
	f := all[name]
	if f.instructions <= 0 || f.instructions%f.calls != 0 {
		t.Fatalf("%s: %d instructions in %d calls", name, f.instructions, f.calls)
	}
	return f.instructions / f.calls
}

func buildSwitched(t *testing.T) string {
	t.Helper()
	return compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-I../libdynprof"}, "switched.c")
}

// TestBlocksHot: with --blocks=hot calls are what they are without blocks, and instructions are
// those of the calls that were observed, which are all from the threshold on, or all.
func TestBlocksHot(t *testing.T) {
	lane.Parallel(t)
	const calls, threshold = 3000, 100
	program := []string{buildSwitched(t), "main", fmt.Sprint(calls)}
	plain, all := runSwitched(t, program), runSwitched(t, program, "--blocks")
	for _, one := range []struct {
		threshold string
		early     map[string]bool // observed from the first call on
	}{
		{fmt.Sprint(threshold), map[string]bool{}},
		{fmt.Sprintf("%d;jumps=1;middle=1;main=1", threshold), map[string]bool{"jumps": true, "middle": true, "main": true}},
	} {
		flags := []string{"--blocks=hot"}
		for _, rule := range strings.Split(one.threshold, ";") {
			flags = append(flags, "--threshold", rule)
		}
		hot := runSwitched(t, program, flags...)
		sameCalls(t, one.threshold, hot, plain)
		for _, name := range []string{"leaf", "pointed", "middle"} {
			f, each := hot[name], eachCall(t, all, name)
			before := int64(threshold)
			if one.early[name] {
				before = 0
			}
			if f.instructions != f.observed*each || f.observed < f.calls-before || before > 0 && f.observed == f.calls {
				t.Errorf("--threshold %s: %s has %d instructions of %d of %d calls, %d each", one.threshold, name, f.instructions, f.observed, f.calls, each)
			}
		}
		for name := range one.early {
			if hot[name] != all[name] {
				t.Errorf("--threshold %s: %s: %+v, not %+v", one.threshold, name, hot[name], all[name])
			}
		}
		if f := hot["main"]; !one.early["main"] && f.instructions >= 0 {
			t.Errorf("main, which is called once, has instructions: %+v", f)
		}
		if f := hot["deep"]; f.instructions >= 0 {
			t.Errorf("deep, which is called %d times, has instructions: %+v", f.calls, f)
		}
	}
}

// TestBlocksHotTold: views that cannot show of how many calls instructions are say so, or refuse.
func TestBlocksHotTold(t *testing.T) {
	lane.Parallel(t)
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(hotspots, "run", "--blocks=hot", "--summary", "0", "-o", table, "--", buildSwitched(t), "main", "2000")); r.status != 0 || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	for _, one := range []struct{ args, says string }{
		{"export --format folded", "instructions of some calls only"},
		{"annotate leaf", "of 10,002 calls observed"},
		{"report", "some calls only)"},
		{"loops", "in some calls only"},
		{"show leaf", "calls that were observed"},
		{"calls --function middle", "elsewhere"},
	} {
		args := strings.Fields(one.args)
		r := run(t, cmd(append(append([]string{hotspots}, args...), table)...))
		if r.status != 0 || !strings.Contains(r.stdout+r.stderr, one.says) {
			t.Errorf("%s does not say %q: %+v", one.args, one.says, r)
		}
	}
}

// TestBlocksHotThreads: functions become hot while threads on all cores, in two processes, come
// by. Each call is in one copy from its beginning to its end, but for those that were under way,
// of which what follows a call may be counted.
func TestBlocksHotThreads(t *testing.T) {
	lane.Parallel(t)
	const calls, threads, processes = 4000, 5, 2
	file := buildSwitched(t)
	all := runSwitched(t, []string{file, "main", "100"}, "--blocks")
	for _, threshold := range []int{1, 50, 2000} {
		hot := runSwitched(t, []string{file, "threads", fmt.Sprint(calls)}, "--blocks=hot", "--threshold", fmt.Sprint(threshold))
		for name, n := range map[string]int64{"leaf": 5*calls + 1, "pointed": calls, "middle": calls, "jumps": calls, "deep": 21} {
			f := hot[name]
			if f.calls != n*threads*processes {
				t.Errorf("threshold %d: %s has %d calls, not %d", threshold, name, f.calls, n*threads*processes)
			}
			if name == "deep" || name == "jumps" {
				continue // its calls differ
			}
			each := eachCall(t, all, name)
			under := int64(0) // calls that may have been under way, in which others return
			if name != "leaf" {
				under = threads * processes
			}
			if n := f.instructions - f.observed*each; n < 0 || n > under*each || f.observed < n-int64(threshold) {
				t.Errorf("threshold %d: %s has %d instructions of %d of %d calls, %d each", threshold, name, f.instructions, f.observed, f.calls, each)
			}
		}
	}
}

// TestBlocksPaused: a program pauses and resumes the counting, of blocks, too, while its threads
// run. Its own calls are counted exactly when it wants them to be.
func TestBlocksPaused(t *testing.T) {
	lane.Parallel(t)
	const calls, threads, pauses, own = 4000, 4, 40, 100
	file := buildSwitched(t)
	all := runSwitched(t, []string{file, "main", "100"}, "--blocks")
	for _, blocks := range []string{"--blocks", "--blocks=hot"} {
		got := runSwitched(t, []string{file, "pauses", fmt.Sprint(calls)}, blocks, "--control", "--threshold", "10")
		f, each := got["alone"], eachCall(t, all, "alone")
		if f.calls != pauses*own || f.instructions != f.observed*each || blocks == "--blocks" && f.observed != f.calls {
			t.Errorf("%s: alone: %+v, %d instructions each", blocks, f, each)
		}
		for _, name := range []string{"leaf", "middle", "pointed"} {
			f, each := got[name], eachCall(t, all, name)
			at := int64(threads * pauses) // calls that may have been on their way to their count, or under way
			if f.calls > int64(5*(threads+1)*calls+5*pauses*own) || f.instructions%each != 0 && name == "leaf" {
				t.Errorf("%s: %s: %+v, %d instructions each", blocks, name, f, each)
			}
			if n := f.instructions - f.observed*each; n < -2*at*each || n > 2*at*each {
				t.Errorf("%s: %s: %d instructions of %d of %d calls, %d each", blocks, name, f.instructions, f.observed, f.calls, each)
			}
		}
	}
}
