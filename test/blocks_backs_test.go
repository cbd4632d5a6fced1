package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// The functions of backs.S. All have copies.
const backsOnly = "^(jcc|jmp|both|loops|tight|calls|parted|throws|behindlock|added|entered|enters)"

// compileBacks compiles backs.cc.
func compileBacks(t *testing.T, flags ...string) string {
	return compile(t, need(t, "g++"), append(flags, "-O2", "-pthread"), "backs.cc", "backs.S")
}

// backsRuns is what callgrind says of backs.cc. An instruction with a lock prefix has the runs of
// those who jump behind it, too.
func backsRuns(t *testing.T, p string, times int) map[uint64]uint64 {
	t.Helper()
	runs := callgrindRuns(t, p, "once", fmt.Sprint(times))[p]
	both := maps.Clone(runs)
	for at, n := range runs {
		if code := codeOf(t, p, at-1); code != nil && code[0] == 0xf0 {
			both[at-1] += n
		}
	}
	return both
}

// TestBlocksBacks: functions that loop back between their first bytes, where a jump to the copy
// lies, have copies, and each of their blocks runs as often as callgrind says: whatever jumps
// there, with calls in the loop, and behind exceptions.
func TestBlocksBacks(t *testing.T) {
	lane.Parallel(t)
	const times = 3
	for i, build := range [][]string{nil, {"-no-pie"}, {"-static"}} {
		if i > 0 && !lane.Long {
			break
		}
		p := compileBacks(t, build...)
		want, native := backsRuns(t, p, times), run(t, cmd(p, "once", fmt.Sprint(times)))
		flags := [][]string{{"--blocks"}, {"--blocks", "--edges"}, {"--blocks", "--control"}, {"--blocks", "--lock"}, {"--blocks", "--objects", "all"}, {"--trips"}}
		for _, f := range lane.Some(flags, 0, 2) {
			if i == 2 && f[0] == "--trips" {
				continue // they take the library
			}
			table := filepath.Join(t.TempDir(), "table")
			got := runsWithBlocks(t, table, append(f, "--only", backsOnly), p, "once", fmt.Sprint(times))
			same(t, native, got)
			sameOf(t, runsOf(t, table), want)
			allHaveBlocks(t, table)
		}
	}
}

