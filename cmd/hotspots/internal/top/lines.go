package top

import (
	"cmp"
	"slices"
	"strings"
)

// lineID is what a line is known by, wherever it stands.
type lineID struct {
	number int // of a function or object
	thread ThreadID
	table  string // of a program
}

// line is one of the list.
type line struct {
	id     lineID
	recent uint64 // calls since the reading before
	calls  uint64
	since  uint64 // calls since the mark
	isNew  bool   // and none before it
	extra  int    // functions called of an object; threads of a program
	time   uint64 // CPU time, ns, of a function or an object
}

// column is what the list is sorted by.
type column int

const (
	byRate column = iota
	byCalls
	bySince
	byTime
	byObject
	byName
)

var orders = [...]string{"rate", "calls", "since", "time", "object", "name"}

// Orders are what the list can be sorted by from the start.
var Orders = []string{"rate", "calls", "time", "object", "name"}

// columns are those that the list has at the moment.
func (m *Model) columns() []column {
	list := []column{byRate, byCalls}
	if m.mark != nil {
		list = append(list, bySince)
	}
	if m.hasTime() {
		list = append(list, byTime)
	}
	if m.group == Functions {
		list = append(list, byObject)
	}
	return append(list, byName)
}

// hasTime reports whether there is a column of CPU time: that of threads is not told apart.
func (m *Model) hasTime() bool {
	return m.shown.now != nil && m.shown.now.Times != nil && (m.group == Functions || m.group == Objects)
}

// timeOf is the CPU time of function i, ns.
func (f *Frame) timeOf(i int) uint64 {
	if i >= len(f.Times) {
		return 0
	}
	return f.Times[i]
}

// arrange makes the list anew, and keeps the cursor on its line.
func (m *Model) arrange() {
	if m.shown.now == nil {
		return
	}
	row := m.cursor - m.first
	switch m.group {
	case Functions:
		m.functionLines()
	case Objects:
		m.objectLines()
	case Threads:
		m.threadLines()
	case Programs:
		m.programLines()
	}
	slices.SortFunc(m.lines, m.compare)
	m.find()
	m.first = m.cursor - row // what is selected stays where it is on the screen
	m.scroll()
}

// find puts the cursor on the line that is selected.
func (m *Model) find() {
	i := -1
	if !m.home {
		i = slices.IndexFunc(m.lines, func(l line) bool { return l.id == m.selected })
	}
	switch {
	case m.home:
		m.cursor = 0
	case i >= 0:
		m.cursor = i
	}
	m.moveTo(m.cursor)
}

// moveTo puts the cursor on a line.
func (m *Model) moveTo(i int) {
	m.cursor = max(0, min(i, len(m.lines)-1))
	if len(m.lines) > 0 {
		m.selected = m.lines[m.cursor].id
	}
	m.scroll()
}

// scroll has the cursor among the lines that are shown.
func (m *Model) scroll() {
	page := max(m.page, 1)
	m.first = max(m.first, m.cursor-page+1)
	m.first = min(m.first, m.cursor, max(0, len(m.lines)-page))
	m.first = max(m.first, 0)
}

// functionLines are the functions that were called. They stay in their order, so that
// sorting them has little to do.
func (m *Model) functionLines() {
	now := m.shown.now
	if m.listed == nil {
		m.listed, m.lines = make([]bool, len(now.Calls)), m.lines[:0]
	}
	for i := range m.lines {
		m.fill(&m.lines[i])
	}
	for i, n := range now.Calls {
		if (n > 0 || now.timeOf(i) > 0) && !m.listed[i] && m.filter.matches(now.Book, i) {
			l := line{id: lineID{number: i}}
			m.fill(&l)
			if !m.onlyNew || l.isNew {
				m.listed[i] = true
				m.lines = append(m.lines, l)
			}
		}
	}
}

func (m *Model) fill(l *line) {
	now, i := m.shown.now, l.id.number
	l.calls, l.time = now.Calls[i], now.timeOf(i)
	l.recent = 0
	if m.shown.prev != nil {
		l.recent = since(l.calls, m.shown.prev.before(i, now))
	}
	l.since, l.isNew = 0, false
	if m.mark != nil {
		before := m.mark.before(i, now)
		l.since = since(l.calls, before)
		l.isNew = before == 0 && l.since > 0
	}
}

