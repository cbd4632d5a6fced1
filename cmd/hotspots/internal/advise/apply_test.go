package advise

import (
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	noted "github.com/dynprof/dynprof/internal/table/heat"
)

// TestWhen: memory is given back where most of it is dead for most of the time.
func TestWhen(t *testing.T) {
	curve := []heat.Point{{Instructions: 10}, {Instructions: 20}, {Instructions: 80}, {Instructions: 100}}
	ends := func(end uint32, pages uint64) noted.Range { return noted.Range{Pages: pages, End: end} }
	for _, row := range []struct {
		ranges []noted.Range
		want   uint32
	}{
		{[]noted.Range{ends(1, 5)}, 1},
		{[]noted.Range{ends(1, 5), ends(3, 1)}, 1},
		{[]noted.Range{ends(1, 5), ends(2, 1)}, 2},
		{[]noted.Range{ends(1, 1), ends(3, 100)}, 3},
		{nil, 0},
	} {
		if got := when([]Dead{{ranges: row.ranges}}, curve); got != row.want {
			t.Errorf("%+v: %d", row, got)
		}
	}
}
