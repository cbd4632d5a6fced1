package test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestMemoryOverwritten: a program writes over all its anonymous memory, and puts it back,
// while its handler is entered. Nothing that a handler's entry reads is in such memory, and
// hardly any of ours is: the kernel would make one mapping of it and of the main thread's TLS
// block.
func TestMemoryOverwritten(t *testing.T) {
	lane.Parallel(t)
	// A canary is in the TLS block, slots of the PLT are bound by what the dynamic linker keeps.
	program := compile(t, need(t, "gcc"), []string{"-O1", "-fno-stack-protector", "-Wl,-z,now"}, "overwritten.c")
	// Else the kernel kills it, without us, too.
	const without = "GLIBC_TUNABLES=glibc.pthread.rseq=0"
	c := cmd(program)
	c.env = []string{without}
	kB := func(t *testing.T, said string) (kB, ticks uint64) {
		t.Helper()
		if n, err := fmt.Sscan(said, &kB, &ticks); n != 2 || ticks == 0 {
			t.Fatalf("%q: %v", said, err)
		}
		return kB, ticks
	}
	plain, _ := kB(t, run(t, c).stdout)
	check := func(t *testing.T, said string, r func() *report) {
		t.Helper()
		got, ticks := kB(t, said)
		// A page is the discard row's, and one the dynamic linker's, for one object more.
		if got > plain+8 {
			t.Errorf("%d kB of anonymous memory, %d without", got, plain)
		}
		if n := r().calls(t, "tick"); n != ticks {
			t.Errorf("tick: %d calls, not %d", n, ticks)
		}
	}
	for _, flags := range lane.Some(slices.Concat(variants, [][]string{{"--lock"}, {"--blocks"}}), 0, 4) {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			with, table := countedAt(t, c, flags...)
			if with.status != 0 || with.stderr != "" {
				t.Fatalf("%+v", with)
			}
			check(t, with.stdout, func() *report { return readReport(t, table) })
		})
	}
	t.Run("attached", func(t *testing.T) {
		e := exec.Command(program, "wait")
		e.Env = append(e.Environ(), without)
		a := converseAttached(t, e)
		table := a.attach()
		fmt.Fprintln(a.to)
		check(t, a.line(), func() *report { return readReport(t, table) })
		a.ends()
	})
}
