package test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRestartable: restartable sequences stay where the kernel knows them: no
// addition is lost to threads that interrupt each other on one CPU. The
// functions are counted where that can be without moving one.
func TestRestartable(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "rseq.c", "rseq.S")
	if r := run(t, cmd(p)); r.status == 77 {
		t.Skip("glibc has not registered rseq here")
	} else if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	line := regexp.MustCompile(`(\w+): 0 lost, (?:not )?interrupted, tries (\d+)\n`)
	for _, flags := range [][]string{nil, {"--objects", "all", "--threshold", "1000"}, {"--allow-traps"}, {"--lock"}} {
		with, r := counted(t, cmd(p), flags...)
		kinds := line.FindAllStringSubmatch(with.stdout, -1)
		if with.status != 0 || with.stderr != "" || len(kinds) != 5 {
			t.Errorf("%v: %+v", flags, with)
		}
		countedKinds := 0
		for _, k := range kinds {
			f := r.named(t, "rseq_"+k[1])
			if f.Tactic == "none" {
				continue
			}
			countedKinds++
			if want, _ := strconv.ParseUint(k[2], 10, 64); f.Calls != want {
				t.Errorf("%v %s: %d calls, not %d", flags, k[1], f.Calls, want)
			}
		}
		if countedKinds < 3 {
			t.Errorf("%v: %d of 5 functions are counted", flags, countedKinds)
		}
		for name, reason := range map[string]string{"rseq_entry": "restartable", "rseq_aborted": "branch-into-window"} {
			if f := r.named(t, name); f.Reason != reason {
				t.Errorf("%v: %+v", flags, f)
			}
		}
	}
}
