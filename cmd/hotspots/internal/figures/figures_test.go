package figures

import (
	"testing"
	"time"
)

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.5: "0.5", 7: "7", 999: "999", 999.6: "1.00k", 12345: "12.3k", 999499: "999k", 999600: "1.00M", 4.56e9: "4.56G", 1e30: "lots"} {
		if got := Short(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{-5: "0:00", 0: "0:00", 61 * time.Second: "1:01", 3*time.Hour + 2*time.Minute + time.Second: "3:02:01"} {
		if got := Clock(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}
