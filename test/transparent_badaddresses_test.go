package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestBadAddresses: what a program hands to system calls that are sites of ours may lie
// where nothing can be read: the kernel says so, and nobody dies. With traps the calls that
// have to do with SIGTRAP are sites, too.
func TestBadAddresses(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for how, row := range map[string]struct {
		program string
		flags   []string
	}{
		"plain": {compile(t, gcc, []string{"-O1"}, "badaddresses.c"), nil},
		"all":   {compile(t, gcc, []string{"-O1"}, "badaddresses.c"), []string{"--objects", "all", "--control"}},
		"traps": {compile(t, gcc, []string{"-O1", "-DTRAPS"}, "badaddresses.c", "traps.S"), []string{"--allow-traps"}},
	} {
		t.Run(how, func(t *testing.T) {
			without := run(t, cmd(row.program))
			if !strings.Contains(without.stdout, "clone3, the last: Bad address\n") {
				t.Fatalf("the program does not run to its end: %s", without.stdout)
			}
			with, r := counted(t, cmd(row.program), row.flags...)
			same(t, without, with)
			if how == "traps" && r.named(t, "trap_ret").Tactic != "trap" {
				t.Error("there is no trap")
			}
			if n := r.calls(t, "all"); n != 6 {
				t.Errorf("all: %d calls, not 6", n)
			}
		})
	}
}
