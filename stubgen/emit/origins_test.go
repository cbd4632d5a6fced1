package emit

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestByText: the order of the text that records stand for.
func TestByText(t *testing.T) {
	s := Origins{Base: fixture.ArenaAt}
	for i, from := range []int{0x500, -0x400, 0x7fffff00, 0, -0x7fffff00} {
		s.add(fixture.ArenaAt.Add(16*i), fixture.ArenaAt.Add(from), 9, 0, 0)
	}
	if got := ByText(s.Records); !slices.Equal(got, []uint32{4, 1, 3, 0, 2}) {
		t.Errorf("order %v", got)
	}
}
