package top

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/symname"
)

// Styles. What a color says, a word or a sign says, too.
var (
	plain    = cells.Style{}
	bold     = cells.Style{Bold: true}
	dim      = cells.Style{Dim: true}
	reverse  = cells.Style{Reverse: true}
	heading  = cells.Style{Bold: true, Underlined: true}
	accent   = cells.Style{Color: cells.Cyan}
	graph    = cells.Style{Color: cells.Blue + cells.Bright}
	warning  = cells.Style{Color: cells.Yellow, Bold: true}
	keyStyle = cells.Style{Color: cells.Cyan, Bold: true}
)

// viewHeader shows what the program does as a whole, and what is selected.
func (m *Model) viewHeader(g *cells.Grid) {
	m.listTop = 4
	now := m.shown.now
	if now == nil {
		g.Put(0, 0, m.width, plain, "reading ...")
		return
	}
	m.viewTitle(g)
	m.viewRate(g, 1, &rateLine{bold, graph, "all", func(s *sample) float64 { return float64(s.total) }, m.total(), now.Total})
	if i := m.cursor; m.detail != nil {
		l := line{id: lineID{number: m.detail.function}}
		m.fill(&l)
		m.viewLine(g, &l, Functions)
	} else if i < len(m.lines) {
		m.viewLine(g, &m.lines[i], m.group)
	}
	if note := m.note(); note != "" {
		g.Put(0, 3, m.width, warning, note)
		m.listTop++
	}
}

// total is how many calls there were since the reading before.
func (m *Model) total() uint64 {
	now, prev := m.shown.now, m.shown.prev
	switch {
	case prev == nil:
		return 0
	case !prev.Reset.Equal(now.Reset):
		return now.Total
	}
	return since(now.Total, prev.Total)
}

// viewLine shows what is selected as the whole is shown.
func (m *Model) viewLine(g *cells.Grid, l *line, group Group) {
	count := func(s *sample) float64 { return s.of(l.id, group, m.shown.now.Book) }
	m.viewRate(g, 2, &rateLine{accent, accent, m.nameIn(group, l.id), count, l.recent, l.calls})
}

// viewTitle shows which program it is, what it does, and what the view does.
func (m *Model) viewTitle(g *cells.Grid) {
	now := m.shown.now
	right := now.Time.Local().Format("15:04:05")
	if m.mark != nil {
		right = fmt.Sprintf("mark %s  %s", figures.Clock(now.Time.Sub(m.mark.Time)), right)
	}
	at := m.width - len(right)
	g.Put(at, 0, len(right), plain, right)
	if m.frozen {
		at -= len(" FROZEN ") + 1
		g.Put(at, 0, m.width, reverse, " FROZEN ")
	}
	x := g.Put(0, 0, at-1, bold, symname.Clean(filepath.Base(now.Book.Program)))
	state := m.live.now // frozen or not, the user wants to know that it has ended
	text := fmt.Sprintf("  pid %d  %s", now.Book.Pid, state.State)
	if state.Running {
		text += fmt.Sprintf("  %s  threads %d", figures.Clock(now.Time.Sub(now.Book.Started)), now.Counting)
	}
	style := plain
	if !state.Running {
		style = warning
	}
	g.Put(x, 0, at-1-x, style, text)
}

// note is one line that says what is wrong, if something is.
func (m *Model) note() string {
	switch remarks := m.shown.now.Remarks; {
	case m.failed != nil:
		return symname.Clean(m.failed.Error())
	case len(remarks) > 1:
		return fmt.Sprintf("%s (and %d more: see hotspots report)", remarks[0], len(remarks)-1)
	case len(remarks) == 1:
		return remarks[0]
	}
	return ""
}

// graphAt is the column where sparklines begin: on 80 columns they have room for one of two
// seconds in each.
func (m *Model) graphAt() int { return max(m.width/2-2, min(38, m.width)) }

// viewRate shows calls a second, a name, calls, and a sparkline of the last minute.
func (m *Model) viewRate(g *cells.Grid, y int, r *rateLine) {
	at := m.graphAt()
	g.Put(0, y, 9, bold, fmt.Sprintf("%7s/s", m.rate(r.recent)))
	text := figures.Count(r.calls, "call")
	room := at - 1 - 11
	if cells.Width(r.name)+2+len(text) > room && r.style != bold {
		text = "" // the list has it
	}
	x := g.Put(11, y, room, r.style, r.name)
	g.Put(x+2, y, at-1-x-2, plain, text)
	list := buckets(m.shown.samples, m.Interval, min(60, m.width-at-len(" peak 1.23M")), r.count)
	most := slices.Max(list)
	for _, n := range list {
		style := r.graph
		if n <= 0 {
			style = dim
		}
		at = g.Put(at, y, 1, style, bar(n, most, m.ASCII))
	}
	if most > 0 {
		g.Put(at+1, y, m.width-at-1, dim, "peak "+figures.Short(most))
	}
}

