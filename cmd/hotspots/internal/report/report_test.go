package report

import "testing"

func TestPercentIsRoundedDown(t *testing.T) {
	for _, row := range []struct {
		n, of int
		want  float64
	}{{0, 3, 0}, {2, 3, 66.66}, {39430, 39431, 99.99}, {7, 7, 100}} {
		if got := percent(row.n, row.of); got == nil || *got != row.want {
			t.Errorf("%d of %d: %v, want %v", row.n, row.of, got, row.want)
		}
	}
	if got := percent(0, 0); got != nil {
		t.Errorf("none of none: %v", *got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
