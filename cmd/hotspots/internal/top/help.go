package top

import (
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
)

// keys are what the help shows.
var keys = [][2]string{
	{"↑ ↓ j k", "one line; PgUp PgDn a page, g G the first and last"},
	{"Tab", "by functions, objects, threads, programs: f o t p"},
	{"Enter", "all about a function; the functions of an object; another program"},
	{"Esc", "back, or no filter"},
	{"/", "only names or objects with this in them, as you type"},
	{"s  S", "sort by the next column; the other way round"},
	{"z", "freeze what is shown, and go on; keys still work"},
	{"m  M", "mark: count from now on, and show what is new; no mark"},
	{"n", "only what is new since the mark"},
	{"e", "more of the functions that became hot"},
	{"mouse", "wheel; a click on a line, or on the head of a column to sort by it"},
	{"Ctrl-L", "draw the screen again"},
	{"q", "quit"},
}

// facts are what the columns mean.
var facts = [][2]string{
	{"CALLS/S", "calls a second since the last reading"},
	{"CALLS", "all, exactly, since the program began or was reset; SHARE of all calls"},
	{"TIME%", "of the CPU time, sampled (hotspots run --time); A CALL took that"},
	{"SINCE", "calls since the mark, new if there were none before"},
	{"TREND", "the last ten readings; at the top, the last minute"},
	{"CALLED", "functions of the object that were called"},
}

func (m *Model) viewHelp(g *cells.Grid) {
	g.Fill(0, 0, m.width, heading)
	g.Put(0, 0, m.width, heading, "hotspots top: every call of every function, counted")
	y := 2
	for _, k := range keys {
		g.Put(1, y, 9, keyStyle, m.plainKeys(k[0]))
		g.Put(11, y, m.width-11, plain, k[1])
		y++
	}
	y++
	for _, f := range facts {
		g.Put(1, y, 9, bold, f[0])
		g.Put(11, y, m.width-11, plain, f[1])
		y++
	}
	g.Put(0, m.height-1, m.width, dim, "any key goes back")
}

// plainKeys names arrows where they cannot be shown.
func (m *Model) plainKeys(text string) string {
	if m.ASCII {
		text = strings.NewReplacer("↑ ↓", "arrows", "↑↓", "arrows").Replace(text)
	}
	return text
}