// rateLine is a line at the top.
type rateLine struct {
	style, graph  cells.Style
	name          string
	count         func(*sample) float64
	recent, calls uint64
}

// rate is calls a second since the reading before.
func (m *Model) rate(recent uint64) string {
	if seconds := m.shown.seconds(); seconds > 0 {
		return figures.Short(rate(recent, seconds))
	}
	return "-"
}

// viewFooter shows keys, or the filter.
func (m *Model) viewFooter(g *cells.Grid) {
	y := m.height - 1
	if m.typing {
		x := g.Put(0, y, m.width, bold, "/")
		x = g.Put(x, y, m.width-x, plain, m.filter.text)
		x = g.Put(x, y, 1, reverse, " ")
		g.Put(x+2, y, m.width-x-2, dim, m.found()+"  Enter keeps, Esc clears")
		return
	}
	end := m.width
	if m.filter.text != "" && m.detail == nil {
		text := fmt.Sprintf("/%s: %s", m.filter.text, m.found())
		end = max(0, m.width-cells.Width(text)-1)
		g.Put(end+1, y, m.width, warning, text)
	}
	x := 0
	for _, k := range m.footer() {
		if keys := m.plainKeys(k[0]); x+cells.Width(keys)+cells.Width(k[1])+1 <= end {
			x = g.Put(x, y, m.width, keyStyle, keys)
			x = g.Put(x+1, y, m.width-x-1, plain, k[1]) + 2
		}
	}
}

// found says how many lines there are.
func (m *Model) found() string {
	word := groupNames[m.group]
	if len(m.lines) == 1 {
		word = Groups[m.group]
	}
	return figures.Thousands(uint64(len(m.lines))) + " " + word
}

// footer is keys and what they do, those first that are to be seen in any case.
func (m *Model) footer() [][2]string {
	if m.detail != nil {
		return [][2]string{{"Esc", "back"}, {"↑↓", "scroll"}, {"z", m.freezeWord()}, {"q", "quit"}}
	}
	enter := [...]string{"details", "functions", "", "open"}[m.group]
	keys := [][2]string{{"q", "quit"}, {"?", "help"}, {"/", "filter"}, {"s", "sort"}, {"Tab", "by " + groupNames[(m.group+1)%Group(len(groupNames))]}}
	if enter != "" {
		keys = append(keys, [2]string{"Enter", enter})
	}
	keys = append(keys, [2]string{"z", m.freezeWord()}, [2]string{"m", "mark"})
	if m.mark != nil {
		word := "only new"
		if m.onlyNew {
			word = "all"
		}
		keys = append(keys, [2]string{"n", word}, [2]string{"M", "no mark"})
	}
	return keys
}

func (m *Model) freezeWord() string {
	if m.frozen {
		return "go on"
	}
	return "freeze"
}

// of is how many calls of a line there were in a sample.
func (s *sample) of(id lineID, group Group, book *Book) (n float64) {
	switch group {
	case Functions:
		if i, ok := slices.BinarySearch(s.functions, uint32(id.number)); ok {
			return float64(s.calls[i])
		}
	case Objects:
		for i, f := range s.functions {
			if book.ObjectOf(int(f)) == id.number {
				n += float64(s.calls[i])
			}
		}
	case Threads:
		return float64(s.threads[id.thread])
	case Programs:
		calls, ok := s.programs[id.table]
		if !ok {
			return -1
		}
		return float64(calls)
	}
	return n
}

// name is how a line is shown.
func (m *Model) name(id lineID) string { return m.nameIn(m.group, id) }

func (m *Model) nameIn(group Group, id lineID) string {
	now := m.shown.now
	switch group {
	case Objects:
		return now.Book.Object(id.number)
	case Threads:
		return id.thread.String()
	case Programs:
		i := slices.IndexFunc(now.Programs, func(p Program) bool { return p.Table == id.table })
		if i < 0 {
			return ""
		}
		return symname.Clean(filepath.Base(now.Programs[i].Name))
	}
	return now.Book.Name(id.number)
}

// String is how a thread is shown.
func (t ThreadID) String() string {
	switch {
	case t.Pid == 0:
		return "threads that have ended"
	case t.Tid == t.Pid:
		return fmt.Sprintf("%d (first)", t.Tid)
	}
	return fmt.Sprint(t.Tid)
}

// middle is a text cut in the middle: the beginning of an object's name and its version tell
// it from others.
func middle(text string, width int) string {
	if cells.Width(text) <= width || width < 4 {
		return text
	}
	runes := []rune(text)
	tail := (width - 2) / 2
	return strings.TrimSpace(string(runes[:max(0, width-2-tail)])) + ".." + string(runes[len(runes)-tail:])
}
