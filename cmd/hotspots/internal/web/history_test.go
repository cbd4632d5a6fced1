package web

import (
	"testing"
	"time"
)

// TestHistory: however many samples there were, no call is lost, and what is known is bounded.
func TestHistory(t *testing.T) {
	const functions, readings = 300, 5000
	begin := time.Unix(1700000000, 0)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second) }
	var h history
	want := make([]uint64, functions)
	for i := range readings {
		var list []calls
		for f := i % 7; f < functions; f += 1 + i%11 {
			n := uint64(i*f + 1)
			list = append(list, calls{f, n})
			want[f] += n
		}
		h.add(at(i), at(i+1), list)
		if len(h.samples) > historySamples {
			t.Fatalf("%d samples", len(h.samples))
		}
	}
	sums, from, to := h.within(begin, at(readings), functions)
	for f := range want {
		if sums[f] != want[f] {
			t.Fatalf("function %d: %d, not %d", f, sums[f], want[f])
		}
	}
	if !from.Equal(begin) || !to.Equal(at(readings)) {
		t.Errorf("%v to %v", from, to)
	}
	var total, of uint64
	last := begin
	for i, n := range h.of(42) {
		s := &h.samples[i]
		of += n
		total += s.total
		if !s.from.Equal(last) {
			t.Fatalf("sample %d begins at %v, the one before it ends at %v", i, s.from, last)
		}
		last = s.to
	}
	var all uint64
	for _, n := range want {
		all += n
	}
	if of != want[42] || total != all {
		t.Errorf("%d of %d, %d of %d", of, want[42], total, all)
	}
	// The last reading alone, and the last two: they are as they were.
	if _, from, _ := h.within(at(readings-1), at(readings), functions); !from.Equal(at(readings - 1)) {
		t.Errorf("the last reading begins at %v", from)
	}
	if sums, _, _ := h.within(at(readings), at(readings+1), functions); sums[0] != 0 {
		t.Errorf("%d calls after the last reading", sums[0])
	}
}

// TestHistoryBudget: lists of many functions are put together before there are many of them.
func TestHistoryBudget(t *testing.T) {
	const functions, readings = 200_000, 80
	var h history
	list := make([]calls, functions)
	for i := range list {
		list[i] = calls{i, 1 << 20}
	}
	for i := range readings {
		h.add(time.Unix(int64(i), 0), time.Unix(int64(i+1), 0), list)
		if h.bytes > historyBytes {
			t.Fatalf("%d bytes", h.bytes)
		}
	}
	sums, _, _ := h.within(time.Time{}, time.Unix(readings, 0), functions)
	if sums[functions-1] != readings<<20 || len(h.samples) < 10 {
		t.Errorf("%d calls, %d samples", sums[functions-1], len(h.samples))
	}
}
