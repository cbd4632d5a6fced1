package elfscan

import (
	"io"
	"math"
)

// Preemptible lists the code of the ELF file in r, which is size bytes long, at which a Go
// runtime may hold a goroutine that a signal has preempted, by rising address: it goes on there
// later. All other addresses at which it holds any are behind calls. A file without a Go table
// has none.
//
// The compiler marks what may not be preempted, since Go 1.14, in the first table of PCs of a
// function (internal/abi.PCDATA_UnsafePoint). What it has not marked is listed, also where the
// runtime has other reasons not to.
func Preemptible(r io.ReaderAt, size int64) ([]Range, error) {
	return guarded(func() ([]Range, error) {
		f, err := open(r, size)
		if err != nil {
			return nil, err
		}
		_, f.golang = f.notes()
		tab, ok, err := f.findGoTable()
		if !ok || err != nil {
			return nil, err
		}
		if tab.word == 4 {
			if tab.text, ok = f.goText(&tab, f.dynamic()); !ok {
				return nil, ErrTruncated
			}
		}
		return tab.preemptible(), nil
	})
}

func (t *goTable) preemptible() (list []Range) {
	low := t.entry(0)
	for i := range t.n {
		high := t.entry(i + 1)
		if high < low {
			break
		}
		if record := t.record(i); !t.isAssembly(record) {
			list = t.unmarked(list, record, low, high)
		}
		low = high
	}
	return list
}

// Where the fields of a record are, behind its entry (runtime._func): since Go 1.20 a number of
// a line is among them, up to 1.15 a number of a unit is not.
const (
	goPCData     = 24 // how many tables of PCs there are, besides the first three
	goTables12   = 32
	goTables116  = 36
	goTables120  = 40
	goFlags120   = 37
	goIsAssembly = 4 // a flag: nobody is preempted in it
	goUnsafe     = math.MaxUint64 - 1
)

func (t *goTable) isAssembly(record uint64) bool {
	return word32(t.data, 0) == goMagic120 && word32(t.data, record+goFlags120)&goIsAssembly != 0
}

// unmarked appends what is not marked of a function.
func (t *goTable) unmarked(list []Range, record, low, high uint64) []Range {
	tables := record + goTables120
	switch word32(t.data, 0) {
	case goMagic12:
		tables = record + goTables12
	case goMagic116, goMagic118:
		tables = record + goTables116
	}
	add := func(low, high uint64) {
		if n := len(list); n > 0 && list[n-1].High == low {
			list[n-1].High = high
		} else if low < high {
			list = append(list, Range{Low: low, High: high})
		}
	}
	at := word32(t.data, tables)
	if word32(t.data, record+goPCData) == 0 || at == 0 {
		add(low, high)
		return list
	}
	value := uint64(math.MaxUint64) // -1
	at += t.pcs
	for first := true; low < high; first = false {
		change, next := t.uvarint(at)
		if change == 0 && !first {
			break
		}
		delta := change >> 1
		if change&1 != 0 {
			delta = ^delta
		}
		value += delta
		var step uint64
		if step, at = t.uvarint(next); step == 0 {
			break
		}
		end := min(low+step, high)
		if value != goUnsafe {
			add(low, end)
		}
		low = end
	}
	if low < high {
		add(low, high)
	}
	return list
}
