//go:build long

package test

import (
	"os"
	"testing"
)

// What takes longer than make test may: make long runs it.

// TestLongThreads: many calls, 100,000 short threads, and a stress of all at
// once for more than a minute.
func TestLongThreads(t *testing.T) {
	exactThreads(t, "one 30000000 2", "many 8000000 64", "churn 100000", "storm 20000", "stress 32")
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
	const ratio = "/proc/sys/vm/overcommit_ratio" // half of the memory, which two crowds of threads come near to
	for _, set := range [][2]string{{ratio, "100"}, {overcommit, "2"}} {
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
