package table

import (
	"math/bits"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Histogram is how many of a loop's executions had how many trips: those that have ended and
// whose trips are known.
type Histogram struct {
	Executions  uint64
	Least, Most uint64 // trips; 0 if there is no execution
	Buckets     [layout.TrCount]uint64
}

// Bucket is the least and the most trips of those in bucket number i; most is 0 where there is
// no end.
func Bucket(i int) (least, most uint64) {
	if i == layout.TrCount-1 {
		return 1 << i, 0
	}
	return 1 << i, 1<<(i+1) - 1
}

// HasTrips reports whether the trips of loops are counted.
func (t *Table) HasTrips() bool { return t.Header.Flags&layout.FlagTrips != 0 }

// readTrips reads the histograms of the loops; counts are the sums of counters from first on.
// In a table of a program that runs the least and the most may be ahead of the buckets, of
// executions that end just then.
func (f *Flow) readTrips(t *Table, first uint32, counts []uint64) error {
	var counted []*Loop
	for i := range f.Loops {
		l := &f.Loops[i]
		if l.Trips == 0 {
			continue
		}
		l.Histogram = &Histogram{}
		counted = append(counted, l)
		for k := range l.Histogram.Buckets {
			n := counts[l.Trips-first+layout.TrBuckets/8+uint32(k)]
			l.Histogram.Buckets[k] = n
			l.Histogram.Executions += n
		}
	}
	if len(counted) == 0 {
		return nil
	}
	used, err := t.U32(layout.HdrRowsUsed)
	if err != nil {
		return err
	}
	words := make([]byte, 8*len(counts)) // of a row, in which holes are 0
	for row := range min(used, t.Geometry.Rows.Capacity) {
		at := t.Geometry.Rows.Offset + uint64(row)*uint64(t.Geometry.Rows.EntrySize) + layout.RowCounters + 8*uint64(first)
		var read [][]byte
		err := t.EachData(layout.Section{Offset: at, EntrySize: 8}, uint64(len(counts)), func(from uint64, b []byte) error {
			read = append(read, words[8*from:][:copy(words[8*from:], b)])
			return nil
		})
		if err != nil {
			return err
		}
		for _, l := range counted {
			l.Histogram.add(words[8*(l.Trips-first):])
		}
		for _, b := range read {
			clear(b)
		}
	}
	return nil
}

// add adds the least and the most of a row. Which of the trips that are in no bucket yet is not
// told.
func (h *Histogram) add(words []byte) {
	most, least := le.Uint64(words[layout.TrMost:]), ^le.Uint64(words[layout.TrLeast:])
	if most == 0 || h.Executions == 0 {
		return
	}
	h.Most = max(h.Most, most)
	if h.Least == 0 || least < h.Least {
		h.Least = least
	}
}

// BucketOf is the number of the bucket of so many trips.
func BucketOf(trips uint64) int { return min(bits.Len64(trips|1)-1, layout.TrCount-1) }
