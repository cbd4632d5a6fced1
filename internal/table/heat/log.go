package heat

import (
	"cmp"
	"os"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Bounds of a file. Beyond, slices that are neighbours are made one.
const (
	mostSlices = 4096
	mostBytes  = 16 << 20
	mostTold   = 1 << 20 // of mappings that others replace
)

// Log is a file of touched pages that is written while the program runs: a slice is behind the
// others as soon as it is there, so that it is not lost with whoever writes.
type Log struct {
	Granule Granule // what is noted; 0: pages
	Apart   uint64  // nanoseconds, or, with a Source, instructions: neighbours are made one where they are no longer together
	Source  string  // the tool whose log it is made of, which tells no time; empty: none's

	Threads bool // it is said, too, who touched what,
	Code    bool // or which instruction touched it last

	who    []byte // record of that
	slices []logged
	bytes  int
	last   Slice
	file   *os.File // nil: it has none yet, or it could not be written to
	table  string   // its path, and nonce, where it has had one
	nonce  [16]byte
	maps   Maps
	told   int // bytes of maps behind the first
}

// logged is a slice, and how long it is.
type logged struct {
	record []byte
	time   uint64
}

// Open begins the file beside a table.
func (l *Log) Open(table string, nonce [16]byte, maps *Maps) error {
	l.table, l.nonce, l.maps = table, nonce, *maps
	return l.write()
}

// Count is how many slices there are.
func (l *Log) Count() int { return len(l.slices) }

// IsOpen reports whether there is a file.
func (l *Log) IsOpen() bool { return l.table != "" }

// write writes the whole file, and goes on behind it.
func (l *Log) write() error {
	l.stop()
	l.told = 0
	if err := l.whole(&l.maps).Write(l.table, l.nonce); err != nil {
		return err
	}
	file, err := os.OpenFile(PathOf(l.table), os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	l.file = file
	return err
}

func (l *Log) stop() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

func (l *Log) granule() Granule { return cmp.Or(l.Granule, Page) }

func (l *Log) whole(maps *Maps) *File {
	f := &File{Maps: *maps, Granule: l.granule(), Noted: l.granule()}
	if l.Threads {
		f.version, f.who = versionThreads, l.who
	}
	if l.Code {
		f.version, f.who = versionCode, l.who
	}
	if l.Source != "" {
		f.version, f.Source = versionLog, l.Source
	}
	for _, s := range l.slices {
		f.slices = append(f.slices, s.record...)
	}
	return f
}

// Add adds a slice. Where the file cannot be written to, Close tries again.
func (l *Log) Add(s *Slice) {
	l.put(s)
	if l.file != nil {
		if _, err := l.file.Write(l.slices[len(l.slices)-1].record); err != nil {
			l.stop()
		}
	}
	if !l.fits(1) {
		l.shrink()
		if l.file != nil {
			l.write()
		}
	}
}

// Mapped says what is mapped by now. Older ones are left out of the file when they take much of it.
func (l *Log) Mapped(maps *Maps) {
	l.maps = *maps
	if l.file == nil {
		return
	}
	record, err := maps.record()
	if l.told += len(record); l.told > mostTold {
		l.write()
		return
	}
	if err == nil {
		_, err = l.file.Write(record)
	}
	if err != nil {
		l.stop()
	}
}

// Touched says who has touched what by now, as Mapped does.
func (l *Log) Touched(s *Shadow) {
	if l.Code {
		l.who = s.lasts.record()
	} else {
		l.who = s.touched.record()
	}
	if l.file == nil {
		return
	}
	if l.told += len(l.who); l.told > mostTold {
		l.write()
	} else if _, err := l.file.Write(l.who); err != nil {
		l.stop()
	}
}

func (l *Log) put(s *Slice) {
	record := beside.AppendPart(nil, recordSlice, s.encode(&l.last))
	l.slices = append(l.slices, logged{record, s.Time - l.last.Time})
	l.bytes += len(record)
	l.last = *s
	l.last.Ranges = nil
}

// fits reports whether there are no more slices than a part of what there may be.
func (l *Log) fits(part float64) bool {
	return float64(len(l.slices)) <= part*mostSlices && float64(l.bytes) <= part*mostBytes
}

// again puts all slices again, as use does.
func (l *Log) again(use func(*Slice)) {
	all := l.slices
	l.slices, l.bytes, l.last = nil, 0, Slice{}
	var s Slice
	for _, one := range all {
		_, body, _, err := cut(one.record)
		if err == nil {
			s, err = s.next(body, l.granule(), true)
		}
		if err != nil {
			panic("heat: BUG: " + err.Error())
		}
		use(&s)
	}
}

// Limit says how many instructions have run in all: where slices tell of more, it was not yet
// known which way threads would take. It is for the end, before Close.
func (l *Log) Limit(executed uint64) {
	if l.last.Executed > executed {
		l.again(func(s *Slice) {
			one := *s
			one.Executed = min(one.Executed, executed)
			l.put(&one)
		})
	}
}

// end is when a slice ends, by what Apart is told in.
func (l *Log) end(s *Slice) uint64 {
	if l.Source != "" {
		return s.Executed
	}
	return s.Time
}

// shrink makes neighbours one, of equal length as far as can be.
func (l *Log) shrink() {
	const enough = 0.75
	for l.Apart = max(l.Apart, 1); len(l.slices) > 1 && !l.fits(enough); {
		l.Apart *= 2
		var joined Slice
		begin := uint64(0) // of joined
		l.again(func(s *Slice) {
			if joined.Parts > 0 && l.end(s)-begin > l.Apart {
				begin = l.end(&joined)
				l.put(&joined)
				joined = Slice{}
			}
			one := *s
			one.Parts += joined.Parts
			one.Counting |= joined.Counting
			one.Minor, one.Major = joined.Minor+s.Minor, joined.Major+s.Major
			one.Ranges = Union(joined.Ranges, s.Ranges)
			joined = one
		})
		l.put(&joined)
	}
}

// Close writes all, with what is mapped at the end, beside a table, which may have got another
// path meanwhile.
func (l *Log) Close(table string, nonce [16]byte, maps *Maps) error {
	l.stop()
	if l.table != "" && l.table != table {
		if _, err := Read(l.table, l.nonce); err == nil {
			Remove(l.table)
		}
	}
	return l.whole(maps).Write(table, nonce)
}
