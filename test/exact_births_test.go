package test

import (
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestExactBirths: threads by every way of birth, at work beside the one that
// made them; the rows of ended ones are used again.
func TestExactBirths(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "g++"), []string{"-O2"}, "births.cc")
	exempt := untallied("clone_by_hand", "clone_spread", "begin_by_hand")
	for _, names := range readSymbols(t, p).functions {
		for _, name := range names {
			if strings.HasPrefix(name, "_Z") {
				exempt[name] = "of the C++ library's headers"
			}
		}
	}
	for i, how := range []string{
		"pthread_create", "thrd_create", "std::thread", "timer_create", "aio", "getaddrinfo_a",
		"inline", "spread", "syscall", "syscall-clone3",
	} {
		t.Run(how, func(t *testing.T) {
			twoCores(t)
			for _, flags := range lane.Turn(objects, i) {
				with, r := counted(t, cmd(p, how, "30"), flags...)
				if with.status != 0 || with.stderr != "" {
					t.Errorf("%v: status %d: %s", flags, with.status, with.stderr)
				}
				selfCounting(t, comparison{exempt: exempt}, with, r)
			}
		})
	}
}
