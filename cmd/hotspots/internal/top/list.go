package top

import (
	"fmt"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/symname"
)

// head is the head of a column.
type head struct {
	title    string
	x, width int
	right    bool // figures
	sorts    bool
	column   column
	text     func(l *line) string
}

// trend is how many samples the small sparkline of a line has.
const trend = 10

// viewList shows the list, and the events below it.
func (m *Model) viewList(g *cells.Grid) {
	if m.shown.now == nil {
		return
	}
	m.page = max(1, m.height-1-m.listTop-m.viewEvents(g))
	m.scroll()
	m.heads = m.layOut()
	m.viewHeads(g)
	for i := range min(m.page, len(m.lines)-m.first) {
		m.viewRow(g, m.listTop+i, m.first+i)
	}
	if len(m.lines) == 0 {
		g.Put(2, m.listTop, m.width-2, dim, m.whyEmpty())
	}
}

func (m *Model) whyEmpty() string {
	switch {
	case m.onlyNew:
		return "nothing was called for the first time since the mark: n shows all"
	case m.filter.text != "":
		return "nothing that was called has that in its name: Esc clears the filter"
	}
	return "nothing has been called yet"
}

// layOut decides which columns there are, and where.
func (m *Model) layOut() []head {
	total := m.shown.now.Total
	most := total // but of other programs, and where a sum has overflowed
	for i := range m.lines {
		most = max(most, m.lines[i].calls)
	}
	digits := max(len("vCALLS"), len(figures.Thousands(most))) // numbers are never cut
	list := []head{
		{title: "CALLS/S", width: 8, right: true, sorts: true, column: byRate, text: func(l *line) string { return m.rate(l.recent) }},
		{title: "CALLS", width: digits, right: true, sorts: true, column: byCalls, text: func(l *line) string { return figures.Thousands(l.calls) }},
	}
	const roomy, wide = 60, 100
	if m.group != Programs && (m.width >= wide || m.width >= roomy && m.mark == nil) {
		list = append(list, head{title: "SHARE", width: 7, right: true, text: func(l *line) string { return figures.Share(l.calls, total) }})
	}
	if m.mark != nil {
		list = append(list, head{title: "SINCE", width: digits + len("new "), right: true, sorts: true, column: bySince, text: sinceText})
	}
	if m.hasTime() && (m.width >= wide || m.width >= roomy && m.mark == nil) {
		list = append(list, m.timeHeads(m.width >= wide)...)
	}
	if m.width >= wide {
		list = append(list, head{title: "TREND", width: trend})
	}
	list = append(list, m.named()...)
	x := 0
	for i := range list {
		h := &list[i]
		if h.x = x; h.width == 0 {
			h.width = max(m.width-x, 0)
		}
		x += h.width + 2
	}
	return list
}

// timeHeads are the columns of CPU time: its share of all, and what a call took.
func (m *Model) timeHeads(both bool) []head {
	total, reset := m.shown.now.TotalTime, !m.shown.now.Reset.IsZero()
	list := []head{{title: "TIME%", width: 7, right: true, sorts: true, column: byTime, text: func(l *line) string { return figures.Share(l.time, total) }}}
	if both {
		list = append(list, head{title: "A CALL", width: 7, right: true, text: func(l *line) string {
			if l.calls == 0 || l.time == 0 || reset {
				return "-"
			}
			return figures.Nanoseconds(float64(l.time) / float64(l.calls))
		}})
	}
	return list
}

func sinceText(l *line) string {
	text := figures.Thousands(l.since)
	if l.isNew {
		text = "new " + text
	}
	return text
}

// named are the columns that say what a line is.
func (m *Model) named() []head {
	now := m.shown.now
	switch m.group {
	case Objects:
		return []head{
			{title: "CALLED", width: 9, right: true, text: func(l *line) string { return figures.Thousands(uint64(l.extra)) }},
			{title: "OBJECT", sorts: true, column: byName, text: func(l *line) string { return symname.Clean(now.Book.Objects[l.id.number].Path) }},
		}
	case Threads:
		return []head{
			{title: "PID", width: 8, right: true, text: func(l *line) string { return number(l.id.thread.Pid) }},
			{title: "THREAD", sorts: true, column: byName, text: func(l *line) string { return m.name(l.id) }},
		}
	case Programs:
		programs := map[string]*Program{}
		for i := range now.Programs {
			programs[now.Programs[i].Table] = &now.Programs[i]
		}
		return []head{
			{title: "PID", width: 8, right: true, text: func(l *line) string { return number(programs[l.id.table].Pid) }},
			{title: "THREADS", width: 7, right: true, text: func(l *line) string { return fmt.Sprint(l.extra) }},
			{title: "PROGRAM", sorts: true, column: byName, text: func(l *line) string {
				p := programs[l.id.table]
				if name := symname.Clean(p.Name); p.Running {
					return name
				} else {
					return name + " (ended)"
				}
			}},
		}
	}
	object := min(28, max(10, m.width/6))
	return []head{
		{title: "OBJECT", width: object, sorts: true, column: byObject, text: func(l *line) string { return middle(now.Book.Object(now.Book.ObjectOf(l.id.number)), object) }},
		{title: "FUNCTION", sorts: true, column: byName, text: func(l *line) string { return m.name(l.id) }},
	}
}

