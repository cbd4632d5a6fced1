package top

import (
	"slices"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
)

// Group is what a line of the list is.
type Group int

// Groups.
const (
	Functions Group = iota
	Objects
	Threads
	Programs
)

var groupNames = [...]string{"functions", "objects", "threads", "programs"}

// Groups are what a line can be from the start.
var Groups = []string{"function", "object", "thread", "program"}

// Options of New.
type Options struct {
	Interval time.Duration // between readings
	Sort     string        // one of Orders
	By       string        // one of Groups
	Filter   string
	ASCII    bool // the terminal shows nothing else
}

// Model is the view. Its methods are called one after the other.
type Model struct {
	Options
	width, height int

	live   state // all that has been read
	shown  state // the same, unless it is frozen
	frozen bool
	number int    // of readings
	failed error  // of the last reading
	mark   *Frame // nil if there is none

	group      Group
	column     column // that is sorted by
	reversed   bool
	onlyNew    bool
	lines      []line // in their order; those of functions stay in the last one
	listed     []bool // by function
	filter     filter
	cursor     int
	first      int // line that is shown first
	selected   lineID
	home       bool // the cursor is where most is, whatever that is
	page       int  // lines that are shown
	listTop    int  // line of the screen where they begin
	heads      []head
	detail     *detailView
	help       bool
	eventsOpen bool
	typing     bool // into the filter
	printing   bool
}

// state is what has been read.
type state struct {
	now, prev *Frame
	samples   []*sample
}

// Action is what a key asks for beyond the view.
type Action int

// Actions.
const (
	Nothing Action = iota
	Quit
	Suspend
	Redraw
	Open // the table that Model.Chosen tells
)

// New makes the view of a program.
func New(o Options) *Model {
	m := &Model{Options: o, home: true, width: 80, height: 24}
	for c, name := range orders {
		if name == o.Sort {
			m.column = column(c)
		}
	}
	m.group = Group(max(0, slices.Index(Groups, o.By)))
	m.filter.set(o.Filter)
	return m
}

// Resize says how large the screen is.
func (m *Model) Resize(width, height int) { m.width, m.height = width, height }

// Size is how large it is.
func (m *Model) Size() (width, height int) { return m.width, m.height }

// Frame adds a reading. One that failed leaves what is shown, with the error.
func (m *Model) Frame(f *Frame) {
	if m.failed = f.Err; f.Err != nil {
		return
	}
	prev := m.live.now
	m.number++
	samples := m.live.samples
	if prev != nil {
		functions := 0
		if n := len(samples); n > 0 {
			functions = len(samples[n-1].functions)
		}
		if s := newSample(m.number, prev, f, functions); s != nil {
			// A new list each time: what is frozen keeps the old one.
			keep := max(1, int((minute+m.Interval/2)/m.Interval))
			samples = append(append([]*sample(nil), samples[max(0, len(samples)+1-keep):]...), s)
		}
	}
	m.live = state{now: f, prev: prev, samples: samples}
	if !m.frozen {
		m.show()
	}
}

// show shows what was read last.
func (m *Model) show() {
	old := m.shown.now
	m.shown = m.live
	if old == nil || old.Book != m.shown.now.Book || !old.Reset.Equal(m.shown.now.Reset) {
		m.listed = nil
		m.filter.forget()
	}
	m.arrange()
}

// Switched says that the next readings are of another program.
func (m *Model) Switched() {
	m.live, m.shown, m.mark, m.frozen, m.detail, m.onlyNew = state{}, state{}, nil, false, nil, false
	m.lines, m.listed, m.group, m.home, m.filter = nil, nil, Functions, true, filter{}
}

// WantsPrograms says whether readings should have all programs.
func (m *Model) WantsPrograms() bool { return m.group == Programs }

// HasPrograms says whether what is shown has them.
func (m *Model) HasPrograms() bool { return m.shown.now != nil && m.shown.now.Programs != nil }

// WantsDetail is the function of which all is to be shown.
func (m *Model) WantsDetail() (function int, ok bool) {
	if m.detail == nil {
		return 0, false
	}
	return m.detail.function, true
}

// Chosen is the table of the selected program.
func (m *Model) Chosen() string { return m.selected.table }

// seconds is how long before the last reading the one before it was; 0 if there is none.
func (s *state) seconds() float64 {
	if s.prev == nil {
		return 0
	}
	return max(s.now.Time.Sub(s.prev.Time).Seconds(), 0)
}

// rate is calls a second.
func rate(calls uint64, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return float64(calls) / seconds
}

// Print is what the screen shows, as text without keys.
func (m *Model) Print() string {
	m.printing = true
	return m.View().Text()
}

// View is what the screen shows.
func (m *Model) View() *cells.Grid {
	g := cells.New(m.width, m.height)
	g.ASCII = m.ASCII
	switch {
	case m.width < 20 || m.height < 6:
		g.Put(0, 0, m.width, cells.Style{}, "too small")
	case m.help:
		m.viewHelp(g)
	default:
		m.viewHeader(g)
		if m.detail != nil {
			m.viewDetail(g)
		} else {
			m.viewList(g)
		}
		if !m.printing {
			m.viewFooter(g)
		}
	}
	return g
}
