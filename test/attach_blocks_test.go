package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// The functions of attachblocks.c that nobody else calls.
const blocksOnly = "^(vm|gotos|odd|even|pointers|recursive|leaps|caught|carries|compared|works)$"

// runsOf is how often each block has run, by address, of functions of attachblocks.c.
func runsOf(t *testing.T, path string) map[uint64]uint64 {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	runs := map[uint64]uint64{}
	for i := range blocks {
		if tab.Functions[blocks[i].Function].Name != "main" {
			runs[blocks[i].Address] = blocks[i].Runs
		}
	}
	return runs
}

// sameRuns compares them, and reports how many ran.
func sameRuns(t *testing.T, got, want map[uint64]uint64) {
	t.Helper()
	ran, wrong := 0, 0
	for at, n := range want {
		if got[at] == n {
			if n > 0 {
				ran++
			}
		} else if wrong++; wrong < 20 {
			t.Errorf("the block at %#x has run %d times, not %d", at, got[at], n)
		}
	}
	if ran < 40 || len(got) != len(want) {
		t.Errorf("%d blocks ran, of %d and %d", ran, len(got), len(want))
	}
}

// works has attachblocks.c work so often, and returns what it says.
func (a *attached) computes(times int) string {
	a.t.Helper()
	fmt.Fprintln(a.to, times)
	return a.line()
}

func (a *attached) endsRight() {
	a.t.Helper()
	fmt.Fprintln(a.to, "end")
	a.expect("wrong 0")
	a.ends()
}

// TestAttachBlocks: what a program does from when it is attached to until it is detached from is
// counted block by block as callgrind does, and so is who calls whom; it comes out as ever.
func TestAttachBlocks(t *testing.T) {
	lane.Parallel(t)
	const times = 3
	builds := [][]string{{"gcc", "-O2"}, {"gcc", "-O1", "-no-pie", "-fno-pie", "-static"}, {"clang", "-O2"}, {"gcc", "-O2", "-static-pie"}, {"musl-gcc", "-O2"}, {"musl-gcc", "-O1", "-static"}}
	for i, how := range builds {
		if !slices.Contains(lane.Some([]int{0, 1, 2, 3, 4, 5}, 0, 1), i) {
			continue
		}
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			p, dir := compileWith(t, how, "attachblocks.c"), t.TempDir()
			want := callgrindRuns(t, p, "once", fmt.Sprint(times))[p]
			for _, flags := range lane.Some([][]string{{"--blocks"}, {"--blocks", "--edges"}, {"--blocks", "--control"}, {"--blocks", "--lock"}}, 1) {
				t.Run(strings.Join(flags, " "), func(t *testing.T) {
					a := startAttached(t, p)
					if !slices.Contains(flags, "--lock") {
						before := a.state()
						table := a.attach(append(flags, "--only", blocksOnly)...)
						sum := a.computes(times)
						a.detach()
						sameOf(t, runsOf(t, table), want)
						if again := a.computes(times); again != sum {
							t.Errorf("it says %s, and then %s", sum, again)
						}
						if now := a.state(); now != before {
							t.Errorf("something is left: %s", difference(before, now))
						}
						a.endsRight()
					}
					table := filepath.Join(dir, "run")
					c := exec.Command(build(t, "hotspots"), slices.Concat([]string{"run", "--strict", "--summary", "0", "--only", blocksOnly, "-o", table}, flags, []string{"--", p})...)
					r := converseAttached(t, c)
					r.computes(times)
					r.endsRight()
					sameOf(t, runsOf(t, table), want)
				})
			}
		})
	}
}

// sameOf compares blocks with what callgrind says of their first instructions.
func sameOf(t *testing.T, got, want map[uint64]uint64) {
	t.Helper()
	of := map[uint64]uint64{}
	for at := range got {
		of[at] = want[at]
	}
	sameRuns(t, got, of)
}