func runsWithBlocks(t *testing.T, table string, flags []string, args ...string) result {
	t.Helper()
	return run(t, cmd(slices.Concat([]string{build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", table}, flags, []string{"--"}, args)...))
}

// allHaveBlocks fails where the blocks of some functions of backs.S are not counted.
func allHaveBlocks(t *testing.T, path string) {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	has := map[uint32]int{}
	for i := range blocks {
		has[blocks[i].Function]++
	}
	n := 0
	for i := range tab.Functions {
		f := &tab.Functions[i]
		if !f.Counted() {
			continue
		}
		n++
		if has[uint32(i)] == 0 {
			t.Errorf("%s has no blocks", f.Name)
		}
	}
	if n < 40 {
		t.Errorf("%d functions are counted", n)
	}
}

// TestAttachBacks: so it is when the program is attached to, detached from, and attached to again,
// while threads on cores of their own are in such loops, and handlers interrupt them.
func TestAttachBacks(t *testing.T) {
	lane.Parallel(t)
	const times = 3
	p := compileBacks(t)
	want := backsRuns(t, p, times)
	for _, flags := range lane.Some([][]string{{"--blocks"}, {"--blocks", "--edges"}, {"--blocks", "--control"}}, 0) {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			a := startAttached(t, p)
			table := a.attach(append(flags, "--only", backsOnly)...)
			sum := a.computes(times)
			a.detach()
			sameOf(t, runsOf(t, table), want)
			allHaveBlocks(t, table)
			if again := a.computes(times); again != sum {
				t.Errorf("it says %s, and then %s", sum, again)
			}
			a.endsRight()

			threads := startAttached(t, p, "2", "signals")
			for range lane.Of(4, 40) {
				threads.attach(append(flags, "--only", backsOnly)...)
				if got := threads.computes(times); got != sum {
					t.Errorf("with threads it says %s, not %s", got, sum)
				}
				threads.detach()
			}
			threads.endsRight()
		})
	}
}

// TestBlocksBacksStruck: threads on cores of their own are right while handlers interrupt them,
// which see no address but the program's, and while counting is paused and goes on.
func TestBlocksBacksStruck(t *testing.T) {
	lane.Parallel(t)
	p := compileBacks(t)
	for _, flags := range lane.Some([][]string{{"--blocks", "--control"}, {"--blocks"}, {"--blocks", "--lock"}, {"--blocks", "--edges", "--control"}}, 0) {
		table := filepath.Join(t.TempDir(), "table")
		r := converseAttached(t, exec.Command(build(t, "hotspots"), slices.Concat([]string{"run", "--strict", "--summary", "0", "-o", table}, flags, []string{"--", p, "4", "signals"})...))
		sum := r.computes(3)
		for range lane.Of(5, 100) {
			if slices.Contains(flags, "--control") {
				r.asks("pause", table)
				r.computes(3)
				r.asks("resume", table)
			}
			if again := r.computes(3); again != sum {
				t.Errorf("it says %s, and then %s", sum, again)
			}
		}
		r.endsRight()
	}
}

// TestBlocksReasons: of each function whose blocks are not counted it is said why: in reports, by
// annotate and show, and in the coverage.
func TestBlocksReasons(t *testing.T) {
	lane.Parallel(t)
	p, hotspots := compileBacks(t), build(t, "hotspots")
	type reason struct {
		flags   []string
		why, of string // of a function that runs
	}
	for _, c := range lane.Some([]reason{
		{[]string{"--blocks=jcc*", "--objects", "main"}, "not-selected", "tight"},
		{[]string{"--blocks", "--objects", "all"}, "kernel-site", "_exit"},
	}, 0) {
		table := filepath.Join(t.TempDir(), "table")
		for range 2 { // the second has the plan of the first, where that is kept
			if r := runsWithBlocks(t, table, c.flags, p, "once", "1"); r.status != 0 {
				t.Fatalf("%+v", r)
			}
			var report struct {
				WithoutBlocks int            `json:"without_blocks"`
				BlocksReasons map[string]int `json:"blocks_reasons"`
				Functions     []struct {
					Calls        uint64
					Instructions *uint64
					Why          string `json:"blocks_reason"`
				}
			}
			if err := json.Unmarshal([]byte(run(t, cmd(hotspots, "report", "--format", "json", table)).stdout), &report); err != nil {
				t.Fatal(err)
			}
			by, without := map[string]int{}, 0
			for _, f := range report.Functions {
				if (f.Why == "") != (f.Instructions != nil) && f.Calls > 0 {
					t.Errorf("%v: %+v", c.flags, f)
				}
				if f.Calls > 0 && f.Instructions == nil {
					by[f.Why]++
					without++
				}
			}
			if without != report.WithoutBlocks || !maps.Equal(by, report.BlocksReasons) || by[c.why] == 0 {
				t.Errorf("%v: %d functions, %v; in all %d, %v", c.flags, without, by, report.WithoutBlocks, report.BlocksReasons)
			}
		}
		for what, want := range map[string][]string{
			fmt.Sprintf("blocks are not counted (%s)", c.why): {"annotate", c.of, table},
			fmt.Sprintf("not counted (%s)", c.why):            {"show", c.of, table},
			c.why + " ":                                       {"coverage", table},
			" whose blocks are not counted: ":                 {"report", table},
		} {
			if r := run(t, cmd(append([]string{hotspots}, want...)...)); !strings.Contains(r.stdout+r.stderr, what) {
				t.Errorf("%v: %q is not in %+v", want, what, r)
			}
		}
	}
}
