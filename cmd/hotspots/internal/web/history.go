package web

import (
	"encoding/binary"
	"time"
)

// history is how often each function was called between readings, from the first reading
// on. Where that would take more than its budget, neighbors among the older half are put
// together: no call is lost, only when it came is known less exactly.
type history struct {
	samples []sample
	bytes   int // of all packed lists
}

// sample is the calls between two readings.
type sample struct {
	from, to time.Time
	total    uint64
	packed   []byte // for each function that was called: how far its number is from the one before, and its calls
}

// Bounds of a history: of its packed lists, and of how many samples there are.
const (
	historyBytes   = 48 << 20
	historySamples = 1024
)

// calls is one function with its calls.
type calls struct {
	function int
	n        uint64
}

// pack appends a function to a packed list in which last is the one before it.
func pack(list []byte, last int, c calls) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(list, uint64(c.function-last)), c.n)
}

// unpack calls use with each function of a list.
func unpack(list []byte, use func(calls)) {
	for at := 0; len(list) > 0; {
		gap, n := binary.Uvarint(list)
		count, m := binary.Uvarint(list[n:])
		list = list[n+m:]
		at += int(gap)
		use(calls{at, count})
	}
}

// add adds a sample, the functions of which rise.
func (h *history) add(from, to time.Time, list []calls) {
	s := sample{from: from, to: to}
	last := 0
	for _, c := range list {
		s.packed = pack(s.packed, last, c)
		s.total += c.n
		last = c.function
	}
	h.samples = append(h.samples, s)
	h.bytes += len(s.packed)
	for h.bytes > historyBytes && len(h.samples) > 2 || len(h.samples) > historySamples {
		h.thin()
	}
}

// thin puts neighbors together, in the older half.
func (h *history) thin() {
	half := len(h.samples) / 4 * 2
	kept := h.samples[:0:0]
	for i := 0; i < half; i += 2 {
		kept = append(kept, join(&h.samples[i], &h.samples[i+1]))
	}
	if half == 0 {
		kept = append(kept, join(&h.samples[0], &h.samples[1]))
		half = 2
	}
	h.samples = append(kept, h.samples[half:]...)
	h.bytes = 0
	for i := range h.samples {
		h.bytes += len(h.samples[i].packed)
	}
}

// join is two samples as one.
func join(a, b *sample) sample {
	s := sample{from: a.from, to: b.to, total: a.total + b.total}
	var left, right []calls
	unpack(a.packed, func(c calls) { left = append(left, c) })
	unpack(b.packed, func(c calls) { right = append(right, c) })
	last := 0
	for len(left) > 0 || len(right) > 0 {
		var c calls
		switch {
		case len(right) == 0 || len(left) > 0 && left[0].function < right[0].function:
			c, left = left[0], left[1:]
		case len(left) == 0 || right[0].function < left[0].function:
			c, right = right[0], right[1:]
		default:
			c = calls{left[0].function, left[0].n + right[0].n}
			left, right = left[1:], right[1:]
		}
		s.packed = pack(s.packed, last, c)
		last = c.function
	}
	return s
}

// forget begins anew: what follows is not comparable with what was.
func (h *history) forget() { *h = history{} }

// of is the calls of a function in each sample.
func (h *history) of(function int) []uint64 {
	list := make([]uint64, len(h.samples))
	for i := range h.samples {
		unpack(h.samples[i].packed, func(c calls) {
			if c.function == function {
				list[i] += c.n
			}
		})
	}
	return list
}

// within adds up the samples that end after one moment and not after another: the calls of
// so many functions, and from when to when the samples reach.
func (h *history) within(after, until time.Time, functions int) (sums []uint64, from, to time.Time) {
	sums = make([]uint64, functions)
	for i := range h.samples {
		s := &h.samples[i]
		if !s.to.After(after) || s.to.After(until) {
			continue
		}
		if from.IsZero() {
			from = s.from
		}
		to = s.to
		unpack(s.packed, func(c calls) {
			if c.function < functions {
				sums[c.function] += c.n
			}
		})
	}
	return sums, from, to
}
