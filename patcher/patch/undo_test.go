package patch

import "testing"

// TestSpan: short spans are exact; long ones are no shorter than what they stand for, by
// less than 64 KB longer, and ordered.
func TestSpan(t *testing.T) {
	last := Span(0)
	for _, n := range []uint64{0, 1, 5, 255, 256, 512, 513, 1<<15 - 1, 1 << 15, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20, 100<<20 + 7, 1<<31 - 1<<16} {
		s := SpanOf(n)
		if got := s.Bytes(); got < n || n < 1<<15 && got != n || got-n >= 1<<16 {
			t.Errorf("%d bytes are %d", n, got)
		}
		if s < last {
			t.Errorf("%d bytes are less than those before", n)
		}
		last = s
	}
	list := []Undo{{Moved: 5}, {Moved: SpanOf(70_000)}, {Moved: 300}}
	if n := Longest(list); n != 2<<16 {
		t.Errorf("the longest has %d bytes", n)
	}
}
