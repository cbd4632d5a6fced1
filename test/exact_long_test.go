//go:build long

package test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// What takes longer than make test may: make long runs it.

// TestLongThreads: many calls, 100,000 short threads, and a stress of all at
// once for more than a minute.
func TestLongThreads(t *testing.T) {
	exactThreads(t, "one 30000000 2", "many 8000000 64", "churn 100000", "storm 20000", "stress 6")
}

// TestLongStorms: 10,000 forks of each kind, on several levels.
func TestLongStorms(t *testing.T) {
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "storms.c")
	for _, s := range storms {
		t.Run(s.how, func(t *testing.T) {
			switch s.how {
			case "levels", "calls", "deaths":
				s.times = 10_000
			}
			for _, flags := range objects {
				storm(t, p, s.how, s.times, s.rows, flags)
			}
		})
	}
}

// TestLongNoOvercommit: the compatibility matrix and threads where the kernel
// promises no memory that it does not have. It sets that for the whole machine,
// so it asks to be allowed.
func TestLongNoOvercommit(t *testing.T) {
	rootOnly(t, "cannot change a setting of the machine")
	if setting("SYSCTL") != "1" {
		t.Skipf("DYNPROF_SYSCTL=1 lets it set %s for the machine while it runs", overcommit)
	}
	const ratio = "/proc/sys/vm/overcommit_ratio"
	for _, set := range [][2]string{{ratio, roomForCrowds(t)}, {overcommit, "2"}} {
		before := read(t, set[0])
		if err := os.WriteFile(set[0], []byte(set[1]), 0); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(set[0], []byte(before), 0); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("threads", func(t *testing.T) { exactThreads(t, "churn 2000", "many 100000 64") })
	t.Run("matrix", TestCompatibility)
}

// roomForCrowds is the percentage of the memory that may be promised so that as much as all
// of it is left: two crowds of threads come near to the half that is usual, and what others
// have been promised counts.
func roomForCrowds(t *testing.T) string {
	t.Helper()
	var total, committed int
	for line := range strings.Lines(read(t, "/proc/meminfo")) {
		fmt.Sscanf(line, "MemTotal: %d", &total)
		fmt.Sscanf(line, "Committed_AS: %d", &committed)
	}
	if total == 0 || committed == 0 {
		t.Fatal("/proc/meminfo does not say what is promised")
	}
	return strconv.Itoa(100 + 100*committed/total)
}
