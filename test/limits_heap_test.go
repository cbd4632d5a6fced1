//go:build long

package test

import (
	"testing"
)

// TestHeapRoom: the heap of a program whose arenas find no room below it grows as
// far as it would: where there is room in front of the heap, which the kernel puts at
// random, and where there is none (setarch -R), so that it has to be moved.
func TestHeapRoom(t *testing.T) {
	t.Parallel()
	p := manyFunctions(t, 100_000, 9_600_000)
	for _, before := range [][]string{nil, {"setarch", "-R"}} {
		inVariants(t, command{before: before, args: []string{p, "6000"}}, func(t *testing.T, r *report) {
			if f := r.named(t, "f0"); f.Calls != 2 {
				t.Errorf("f0: %d calls, not 2", f.Calls)
			}
		})
	}
}
