package cells

import (
	"bytes"
	"fmt"
)

// Painter makes the bytes that a terminal is sent.
type Painter struct {
	NoColor bool // only bold, dim, reversed and underlined
	shown   *Grid
}

// Forget has the next grid painted as a whole: somebody else has written to the terminal.
func (p *Painter) Forget() { p.shown = nil }

// A terminal that knows this shows all that is in between at once; others ignore it.
const (
	beginUpdate = "\x1b[?2026h"
	endUpdate   = "\x1b[?2026l"
)

// Paint is what turns the grid that was painted last into this one; nothing if it is the
// same. The grid must not change any more.
func (p *Painter) Paint(g *Grid) []byte {
	var out bytes.Buffer
	whole := p.shown == nil || p.shown.Width != g.Width || p.shown.Height != g.Height
	if whole {
		out.WriteString("\x1b[0m\x1b[2J")
	}
	style := Style{}
	for y := range g.Height {
		p.line(&out, g, y, whole, &style)
	}
	p.shown = g
	if out.Len() == 0 {
		return nil
	}
	if style != (Style{}) {
		out.WriteString("\x1b[0m")
	}
	return append(append([]byte(beginUpdate), out.Bytes()...), endUpdate...)
}

// line paints what has changed in a line.
func (p *Painter) line(out *bytes.Buffer, g *Grid, y int, whole bool, style *Style) {
	at := -1 // the column where the cursor is, in this line
	for x := 0; x < g.Width; x++ {
		c := g.At(x, y)
		if c.Text == "" {
			continue // the character before has painted it
		}
		wide := x+1 < g.Width && g.At(x+1, y).Text == ""
		same := !whole && *c == *p.shown.At(x, y) && (!wide || g.At(x+1, y).Text == p.shown.At(x+1, y).Text)
		if same || whole && *c == (Cell{Text: " "}) {
			continue
		}
		if at != x {
			fmt.Fprintf(out, "\x1b[%d;%dH", y+1, x+1)
		}
		if c.Style != *style {
			*style = c.Style
			p.style(out, c.Style)
		}
		out.WriteString(c.Text)
		at = x + 1
		if wide || c.Text[0] >= 0x80 {
			at = -1 // terminals do not agree on how wide that is
		}
	}
}

func (p *Painter) style(out *bytes.Buffer, s Style) {
	out.WriteString("\x1b[0")
	for _, a := range []struct {
		on   bool
		code string
	}{{s.Bold, ";1"}, {s.Dim, ";2"}, {s.Underlined, ";4"}, {s.Reverse, ";7"}} {
		if a.on {
			out.WriteString(a.code)
		}
	}
	switch {
	case s.Color == Default || p.NoColor:
	case s.Color > Bright:
		fmt.Fprintf(out, ";%d", 90+s.Color-Bright-Black)
	default:
		fmt.Fprintf(out, ";%d", 30+s.Color-Black)
	}
	out.WriteString("m")
}
