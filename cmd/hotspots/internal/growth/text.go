package growth

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

// JSON writes the functions.
func (g *Growth) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*Growth
	}{report.Schema, g}, "functions", g.first())
}

// Text writes a line for each function: its count at each size, the model that fits best,
// and those that do about as well, and the exponent; then pictures of the first plots of them.
func (g *Growth) Text(w io.Writer, style report.Style, plots int) error {
	var faster int
	for _, f := range g.Functions {
		if f.Faster {
			faster++
		}
	}
	if _, err := fmt.Fprintf(w, "%s: %s of %d functions at %d sizes; %d grow faster than the input\n", g.Program, g.Value, len(g.Functions), len(g.Sizes), faster); err != nil {
		return err
	}
	heading, columns, unsure := "", g.columns(), false
	for _, i := range columns {
		heading += "n=" + short(g.Sizes[i]) + "\t"
	}
	var rows [][3]string
	for _, f := range g.first() {
		numbers := ""
		for _, i := range columns {
			numbers += short(float64(f.Counts[i])) + "\t"
		}
		unsure = unsure || !f.sure()
		rows = append(rows, [3]string{numbers + f.growth() + "\t" + f.exponent(), filepath.Base(f.Object), f.Name})
	}
	if err := report.Rows(w, style, [3]string{heading + "GROWTH\tEXPONENT", "OBJECT", "FUNCTION"}, rows); err != nil {
		return err
	}
	if unsure {
		if _, err := fmt.Fprintln(w, "?: another model fits about as well; more sizes, or more distant ones, tell them apart"); err != nil {
			return err
		}
	}
	return g.plots(w, style, plots)
}

// columns are the sizes that have a column, which there is room for: the first and the last,
// and some between them.
func (g *Growth) columns() (list []int) {
	const most = 4
	last := len(g.Sizes) - 1
	for i := range min(most, len(g.Sizes)) {
		list = append(list, i*last/(min(most, len(g.Sizes))-1))
	}
	return list
}

// growth is the best model, with a question mark where another may be the true one.
func (f *Function) growth() string {
	if !f.sure() {
		return "? " + f.Model
	}
	return f.Model
}

func (f *Function) exponent() string {
	if f.Exponent == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f ± %.2f", *f.Exponent+0, *f.ExponentError) // + 0: -0 is 0
}

// short is a number in few characters: whole to 9,999, then with four digits and k, M, G, T.
func short(n float64) string {
	const whole = 10_000
	if n < whole {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	for _, unit := range []string{"k", "M", "G", "T", "P"} {
		if n /= 1000; n < 999.95 {
			text := strconv.FormatFloat(n, 'f', 3-len(strconv.Itoa(int(n)))+1, 64)
			if strings.Contains(text, ".") {
				text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
			}
			return text + unit
		}
	}
	return strconv.FormatFloat(n*1e15, 'g', 4, 64)
}

// Plots in a terminal: so many characters of 2 by 4 dots, so many of them beside each other.
const (
	plotWidth, plotHeight = 22, 6
	beside                = 3
)

// plots draws the first functions, with both axes logarithmic.
func (g *Growth) plots(w io.Writer, style report.Style, n int) error {
	list := g.first()
	list = list[:min(n, len(list))]
	for len(list) > 0 {
		row := list[:min(beside, len(list))]
		list = list[len(row):]
		lines := make([]string, plotHeight+3)
		for _, f := range row {
			for i, line := range g.plot(f, style) {
				lines[i] += line + "   "
			}
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// plot is the lines of a picture, each of the same width.
func (g *Growth) plot(f *Function, style report.Style) []string {
	s := g.scale(f)
	var c canvas
	for x := range plotWidth * 2 {
		n := s.sizeAt((float64(x) + 0.5) / (plotWidth * 2))
		if y, ok := s.y(f.Fits[0].at(n)); ok {
			c.set(x, y, plotHeight*4)
		}
	}
	for i, n := range g.Sizes {
		x := int(s.x(n) * (plotWidth*2 - 1))
		if y, ok := s.y(float64(f.Counts[i])); ok && f.Counts[i] > 0 {
			for _, dx := range []int{-1, 0, 1} {
				for _, dy := range []float64{-1, 0, 1} {
					c.set(x+dx, y+dy/(plotHeight*4), plotHeight*4)
				}
			}
		}
	}
	left, right := "n="+short(g.Sizes[0]), short(g.Sizes[len(g.Sizes)-1])
	axis := left + strings.Repeat(" ", max(1, plotWidth-utf8.RuneCountInString(left+right))) + right
	lines := []string{"", style.Bold(cut(f.Name, plotWidth))}
	for y := range plotHeight {
		lines = append(lines, c.line(y))
	}
	return append(lines, cut(axis, plotWidth))
}

// cut is text of that width.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-len(runes))
}

// canvas is dots, eight in a character of Unicode's Braille patterns.
type canvas [plotHeight][plotWidth]rune

// set sets the dot at column x, and y of the height, from 0 at the bottom to 1.
func (c *canvas) set(x int, y float64, dots int) {
	row := dots - 1 - int(y*float64(dots-1)+0.5)
	if x < 0 || x >= plotWidth*2 || row < 0 || row >= dots {
		return
	}
	bits := [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}
	c[row/4][x/2] |= bits[row%4][x%2]
}

func (c *canvas) line(y int) string {
	const blank = 0x2800
	var b strings.Builder
	for _, dots := range c[y] {
		b.WriteRune(blank + dots)
	}
	return b.String()
}
