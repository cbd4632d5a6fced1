package exporter

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a scrape may ask for.
const (
	DefaultTop = 50   // functions with a series of their own
	maxTop     = 1000 // that ?top= may ask for
	maxGlobs   = 32
	maxGlob    = 1024 // bytes
)

// query is what a scrape asks for. Two scrapes of the same key see the same
// series.
type query struct {
	key   string
	top   int
	match *regexp.Regexp // of displayed names; nil: all
	pid   string         // of one program; empty: all
}

// parseQuery reads ?top=N, ?function[]=GLOB (more than one: any of them) and, of
// an endpoint of many programs, ?pid=PID.
func parseQuery(values url.Values, top int, many bool) (*query, error) {
	q := &query{top: top}
	for name := range values {
		if name != "top" && name != "function[]" && (name != "pid" || !many) {
			return nil, fmt.Errorf("unknown parameter %q: there are top, function[]%s", name, map[bool]string{true: ", pid"}[many])
		}
	}
	if values.Has("top") {
		n, err := strconv.Atoi(values.Get("top"))
		if err != nil || n < 1 || n > maxTop {
			return nil, fmt.Errorf("top is a number from 1 to %d", maxTop)
		}
		q.top = n
	}
	globs := slices.Compact(slices.Sorted(slices.Values(values["function[]"])))
	if len(globs) > maxGlobs {
		return nil, fmt.Errorf("at most %d function[]", maxGlobs)
	}
	for _, g := range globs {
		if len(g) > maxGlob {
			return nil, fmt.Errorf("a function[] has at most %d bytes", maxGlob)
		}
	}
	if len(globs) > 0 {
		q.match = globRegexp(globs)
	}
	q.pid = values.Get("pid")
	q.key = fmt.Sprint(q.top, "\x00", strings.Join(globs, "\x00"))
	return q, nil
}

// globRegexp: * is any text, ? one character; all else, brackets too, is
// itself, since C++ names have brackets.
func globRegexp(globs []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A(?:`)
	for i, g := range globs {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range g {
			switch r {
			case '*':
				b.WriteString(".*")
			case '?':
				b.WriteByte('.')
			default:
				b.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
	}
	b.WriteString(`)\z`)
	return regexp.MustCompile(b.String())
}

// top returns the counters of the n largest counts that are not zero, largest
// first, of those that may be taken.
func top(calls []uint64, n int, may func(counter uint32) bool) []uint32 {
	n = min(n, len(calls))
	heap := make([]uint32, 0, n) // the least of them first
	less := func(a, b uint32) bool {
		return cmp.Or(cmp.Compare(calls[a], calls[b]), cmp.Compare(b, a)) < 0
	}
	for i, c := range calls {
		counter := uint32(i)
		if c == 0 || len(heap) == n && !less(heap[0], counter) || !may(counter) {
			continue
		}
		if len(heap) < n {
			heap = append(heap, counter)
			for k := len(heap) - 1; k > 0 && less(heap[k], heap[(k-1)/2]); k = (k - 1) / 2 {
				heap[k], heap[(k-1)/2] = heap[(k-1)/2], heap[k]
			}
			continue
		}
		heap[0] = counter
		sink(heap, less)
	}
	slices.SortFunc(heap, func(a, b uint32) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) })
	return heap
}

// sink moves the first of a heap down to its place.
func sink(heap []uint32, less func(a, b uint32) bool) {
	for k := 0; ; {
		least := k
		for _, child := range []int{2*k + 1, 2*k + 2} {
			if child < len(heap) && less(heap[child], heap[least]) {
				least = child
			}
		}
		if least == k {
			return
		}
		heap[k], heap[least] = heap[least], heap[k]
		k = least
	}
}
