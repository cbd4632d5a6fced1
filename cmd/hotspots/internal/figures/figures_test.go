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

func TestNanoseconds(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0 ns", 0.456: "0.46 ns", 9.994: "9.99 ns", 9.996: "10.0 ns", 99.96: "100 ns", 999.4: "999 ns", 999.6: "1.00 us",
		12345: "12.3 us", 4.56e6: "4.56 ms", 999.6e6: "1.00 s", 1.5e12: "1500 s",
	} {
		if got := Nanoseconds(ns); got != want {
			t.Errorf("%v: %s, not %s", ns, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 calls", 1: "1 call", 2: "2 calls", 12345: "12,345 calls"} {
		if got := Count(n, "call"); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if got := Count(2, "access"); got != "2 accesses" {
		t.Errorf("%q", got)
	}
}
