// Command chart draws a bar chart as SVG: chart OUTPUT.svg < CHART.json, where
// the chart is what bench (docs.go) writes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart has a bar for each series in each group.
type chart struct {
	Title  string   `json:"title"`
	Axis   string   `json:"axis"`
	Log    bool     `json:"log"`
	Groups []string `json:"groups"`
	Series []series `json:"series"`
}

// series has a value for each group, and the interval around it; nil is none.
type series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
	Low    []*float64 `json:"low"`
	High   []*float64 `json:"high"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("one argument: the file to write")
	}
	var c chart
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return err
	}
	p, err := c.plot()
	if err != nil {
		return err
	}
	return p.Save(26*vg.Centimeter, 11*vg.Centimeter, os.Args[1])
}

func (c *chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White // readable on dark pages, too
	p.Title.Text, p.Y.Label.Text = c.Title, c.Axis
	p.Legend.Top = true
	p.NominalX(c.Groups...)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	p.Add(grid)
	if c.Log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	width := 0.8 / float64(max(len(c.Series), 1))
	low, high := c.floor(), 0.0
	for i, s := range c.Series {
		b := &bars{color: plotutil.Color(i), floor: low, width: width}
		offset := (float64(i) - float64(len(c.Series)-1)/2) * width
		for g, v := range s.Values {
			if v == nil || c.Log && *v <= 0 {
				continue
			}
			b.at = append(b.at, bar{float64(g) + offset, *v, *s.Low[g], *s.High[g]})
			high = max(high, *v, *s.High[g])
		}
		p.Add(b)
		p.Legend.Add(s.Name, b)
	}
	p.X.Min, p.X.Max = -0.5, float64(len(c.Groups))-0.5
	p.Y.Min, p.Y.Max = low, high*1.02
	if c.Log {
		p.Y.Max = math.Pow(10, math.Ceil(math.Log10(high)))
	}
	return p, nil
}

// floor is where bars begin: of a logarithmic chart of ratios at the power of
// ten below the least, of others at 0 or below the least.
func (c *chart) floor() float64 {
	least := math.Inf(1)
	for _, s := range c.Series {
		for _, v := range s.Values {
			if v != nil && (!c.Log || *v > 0) {
				least = min(least, *v)
			}
		}
	}
	if c.Log {
		return math.Pow(10, math.Floor(math.Log10(least)))
	}
	return min(0, least)
}

// bar is a value and its interval, at a place of the X axis.
type bar struct{ x, value, low, high float64 }

// bars are those of one series. gonum's own BarChart begins at 0, which a
// logarithmic axis does not have.
type bars struct {
	color        color.Color
	floor, width float64
	at           []bar
}

func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: color.Gray{60}, Width: vg.Points(0.7)}
	for _, v := range b.at {
		left, right, bottom, top := x(v.x-b.width/2), x(v.x+b.width/2), y(b.floor), y(v.value)
		c.FillPolygon(b.color, []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}})
		if v.high > v.low && v.low > b.floor {
			c.StrokeLine2(line, x(v.x), y(v.low), x(v.x), y(v.high))
		}
	}
}

// Thumbnail draws the series' mark in the legend.
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Min.Y}})
}
