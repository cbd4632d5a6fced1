package growth

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// Layout of the picture, in pixels.
const (
	svgWidth, svgHeight            = 860, 520
	plotLeft, plotRight            = 80, 560
	plotTop, plotBottom            = 70, 460
	lineSteps                      = 60 // of a curve
	labelHeight                    = 17
	labelRoom                      = 34 // characters of a name
	textSize, smallSize, titleSize = 13, 12, 17
)

// colors are those of Okabe and Ito, "Color Universal Design", which people with any color
// vision tell apart; but for yellow, which is too light for lines.
var colors = []string{"#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// SVG draws the first functions: points are counts, lines the models that fit best, on
// logarithmic axes, on which a power law is a straight line.
func (g *Growth) SVG(w io.Writer) error {
	out := bufio.NewWriter(w)
	list := g.first()
	s := g.scale(list...)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="%d">`+"\n", svgWidth, svgHeight, textSize)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="28" font-size="%d" font-weight="bold">%s</text>`+"\n", 24, titleSize, html.EscapeString(g.Program))
	fmt.Fprintf(out, `<text x="%d" y="48" fill="#555">%s of functions by size of the input, both logarithmic; those that grow fastest first</text>`+"\n", 24, g.Value)
	g.axes(out, &s)
	x, y := g.slope(out, &s)
	for _, l := range g.labels(list, &s) {
		g.series(out, list[l.number], &s, colors[l.number%len(colors)], l.y)
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" fill="#777" font-size="%d" text-anchor="end" stroke="#fff" stroke-width="4" paint-order="stroke">as the input</text>`+"\n", x-2, y+smallSize+10, smallSize)
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func plotX(x float64) float64 { return plotLeft + x*(plotRight-plotLeft) }
func plotY(y float64) float64 { return plotBottom - y*(plotBottom-plotTop) }

// axes draws the frame, a tick for each size, and one for powers of ten of the counts.
func (g *Growth) axes(out io.Writer, s *scale) {
	fmt.Fprintf(out, `<g stroke="#ccc"><path d="M%d %dV%dH%d" fill="none" stroke="#888"/>`, plotLeft, plotTop, plotBottom, plotRight)
	var text string
	last := math.Inf(-1)
	for _, n := range g.Sizes {
		x := plotX(s.x(n))
		fmt.Fprintf(out, `<path d="M%.1f %dv5" stroke="#888"/>`, x, plotBottom)
		const room = 42
		if x-last >= room {
			text += fmt.Sprintf(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, plotBottom+20, short(n))
			last = x
		}
	}
	first, end := int(math.Ceil(s.bottom/math.Ln10-0.01)), int(math.Floor(s.top/math.Ln10+0.01))
	step := 1 + (end-first)/8 // so that there are few
	for e := first; e <= end; e += step {
		at, _ := s.y(math.Pow(10, float64(e)))
		y := plotY(at)
		fmt.Fprintf(out, `<path d="M%d %.1fH%d"/>`, plotLeft, y, plotRight)
		text += fmt.Sprintf(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, plotLeft-8, y+4, short(math.Pow(10, float64(e))))
	}
	fmt.Fprintf(out, "</g>\n<g fill=\"#555\" font-size=\"%d\">%s<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">size of the input</text></g>\n", smallSize, text, (plotLeft+plotRight)/2, plotBottom+42)
}

// slope draws what grows as the input does, to compare with, and returns where that ends.
func (g *Growth) slope(out io.Writer, s *scale) (x, y float64) {
	wide, high := s.right-s.left, s.top-s.bottom
	part := min(1, high/wide) // of the width, until it reaches the top
	x, y = plotX(part), plotY(wide*part/high)
	fmt.Fprintf(out, `<path d="M%d %dL%.1f %.1f" stroke="#999" stroke-dasharray="4 4"/>`+"\n", plotLeft, plotBottom, x, y)
	return x, y
}

// label is where the name of a function stands.
type label struct {
	number int // of the function
	y      float64
}

// labels are beside the last points, with room between them.
func (g *Growth) labels(list []*Function, s *scale) []label {
	all := make([]label, len(list))
	for i, f := range list {
		y, _ := s.y(max(float64(f.last()), 1))
		all[i] = label{i, plotY(y)}
	}
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	for i := range all {
		if i > 0 {
			all[i].y = max(all[i].y, all[i-1].y+2*labelHeight)
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // back up from below the frame
		lowest := float64(svgHeight - 30)
		if i+1 < len(all) {
			lowest = all[i+1].y - 2*labelHeight
		}
		all[i].y = min(all[i].y, lowest)
	}
	return all
}

// series draws a function, and its name at that height.
func (g *Growth) series(out io.Writer, f *Function, s *scale, color string, y float64) {
	path, command := "", "M"
	for i := range lineSteps + 1 {
		x := float64(i) / lineSteps
		at, ok := s.y(f.Fits[0].at(s.sizeAt(x)))
		if !ok {
			command = "M"
			continue
		}
		path += fmt.Sprintf("%s%.1f %.1f", command, plotX(x), plotY(at))
		command = "L"
	}
	fmt.Fprintf(out, `<g><title>%s</title><path d="%s" fill="none" stroke="%s" stroke-width="2"/>`, html.EscapeString(f.Name), path, color)
	for i, n := range g.Sizes {
		if at, _ := s.y(max(float64(f.Counts[i]), 1)); f.Counts[i] > 0 {
			fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s" stroke="#fff"/>`, plotX(s.x(n)), plotY(at), color)
		}
	}
	end, _ := s.y(max(float64(f.last()), 1))
	fmt.Fprintf(out, `<path d="M%d %.1fL%d %.1f" stroke="%s" stroke-opacity=".5"/>`, plotRight+7, plotY(end), plotRight+24, y-4, color)
	fmt.Fprintf(out, `<text x="%d" y="%.1f" fill="%s" font-weight="bold">%s</text>`, plotRight+28, y, color, html.EscapeString(cutShort(f.Name, labelRoom)))
	fmt.Fprintf(out, "<text x=\"%d\" y=\"%.1f\" fill=\"#555\" font-size=\"%d\">%s, exponent %s; %s</text></g>\n", plotRight+28, y+15, smallSize, f.growth(), f.exponent(), short(float64(f.last())))
}

func cutShort(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