// TestBlocksAimed: what a handler is shown between an instruction that reads a jump table and the
// jump is what the program's own table has, though the copy has one of its own. So who is detached
// from there, and who goes on there in another context, gets to where he has to.
func TestBlocksAimed(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-no-pie", "-fno-pie"}} {
		p := compile(t, need(t, "gcc"), flags, "aimed.c")
		without := run(t, cmd(p, "all"))
		for _, env := range lane.Some([][]string{nil, {"DYNPROF_CONTROL=1"}, {"DYNPROF_EDGES=1"}, {"DYNPROF_LOCK=1"}}, 0) {
			c := cmd(p, "all")
			c.env = append([]string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table"), "DYNPROF_BLOCKS=1", "DYNPROF_OBJECTS=main"}, env...)
			if with := run(t, c); with != without {
				t.Errorf("%v %v: %s", flags, env, difference(without.stdout+without.stderr, with.stdout+with.stderr))
			}
		}
	}
}

// TestAttachBlocksSaid: what blocks are not counted of, and what does not go with them, is said in
// a line.
func TestAttachBlocksSaid(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attachblocks.c"))
	oneSays := func(r result, status int, what string) {
		t.Helper()
		if r.status != status || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, what) {
			t.Errorf("status %d: %q, not a line about %s", r.status, r.stderr, what)
		}
	}
	if r := a.hotspots("attach", "--blocks=hot"); r.status != 2 || !strings.Contains(r.stderr, "only hotspots run") {
		t.Errorf("hot: %+v", r)
	}
	table := a.attach("--blocks=vm,works")
	oneSays(a.hotspots("pause"), 1, "--control")
	a.computes(3)
	a.detach()
	tab, blocks := blocksOf(t, table)
	for i := range blocks {
		if name := tab.Functions[blocks[i].Function].Name; name != "vm" && name != "works" {
			t.Fatalf("blocks of %s are counted", name)
		}
	}
	if r := a.hotspots("attach", "--blocks", "-o", table); r.status != 0 || !strings.Contains(r.stderr, "are not gone on with") {
		t.Errorf("once more, into the same table: %+v", r)
	}
	a.detach()
	a.endsRight()
	if !lane.Long {
		return
	}
	g := startAttached(t, goWaits(t))
	if r := g.hotspots("attach", "--blocks", "-o", filepath.Join(t.TempDir(), "table")); r.status != 0 || !strings.Contains(r.stderr, "without blocks: it has a Go runtime") {
		t.Errorf("a Go program: %+v", r)
	}
	g.detach()
	g.finish()
}

// TestAttachBlocksCycles: threads that compute the same thing again and again, in copies, at jumps
// by their tables, in counts that keep flags, in handlers, are right however often the program is
// attached to and detached from, and nothing is left.
func TestAttachBlocksCycles(t *testing.T) {
	lane.Parallel(t)
	cycles := cyclesOf(lane.Of(1, 12))
	for i, how := range [][]string{{"gcc", "-O2"}, {"gcc", "-O1", "-no-pie", "-fno-pie", "-static"}, {"clang", "-O2", "-fno-pie", "-no-pie"}, {"musl-gcc", "-O2", "-static"}} {
		if !lane.Long && i > 0 {
			break
		}
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			t.Parallel()
			a := startAttached(t, compileWith(t, how, "attachblocks.c"), "4", "signals")
			sum, before := a.computes(50), a.state()
			for n := range cycles {
				table := a.attach([][]string{{"--blocks"}, {"--blocks", "--edges"}, {"--blocks", "--control"}}[n%3]...)
				if n%3 == 2 {
					for _, what := range []string{"pause", "resume"} {
						if r := a.hotspots(what); r.status != 0 {
							t.Fatalf("%s: status %d: %s", what, r.status, r.stderr)
						}
					}
				}
				if n%4 == 3 {
					if again := a.computes(50); again != sum {
						t.Errorf("it says %s, and said %s", again, sum)
					}
				}
				a.detach()
				if now := a.state(); now != before {
					t.Fatalf("something is left: %s", difference(before, now))
				}
				if sound := readReport(t, table); sound.TotalCalls == 0 {
					t.Error("nothing is counted")
				}
				os.Remove(table)
			}
			a.endsRight()
		})
	}
}