func number(n uint32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// viewHeads shows the heads of the columns, with a sign at the one that is sorted by.
func (m *Model) viewHeads(g *cells.Grid) {
	y := m.listTop - 1
	g.Fill(0, y, m.width, heading)
	for _, h := range m.heads {
		title := h.title
		if h.sorts && h.column == m.column {
			sign := "v"
			switch {
			case m.reversed && m.ASCII:
				sign = "^"
			case m.reversed:
				sign = "▲"
			case !m.ASCII:
				sign = "▼"
			}
			title = sign + title
		}
		m.cell(g, y, &h, heading, title)
	}
}

// cell shows a text in a column.
func (m *Model) cell(g *cells.Grid, y int, h *head, style cells.Style, text string) {
	x := h.x
	if h.right {
		x += max(0, h.width-cells.Width(text))
	}
	g.Put(x, y, h.x+h.width-x, style, text)
}

func (m *Model) viewRow(g *cells.Grid, y, i int) {
	l := &m.lines[i]
	selected := i == m.cursor
	for k := range m.heads {
		h := &m.heads[k]
		style := plain
		switch {
		case selected:
			style = reverse
		case l.isNew && h.column == bySince && h.sorts:
			style = warning
		case h.title == "OBJECT" && m.group == Functions:
			style = accent
		case h.column == byRate && h.sorts && l.recent > 0:
			style = bold
		case l.recent == 0 && h.column != byName:
			style = dim
		}
		if selected && k == 0 {
			g.Fill(0, y, m.width, reverse)
		}
		if h.title == "TREND" {
			m.viewTrend(g, h.x, y, l, style)
			continue
		}
		m.cell(g, y, h, style, h.text(l))
	}
	m.viewHot(g, y, l, selected)
}

// viewHot says at the end of a function's line that it has become hot.
func (m *Model) viewHot(g *cells.Grid, y int, l *line, selected bool) {
	const word = " hot"
	if m.group != Functions || m.shown.now.Hot == nil || !m.shown.now.Hot(l.id.number) {
		return
	}
	style := cells.Style{Color: cells.Red, Reverse: selected}
	g.Put(m.width-len(word), y, len(word), style, word)
}

// viewTrend shows the last samples of a line.
func (m *Model) viewTrend(g *cells.Grid, x, y int, l *line, style cells.Style) {
	if m.group == Objects {
		return // to add up all functions for each line would be much
	}
	if !style.Reverse {
		style = graph
	}
	samples := m.shown.samples[max(0, len(m.shown.samples)-trend):]
	most, counts := 0.0, make([]float64, len(samples))
	for i, s := range samples {
		counts[i] = s.of(l.id, m.group, m.shown.now.Book) / s.seconds
		most = max(most, counts[i])
	}
	x += trend - len(samples)
	for _, n := range counts {
		text := " " // a line that does nothing is to be quiet
		if n > 0 {
			text = bar(n, most, m.ASCII)
		}
		x = g.Put(x, y, 1, style, text)
	}
}

// viewEvents shows the last functions that became hot, and returns how many lines that takes.
func (m *Model) viewEvents(g *cells.Grid) int {
	events := m.shown.now.Events
	if len(events) == 0 && m.shown.now.Threshold == 0 {
		return 0
	}
	const most, least = 4, 1
	n := least
	switch {
	case m.eventsOpen:
		n = max(least, m.height/2)
	case m.height >= 40:
		n = most
	case m.height >= 20:
		n = most / 2
	}
	top := m.height - 1 - n - 1
	title := fmt.Sprintf("%s functions became hot", figures.Thousands(uint64(len(events))))
	if len(events) == 1 {
		title = "1 function became hot"
	}
	g.Fill(0, top, m.width, heading)
	g.Put(0, top, m.width, heading, title)
	events = events[max(0, len(events)-n):]
	for i := range events {
		e := &events[len(events)-1-i]
		name := "a function that came later"
		if e.Function >= 0 && e.Function < len(m.shown.now.Book.Functions) {
			name = m.shown.now.Book.Name(e.Function)
		}
		text := fmt.Sprintf("%s  %s calls  thread %d  %s  ", e.Time.Local().Format("15:04:05.000"), figures.Thousands(e.Calls), e.Tid, e.Outcome)
		x := g.Put(0, top+1+i, m.width, plain, text)
		g.Put(x, top+1+i, m.width-x, accent, name)
	}
	return n + 1
}