// objectLines adds up the functions of each object.
func (m *Model) objectLines() {
	now := m.shown.now
	list := make([]line, len(now.Book.Objects))
	for i := range list {
		list[i].id.number = i
	}
	for i, n := range now.Calls {
		if n == 0 && now.timeOf(i) == 0 {
			continue
		}
		l := line{id: lineID{number: i}}
		m.fill(&l)
		o := &list[now.Book.ObjectOf(i)]
		o.calls += l.calls
		o.recent += l.recent
		o.since += l.since
		o.time += l.time
		if n > 0 {
			o.extra++
		}
	}
	m.keep(list, func(l *line) string { return now.Book.Object(l.id.number) })
}

func (m *Model) threadLines() {
	now := m.shown.now
	prev, mark := m.shown.prev.threads(now), m.mark.threads(now)
	byID := map[ThreadID]int{}
	var list []line
	for _, t := range now.Threads {
		i, ok := byID[t.ThreadID]
		if !ok {
			i = len(list)
			byID[t.ThreadID] = i
			list = append(list, line{id: lineID{thread: t.ThreadID}})
		}
		list[i].calls += t.Calls
	}
	for i := range list {
		m.deltas(&list[i], prev[list[i].id.thread], mark[list[i].id.thread])
	}
	m.keep(list, func(l *line) string { return l.id.thread.String() })
}

func (m *Model) programLines() {
	prev, mark := m.shown.prev.programs(), m.mark.programs()
	var list []line
	names := map[string]string{}
	for _, p := range m.shown.now.Programs {
		l := line{id: lineID{table: p.Table}, calls: p.Calls, extra: p.Threads}
		before, ok := prev[p.Table]
		if !ok {
			before = p.Calls // it has just been found: how long it ran is not known
		}
		m.deltas(&l, before, mark[p.Table])
		names[p.Table] = p.Name
		list = append(list, l)
	}
	m.keep(list, func(l *line) string { return names[l.id.table] })
}

// deltas fills in what was counted since the reading before, and since the mark.
func (m *Model) deltas(l *line, prev, mark uint64) {
	if m.shown.prev != nil {
		l.recent = since(l.calls, prev)
	}
	if m.mark != nil {
		l.since, l.isNew = since(l.calls, mark), mark == 0
	}
}

// keep makes those the list that have calls and a name that is looked for.
func (m *Model) keep(list []line, name func(*line) string) {
	m.listed = nil // the list is no longer of functions
	m.lines = slices.DeleteFunc(list, func(l line) bool {
		return l.calls+l.time == 0 || m.onlyNew && !l.isNew || !m.filter.matchesName(name(&l))
	})
}

// compare orders two lines: most first, names by letter, the other way round if reversed.
func (m *Model) compare(a, b line) int {
	order := 0
	switch m.column {
	case byRate:
		order = cmp.Compare(b.recent, a.recent)
	case byCalls:
		order = cmp.Compare(b.calls, a.calls)
	case bySince:
		order = cmp.Compare(b.since, a.since)
	case byTime:
		order = cmp.Compare(b.time, a.time)
	case byObject:
		if m.group == Functions {
			book := m.shown.now.Book
			order = strings.Compare(book.Object(book.ObjectOf(a.id.number)), book.Object(book.ObjectOf(b.id.number)))
		}
	case byName:
		order = strings.Compare(m.name(a.id), m.name(b.id))
	}
	if m.reversed {
		order = -order
	}
	if order != 0 {
		return order
	}
	if order := cmp.Or(cmp.Compare(b.recent, a.recent), cmp.Compare(b.calls, a.calls), cmp.Compare(a.id.number, b.id.number)); order != 0 {
		return order
	}
	return cmp.Or(a.id.thread.compare(b.id.thread), strings.Compare(a.id.table, b.id.table))
}

func (t ThreadID) compare(u ThreadID) int {
	return cmp.Or(cmp.Compare(t.Pid, u.Pid), cmp.Compare(t.Tid, u.Tid), cmp.Compare(t.Incarnation, u.Incarnation))
}
