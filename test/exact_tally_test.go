package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// selfCounting compares a program that counts itself with its report.
func selfCounting(t *testing.T, c comparison, run result, r *report) {
	t.Helper()
	symbols := readSymbols(t, r.Program)
	c.exact(t, r, tallies(t, run.stdout, symbols), symbols)
}

// TestExactOdd: assembly whose calls were counted by hand.
func TestExactOdd(t *testing.T) {
	lane.Parallel(t)
	odd := comparison{
		exempt: untallied("shorts", "falls", "loops", "transfers", "state"),
		uncounted: map[string]string{
			"odd_loop_stuck":    "entry-loop",       // a short jump to the entry cannot lead past the count
			"odd_loop_table":    "entry-loop",       // its table would have to change
			"odd_call_register": "return-in-window", // a call of two bytes at the entry
		},
	}
	for _, row := range []string{"gcc -O2", "gcc -O2 -no-pie", "clang -O1"} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(row)
			p := compile(t, need(t, args[0]), args[1:], "odd.c", "odd.S")
			without := run(t, cmd(p))
			for _, flags := range [][]string{nil, {"--threshold", "3"}, {"--keep-calls"}} {
				with, r := counted(t, cmd(p), flags...)
				same(t, without, with)
				selfCounting(t, odd, with, r)
			}
		})
	}
}

// TestShortFunctionFallsThrough: four bytes, then padding, then the next.
func TestShortFunctionFallsThrough(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), nil, "short_fall.S")
	without := run(t, cmd(p))
	with, r := counted(t, cmd(p))
	same(t, without, with)
	for _, name := range []string{"short_fall", "short_fall_next"} {
		if n := r.calls(t, name); n != 10 {
			t.Errorf("%s: %d calls, not 10", name, n)
		}
	}
}

// objects are the choices of what to count beside the program's own functions.
var objects = [][]string{nil, {"--objects", "all"}, {"--objects", "all", "--keep-calls"}}

// TestExactThreads: threads pinned to different cores, and short ones.
func TestExactThreads(t *testing.T) {
	lane.Parallel(t)
	exactThreads(t, "one 2000000", "many 1600000", "one 600000 1", "many 300000 2", "one 100000 17", "many 100000 64", "one 100000 64",
		"churn 2500", "crowd 2000", "storm 4000", "stress 1")
}

// exactThreads runs threads.c.
func exactThreads(t *testing.T, modes ...string) {
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "threads.c")
	for i, mode := range modes {
		for _, flags := range lane.Turn(objects, i) {
			t.Run(strings.Join(append(flags, mode), " "), func(t *testing.T) {
				twoCores(t)
				with, r := counted(t, cmd(append([]string{p}, strings.Fields(mode)...)...), flags...)
				if with.status != 0 || with.stderr != "" {
					t.Errorf("status %d: %s", with.status, with.stderr)
				}
				selfCounting(t, comparison{exempt: untallied()}, with, r)
			})
		}
	}
}

// TestExactSignals: handlers that call what they interrupt, on every kind of
// stack; no signal goes to a thread that blocks it.
func TestExactSignals(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "signals.c")
	c := cmd(p, "10000")
	without := run(t, c)
	for _, flags := range slices.Concat(objects, [][]string{{"--threshold", "1000"}}) {
		twoCores(t)
		with, r := counted(t, c, flags...)
		same(t, without.withoutTallies(), with.withoutTallies())
		selfCounting(t, comparison{exempt: untallied()}, with, r)
	}
}

// TestExactForks: every way to make a process, parent and child at work on
// different cores.
func TestExactForks(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []string{"gcc -O2", "clang -O1 -no-pie"} {
		args := strings.Fields(row)
		p := compile(t, need(t, args[0]), args[1:], "forks.c")
		without := run(t, cmd(p))
		for _, flags := range slices.Concat(objects, [][]string{{"--threshold", "1000"}}) {
			t.Run(strings.Join(append(flags, row), " "), func(t *testing.T) {
				twoCores(t)
				with, r := counted(t, cmd(p), flags...)
				same(t, without.withoutTallies(), with.withoutTallies())
				selfCounting(t, comparison{exempt: untallied()}, with, r)
			})
		}
	}
}
