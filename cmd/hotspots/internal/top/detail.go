package top

import (
	"fmt"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/symname"
)

// Detail is all that is known of a function beyond a Frame. It must not change any more.
type Detail struct {
	Function int
	Threads  []Thread // rows of the table with calls of it, since the program began; most first
	Shared   bool     // some rows had other owners before
	Callers  []Edge   // most calls first
	Callees  []Edge
	NoEdges  string // why these are not known
	Code     []Text // instructions
	NoCode   string // why there are none
}

// Edge is calls from or to another function.
type Edge struct {
	Name, Kind string
	Calls      uint64
}

// Text is a line.
type Text struct {
	Text string
	Hot  bool // it stands out
}

// detailView is what is shown of one function.
type detailView struct {
	function int
	detail   *Detail // nil until it has been read
	first    int     // line
	lines    int
	page     int
}

// Detail adds what has been read of a function.
func (m *Model) Detail(d *Detail) {
	if m.detail != nil && m.detail.function == d.Function && (!m.frozen || m.detail.detail == nil) {
		m.detail.detail = d
	}
}

// detailKey is what a key does there.
func (m *Model) detailKey(e cells.Event) Action {
	d := m.detail
	switch e.Key {
	case cells.Escape, cells.Enter, cells.Left, cells.Backspace:
		m.detail = nil
	case cells.Up:
		d.first--
	case cells.Down:
		d.first++
	case cells.WheelUp:
		d.first -= wheel
	case cells.WheelDown:
		d.first += wheel
	case cells.PageUp:
		d.first -= d.page
	case cells.PageDown:
		d.first += d.page
	case cells.Home:
		d.first = 0
	case cells.End:
		d.first = d.lines
	case cells.Rune:
		return m.detailCommand(e.Rune)
	}
	return Nothing
}

func (m *Model) detailCommand(r rune) Action {
	d := m.detail
	switch r {
	case 'j':
		d.first++
	case 'k':
		d.first--
	case 'g':
		d.first = 0
	case 'G':
		d.first = d.lines
	case ' ':
		d.first += d.page
	case 'q':
		return Quit
	case '?', 'z', 'm', 'M':
		return m.command(r)
	}
	return Nothing
}

// styled is a line of the detail pane.
type styled struct {
	style cells.Style
	label string // in front, in another style
	text  string
}

// viewDetail shows the function.
func (m *Model) viewDetail(g *cells.Grid) {
	d := m.detail
	if m.shown.now == nil {
		return
	}
	lines := m.detailLines()
	top := m.listTop - 1
	d.page, d.lines = max(1, m.height-1-top), len(lines)
	d.first = max(0, min(d.first, d.lines-d.page))
	for i := range min(d.page, d.lines-d.first) {
		l := &lines[d.first+i]
		x := g.Put(0, top+i, m.width, accent, l.label)
		g.Put(x, top+i, m.width-x, l.style, l.text)
		if l.style == heading {
			g.Fill(0, top+i, m.width, heading)
		}
	}
	if more := d.lines - d.first - d.page; more > 0 {
		text := fmt.Sprintf(" %d more lines ", more)
		g.Put(m.width-len(text), m.height-1, len(text), dim, text)
	}
}

func (m *Model) detailLines() (lines []styled) {
	now := m.shown.now
	book, f := now.Book, &now.Book.Functions[m.detail.function]
	o := &book.Objects[f.Object]
	say := func(label, format string, args ...any) {
		const indent = 10
		for _, part := range chunks(fmt.Sprintf(format, args...), m.width-indent) {
			lines = append(lines, styled{label: fmt.Sprintf("%-*s", indent, label), text: part})
			label = ""
		}
	}
	for _, part := range chunks(book.Name(m.detail.function), m.width) {
		lines = append(lines, styled{style: heading, text: part})
	}
	say("object", "%s", symname.Clean(o.Path))
	if o.BuildID != "" {
		say("build ID", "%s", symname.Clean(o.BuildID))
	}
	say("address", "%#x, %d bytes, known from %s", f.Address, f.Size, f.Source)
	how := "counted by " + f.Tactic.String()
	if !f.Counted() {
		how = "not counted: " + f.Reason.String()
	}
	if now.Hot != nil && now.Hot(m.detail.function) {
		how += ", hot"
	}
	say("tactic", "%s", how)
	if f.Name != "" && f.Name != book.Name(m.detail.function) {
		say("symbol", "%s", symname.Clean(f.Name))
	}
	for i, a := range f.Aliases {
		label := ""
		if i == 0 {
			label = "aliases"
		}
		say(label, "%s", symname.Display(a, o.Path, f.Address, !book.Mangled))
	}
	l := line{id: lineID{number: m.detail.function}}
	m.fill(&l)
	say("calls", "%s, %s of all", figures.Thousands(l.calls), figures.Share(l.calls, now.Total))
	if m.mark != nil {
		say("", "%s since the mark", sinceText(&l))
	}
	if now.Times != nil {
		say("CPU time", "%s, %s of all, sampled: hotspots report says what it may be off by", figures.Nanoseconds(float64(l.time)), figures.Share(l.time, now.TotalTime))
	}
	d := m.detail.detail
	if d == nil {
		return append(lines, styled{}, styled{style: dim, text: "reading the file ..."})
	}
	return d.add(lines)
}

// add adds what had to be read.
func (d *Detail) add(lines []styled) []styled {
	put := func(style cells.Style, format string, args ...any) {
		lines = append(lines, styled{style: style, text: fmt.Sprintf(format, args...)})
	}
	head := func(text string) { lines = append(lines, styled{}, styled{style: heading, text: text}) }
	if len(d.Threads) > 0 {
		note := ""
		if d.Shared {
			note = ", some with those of threads that ended before"
		}
		head(fmt.Sprintf("%-16s  THREAD  (since the program began%s)", fmt.Sprintf("%16s", "CALLS"), note))
		for _, t := range d.Threads {
			who := t.String()
			if t.Tid != t.Pid && t.Pid != 0 {
				who += fmt.Sprintf(" of %d", t.Pid)
			}
			put(plain, "%16s  %s", figures.Thousands(t.Calls), who)
		}
	}
	for _, part := range []struct {
		title string
		edges []Edge
	}{{"CALLER", d.Callers}, {"CALLEE", d.Callees}} {
		if len(part.edges) == 0 {
			continue
		}
		head(fmt.Sprintf("%16s  %-9s  %s", "CALLS", "KIND", part.title))
		for _, e := range part.edges {
			put(plain, "%16s  %-9s  %s", figures.Thousands(e.Calls), e.Kind, e.Name)
		}
	}
	if d.NoEdges != "" {
		lines = append(lines, styled{}, styled{style: dim, text: "callers: " + d.NoEdges})
	}
	if d.NoCode != "" {
		return append(lines, styled{}, styled{style: dim, text: "code: " + d.NoCode})
	}
	lines = append(lines, styled{})
	for i, t := range d.Code {
		style := plain
		switch {
		case i == 0:
			style = heading
		case t.Hot:
			style = cells.Style{Color: cells.Red, Bold: true}
		case strings.HasSuffix(t.Text, ":"):
			style = dim
		}
		put(style, "%s", t.Text)
	}
	return lines
}

// chunks cuts a text into lines: names may be very long.
func chunks(text string, width int) (lines []string) {
	from, columns := 0, 0
	for i, r := range text {
		n := cells.Width(string(r))
		if columns += n; columns > max(width, 1) && i > from {
			lines = append(lines, text[from:i])
			from, columns = i, n
		}
	}
	return append(lines, text[from:])
}
