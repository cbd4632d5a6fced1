package live

import (
	"os"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/cputime"
)

// lastTimes are the CPU times that were read last.
type lastTimes struct {
	of       *table.Table
	modified time.Time
	each     []uint64
	total    uint64
}

// read reads the times beside a table if they have been written anew; nil if there are none,
// or they cannot be read.
func (l *lastTimes) read(t *table.Table) (each []uint64, total uint64) {
	fi, err := os.Stat(cputime.PathOf(t.Path()))
	if err != nil {
		return nil, 0
	}
	if l.of == t && fi.ModTime().Equal(l.modified) {
		return l.each, l.total
	}
	*l = lastTimes{of: t, modified: fi.ModTime()}
	times, err := report.TimesOf(t)
	if err != nil || times == nil {
		return nil, 0
	}
	l.each, l.total = make([]uint64, len(t.Functions)), times.Total
	for i := range l.each {
		l.each[i] = times.Nanoseconds(i)
	}
	return l.each, l.total
}
