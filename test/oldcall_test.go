package test

import (
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// System calls of 32-bit programs, which 64-bit ones make by int $0x80.

// TestOldCalls: such calls have numbers of their own: none is taken for another.
func TestOldCalls(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), nil, "oldcalls.S")
	inVariants(t, cmd(program), func(t *testing.T, r *report) {
		if n := r.calls(t, "main"); n != 1 || r.Lock != "" {
			t.Errorf("main: %d calls; counted with lock: %q", n, r.Lock)
		}
	})
}
