package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestDirectCalls: a call of a counted function does not lead to its entry, with
// --keep-calls it does, and all calls are counted once.
func TestDirectCalls(t *testing.T) {
	lane.Parallel(t)
	for _, build := range []string{"gcc -O2", "gcc -O2 -no-pie", "clang -O1"} {
		words := strings.Fields(build)
		p := compile(t, need(t, words[0]), words[1:], "direct.c")
		const sum = "7567500" // of 1,000 rounds
		for _, row := range []struct {
			flags, leads string // of the call, and of the tail call
			target       uint64
		}{
			{"", "elsewhere elsewhere", 3000},
			{"--threshold 50", "elsewhere elsewhere", 3000},
			{"--objects all", "elsewhere elsewhere", 3000},
			{"--lock", "elsewhere elsewhere", 3000},
			{"--control", "elsewhere elsewhere", 3000},
			{"--direct-calls", "elsewhere elsewhere", 3000}, // in scripts, from when it was no default
			{"--skip ^target", "entry entry", 0},
			{"--keep-calls", "entry entry", 3000},
			{"--keep-calls --threshold 50", "entry entry", 3000},
			{"--translator -", "entry entry", 3000}, // a translator is shown the program's code
		} {
			t.Run(build+" "+row.flags, func(t *testing.T) {
				r, report := counted(t, cmd(p, "1000"), strings.Fields(row.flags)...)
				if want := sum + " " + row.leads + "\n"; r.stdout != want || r.stderr != "" || r.status != 0 {
					t.Errorf("status %d: %s%s, not %s", r.status, r.stdout, r.stderr, want)
				}
				if row.target > 0 && report.calls(t, "target") != row.target || report.calls(t, "calls_target") != 1000 {
					t.Errorf("%d calls of target, %d of calls_target", report.calls(t, "target"), report.calls(t, "calls_target"))
				}
			})
		}
	}
}

// TestDirectCallsMDWE: where no page may become writable and executable calls go
// by way of the entry, and are counted.
func TestDirectCallsMDWE(t *testing.T) {
	lane.Parallel(t)
	p, under := compile(t, need(t, "gcc"), []string{"-O2"}, "direct.c"), delivering(t)
	table := filepath.Join(t.TempDir(), "table")
	r := run(t, cmd(under, "mdwe", build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--", p, "1000"))
	if r.status == 77 {
		t.Skipf("no PR_SET_MDWE in this kernel: %s", r.stderr)
	}
	if !strings.HasSuffix(r.stdout, " entry entry\n") || r.status != 0 || readReport(t, table).calls(t, "target") != 3000 {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestDirectCallsInGdb: where a debugger has the program from the start, what it
// puts into an entry later is passed by all calls.
func TestDirectCallsInGdb(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "direct.c")
	table := filepath.Join(t.TempDir(), "table")
	const session = "break main\nrun 3\nbreak *target\ncontinue\nbt\ncontinue\nbt\ndelete\ncontinue\n"
	without := gdb(t, session, p)
	with := gdb(t, inGdb(t, table)+session, p)
	if with != without || !strings.Contains(without, "calls_target") {
		t.Error(difference(without, with))
	}
	if n := readReport(t, table).calls(t, "target"); n != 9 {
		t.Errorf("%d calls, not 9", n)
	}
}
