package harvest

import (
	"path/filepath"
	"time"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// How often what is mapped is read, where something was touched that is in nothing known: it rests
// so many times as long as reading took, and longer where that did not help. A process of which more
// pages are in memory is asked for its mappings only, as to count them would keep it from changing
// them.
const (
	mapsRest     = 50
	mapsOften    = 10 * time.Millisecond
	mapsSeldom   = time.Second
	mapsResident = 1 << 16
)

// tellOften is how often the file is told of it.
const tellOften = time.Second

// mappings is what the program has mapped, as far as it is known while it runs: of one that is
// killed nobody tells at its end.
type mappings struct {
	shadow *heat.Shadow
	own    heat.Own
	now    *heat.Maps      // nil: not even that is known
	wanted bool            // something was touched that is in none of them, and nobody looks for it:
	at     uint64          // address
	look   chan *heat.Maps // nil: nobody looks
	asked  uint64          // for what
	next   time.Time       // not before that is there another look
	pause  time.Duration
	told   time.Time // when the file was
	untold bool      // it is not
}

// touched looks for granules that are in no mapping that is known.
func (m *mappings) touched(ranges []heat.Range) {
	if m.now == nil {
		begun, err := m.shadow.Begun()
		if err != nil {
			return
		}
		m.now = begun
	}
	if !m.wanted {
		m.at, m.wanted = m.now.Unknown(ranges, m.shadow.Granule)
	}
}

// see has them read, if it is time, by somebody else: slices wait for nobody. Since is when the
// program did nothing yet, resident how many pages it has in memory.
func (m *mappings) see(pid int, since time.Time, resident uint64) {
	if m.look != nil {
		select {
		case now := <-m.look:
			m.have(now)
		default:
			return
		}
	}
	if !m.wanted || m.now == nil || pid == 0 || time.Now().Before(m.next) {
		return
	}
	m.look, m.asked, m.wanted = make(chan *heat.Maps, 1), m.at, false
	go func(shadow *heat.Shadow, done chan<- *heat.Maps) {
		begun := time.Now()
		now := &heat.Maps{Untold: resident == 0 || resident > mapsResident}
		var err error
		if now.Mappings, err = shadow.MapsOf(pid, !now.Untold); err != nil {
			now = nil
		} else {
			now.Time = uint64(max(1, time.Since(since)))
		}
		m.next = time.Now().Add(max(mapsRest*time.Since(begun), m.pause)) // nobody else looks at it before they have that
		done <- now
	}(m.shadow, m.look)
}

// have goes on with what was read; nil: it could not be.
func (m *mappings) have(now *heat.Maps) {
	m.look = nil
	helped := false
	if now != nil {
		m.now, m.untold = m.now.Add(now), true
		helped = m.knows(m.asked)
		m.wanted = m.wanted && !m.knows(m.at) // that was touched meanwhile
	} else {
		m.at, m.wanted = m.asked, true
	}
	if m.pause = min(2*m.pause, mapsSeldom); helped || m.pause == 0 {
		m.pause = mapsOften
	}
}

// knows reports whether something is mapped at an address.
func (m *mappings) knows(at uint64) bool {
	_, not := m.now.Unknown([]heat.Range{{First: at >> m.shadow.Granule, Pages: 1}}, m.shadow.Granule)
	return !not
}

// tell writes to the file what is new, now and then.
func (m *mappings) tell(log *heat.Log) {
	if m.untold && log.IsOpen() && time.Since(m.told) > tellOften {
		m.now.MarkOurs(m.by())
		log.Mapped(m.now)
		m.told, m.untold = time.Now(), false
	}
}

// end is what is known at the end: what the program itself has told then, or what was seen last.
func (m *mappings) end() (*heat.Maps, error) {
	if m.look != nil {
		m.have(<-m.look)
	}
	maps, err := m.shadow.Maps()
	if err != nil {
		return nil, err
	}
	switch {
	case m.now == nil:
	case maps.Ended:
		maps = m.now.Add(maps)
	default:
		maps = m.now
	}
	maps.MarkOurs(m.by())
	return maps, nil
}

// by is by what our own memory is known.
func (m *mappings) by() heat.Own {
	if m.own.Begun == nil {
		m.own.Begun = &heat.Maps{}
		if begun, err := m.shadow.Begun(); err == nil {
			m.own.Begun = begun
		}
	}
	return m.own
}

// of says which table it is.
func (m *mappings) of(t *table.Table) {
	m.own.Row = uint64(t.Geometry.Rows.EntrySize)
	path, err := filepath.Abs(t.Path())
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // as the kernel tells it
	}
	if err == nil {
		m.own.Table = path
	}
}
