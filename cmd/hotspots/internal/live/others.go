package live

import (
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Others are all programs that count, of which tables are in some directories.
type Others struct {
	Dirs []string

	meters  map[string]*table.Meter // by path
	reading table.Reading
	looked  time.Time
	took    time.Duration
}

// They are looked for so often, or so many times as long as that takes.
const (
	lookEvery = 2 * time.Second
	lookShare = 100
)

// read reads the programs that run. own is the one that is read by itself.
func (o *Others) read(own top.Program) []top.Program {
	if time.Since(o.looked) > max(lookEvery, lookShare*o.took) {
		o.look(own.Table)
	}
	all := []top.Program{own}
	for path, m := range o.meters {
		if path == own.Table {
			continue
		}
		if err := m.Read(&o.reading); err != nil {
			o.drop(path)
			continue
		}
		all = append(all, top.Program{Table: path, Name: m.Program, Pid: m.Pid, Threads: o.reading.Threads, Calls: o.reading.Total, Running: true})
	}
	return all
}

// look finds the programs that run now.
func (o *Others) look(own string) {
	began := time.Now()
	list, err := find.List(o.Dirs...)
	if err != nil {
		return
	}
	running := map[string]bool{}
	for _, e := range list {
		if e.Status != alive.Running || e.State != layout.StateLive || e.Path == own {
			continue
		}
		running[e.Path] = true
		if o.meters[e.Path] == nil {
			o.open(e.Path)
		}
	}
	for path := range o.meters {
		if !running[path] {
			o.drop(path)
		}
	}
	o.looked, o.took = time.Now(), time.Since(began)
}

func (o *Others) open(path string) {
	m, err := table.OpenMeter(path)
	if err != nil {
		return
	}
	if o.meters == nil {
		o.meters = map[string]*table.Meter{}
	}
	o.meters[path] = m
}

func (o *Others) drop(path string) {
	o.meters[path].Close()
	delete(o.meters, path)
}
