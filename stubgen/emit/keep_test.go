package emit

import (
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
)

// TestKeepAll: what is kept fits what the keeper reads of it: a byte of bits, and a
// byte of words behind it.
func TestKeepAll(t *testing.T) {
	all := Keep{Registers: x86.CallerSaved, Stack: ManyWords - 1}
	if what := all.what(); what != 0xfe7f {
		t.Errorf("all of them are %#x", what)
	}
}
