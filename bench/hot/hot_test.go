package main

import (
	"math"
	"testing"
)

func TestRanks(t *testing.T) {
	calls := []uint64{1000, 100, 10, 1, 1}
	for _, row := range []struct {
		samples []uint64
		rho     float64
		top2    int
	}{
		{[]uint64{9, 5, 2, 1, 1}, 1, 2},
		{[]uint64{1, 2, 3, 4, 4}, -1, 0},
		{[]uint64{9, 0, 0, 0, 0}, 5 / math.Sqrt(9.5*5), 1},
		{[]uint64{0, 0, 5, 0, 9}, -4.5 / math.Sqrt(9.5*8), 0},
	} {
		if got := spearman(row.samples, calls); math.Abs(got-row.rho) > 0.001 {
			t.Errorf("%v: rho %.4f, not %.3f", row.samples, got, row.rho)
		}
		if got := overlap(row.samples, calls, 2); got != row.top2 {
			t.Errorf("%v: %d of the first 2, not %d", row.samples, got, row.top2)
		}
	}
}

func TestFunctionAt(t *testing.T) {
	all := []code{{0xc0, 0x120, 0}, {0x100, 0x140, 1}, {0x200, 0x210, 2}} // the second one's front is shorter
	for at, want := range map[uint64]int{0xbf: -1, 0xc0: 0, 0x11f: 0, 0x120: 1, 0x13f: 1, 0x140: -1, 0x1ff: -1, 0x200: 2, 0x20f: 2, 0x210: -1} {
		if got := functionAt(all, at); got != want {
			t.Errorf("%#x: %d, not %d", at, got, want)
		}
	}
}
