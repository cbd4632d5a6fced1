// Package cells is what a terminal shows and says: a grid of cells, the bytes that turn
// one grid into the next, and the keys and clicks in the bytes that come back.
package cells

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Color is one of the sixteen that every terminal has, or its own.
type Color uint8

// Colors: the eight; Bright is added for the others.
const (
	Default Color = iota
	Black
	Red
	Green
	Yellow
	Blue
	Magenta
	Cyan
	White
	Bright Color = 8
)

// Style is how a cell looks.
type Style struct {
	Color                          Color
	Bold, Dim, Reverse, Underlined bool
}

// Cell is a column of a line. The second of a wide character is empty.
type Cell struct {
	Text  string
	Style Style
}

// Grid is a screen of cells.
type Grid struct {
	Width, Height int
	ASCII         bool // the terminal shows nothing else
	cells         []Cell
}

// New makes an empty grid.
func New(width, height int) *Grid {
	width, height = max(width, 0), max(height, 0)
	g := &Grid{Width: width, Height: height, cells: make([]Cell, width*height)}
	for i := range g.cells {
		g.cells[i].Text = " "
	}
	return g
}

// At is the cell in column x of line y.
func (g *Grid) At(x, y int) *Cell { return &g.cells[y*g.Width+x] }

// Put writes text into line y from column x on, at most width columns of it, and returns
// the column behind it. What does not fit is left out; what is no character that can be
// shown, a control character above all, is replaced.
func (g *Grid) Put(x, y, width int, style Style, text string) int {
	end := min(g.Width, x+max(width, 0))
	if y < 0 || y >= g.Height {
		return x
	}
	for text != "" && x < end {
		part, rest, columns := next(text, g.ASCII)
		text = rest
		if columns == 0 {
			continue
		}
		if x+columns > end {
			break
		}
		if x >= 0 {
			*g.At(x, y) = Cell{part, style}
			for i := 1; i < columns; i++ {
				*g.At(x+i, y) = Cell{"", style}
			}
		}
		x += columns
	}
	return x
}

// next takes the first character off text, with the columns that it has.
func next(text string, ascii bool) (part, rest string, columns int) {
	if c := text[0]; c >= ' ' && c <= '~' && (len(text) == 1 || text[1] < utf8.RuneSelf) {
		return text[:1], text[1:], 1
	}
	part, rest, columns, _ = uniseg.FirstGraphemeClusterInString(text, -1)
	hidden := strings.ContainsFunc(part, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
	switch {
	case ascii:
		return "?", rest, 1
	case hidden:
		return "\uFFFD", rest, 1
	}
	return part, rest, columns
}

// Width is how many columns a text has.
func Width(text string) (columns int) {
	for text != "" {
		_, rest, n := next(text, false)
		text, columns = rest, columns+n
	}
	return columns
}

// Fill gives width columns of line y a style, from column x on.
func (g *Grid) Fill(x, y, width int, style Style) {
	for i := max(x, 0); i < min(g.Width, x+width); i++ {
		g.At(i, y).Style = style
	}
}

// Text is what the grid shows, without styles: lines without blanks at their ends.
func (g *Grid) Text() string {
	var out strings.Builder
	for y := range g.Height {
		var line strings.Builder
		for x := range g.Width {
			line.WriteString(g.At(x, y).Text)
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}
