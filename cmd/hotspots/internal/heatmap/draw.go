package heatmap

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	pages "github.com/dynprof/dynprof/internal/table/heat"
)

// Picture is pages over instructions, with all around it.
type Picture struct {
	m      *heat.Map
	grid   *grid
	blind  bool
	even   bool
	across int // points of a column
	down   int // of a row
	text   font.Face
	image  *image.RGBA
	plot   image.Rectangle
	tops   []int // of the bands
	labels []label
}

// label is what stands beside a band.
type label struct {
	band        int
	y           int // of the middle, where there is room
	name, where string
}

// Sizes in points.
const (
	margin      = 16
	line        = 18 // of text
	size        = 13 // of letters
	between     = 2  // two bands
	leader      = 22 // from a label to its band
	stripHeight = 110
	mostLabels  = 60
)

// Draw draws the pages of a program.
func Draw(m *heat.Map, o Options) (*Picture, error) {
	g, err := newGrid(m, &o)
	if err != nil {
		return nil, err
	}
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return nil, err
	}
	p := &Picture{m: m, grid: g, blind: o.Blind, even: o.Even || !g.shaded, text: face}
	p.across = min(max(1, usualWidth/g.width), widest)
	p.down = min(max(1, usualHeight/g.height), tallest)
	p.lay()
	p.around()
	p.cells()
	p.axis()
	p.strip()
	return p, nil
}

// PNG writes it.
func (p *Picture) PNG(w io.Writer) error {
	e := png.Encoder{CompressionLevel: png.BestCompression}
	return e.Encode(w, p.image)
}

// lay says where everything is.
func (p *Picture) lay() {
	g := p.grid
	height := 0
	p.tops = make([]int, len(g.bands))
	for i := range slices.Backward(g.bands) { // the highest address is at the top
		p.tops[i] = height
		height += g.bands[i].n*p.down + between
	}
	p.chooseLabels(height)
	left, right := 0, 0
	for _, l := range p.labels {
		left, right = max(left, p.width(l.name)), max(right, p.width(l.where))
	}
	for _, text := range p.stripTexts() {
		left = max(left, p.width(text))
	}
	width := g.width * p.across
	head := margin + 4*line
	p.plot = image.Rect(0, 0, width, height).Add(image.Pt(margin+left+leader, head))
	first, second := p.heading()
	all := image.Rect(0, 0, max(p.plot.Max.X+leader+right, margin+p.width(first), margin+p.width(second), margin+p.legendWidth())+margin, p.plot.Max.Y+2*line+stripHeight+2*line+margin)
	p.image = image.NewRGBA(all)
	draw.Draw(p.image, all, image.NewUniform(paper), image.Point{}, draw.Src)
	draw.Draw(p.image, p.plot, image.NewUniform(frame), image.Point{}, draw.Src)
}

// chooseLabels has the largest bands named, as there is room for.
func (p *Picture) chooseLabels(height int) {
	g := p.grid
	all := make([]int, len(g.bands))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(g.bands[b].n, g.bands[a].n) })
	all = all[:min(len(all), mostLabels, max(1, height/line))]
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(b, a) })
	for _, i := range all {
		b := &g.bands[i]
		p.labels = append(p.labels, label{i, p.tops[i] + b.n*p.down/2, fmt.Sprintf("%s  %s", filepath.Base(b.Name), p.m.Count(b.units)), fmt.Sprintf("%#x", g.address(b, b.first))})
	}
	for i := range p.labels { // none upon another, nor above all
		least := line / 2
		if i > 0 {
			least = p.labels[i-1].y + line
		}
		p.labels[i].y = max(p.labels[i].y, least)
	}
	most := height - line/2
	for i := range slices.Backward(p.labels) {
		p.labels[i].y = min(p.labels[i].y, most)
		most = p.labels[i].y - line
	}
}

func (p *Picture) width(text string) int { return font.MeasureString(p.text, text).Ceil() }

// write writes a text whose middle is at a height: from x to the right, or, if align is 1, to
// the left, or 0, around it.
func (p *Picture) write(text string, x, y, align int, c color.Color) {
	switch align {
	case 0:
		x -= p.width(text) / 2
	case 1:
		x -= p.width(text)
	}
	d := font.Drawer{Dst: p.image, Src: image.NewUniform(c), Face: p.text, Dot: fixed.P(x, y+size*2/5)}
	d.DrawString(text)
}

const (
	toRight = -1
	centred = 0
	toLeft  = 1
)

func (p *Picture) fill(x0, y0, x1, y1 int, c color.Color) {
	draw.Draw(p.image, image.Rect(x0, y0, x1, y1), image.NewUniform(c), image.Point{}, draw.Src)
}

// around writes the heading, the legend and the labels.
func (p *Picture) around() {
	g := p.grid
	x, y := margin, margin+line/2
	first, second := p.heading()
	p.write(first, x, y, toRight, ink)
	y += line
	p.write(second, x, y, toRight, faint)
	y += line + 4
	for _, s := range p.swatches() {
		p.fill(x, y-7, x+s.width()+2, y+7, frame)
		for i, c := range s.colours {
			p.fill(x+1+i*s.width()/len(s.colours), y-6, x+1+(i+1)*s.width()/len(s.colours), y+6, c)
		}
		x += s.width() + 8
		p.write(s.text, x, y, toRight, ink)
		x += p.width(s.text) + apart
	}
	for _, l := range p.labels {
		b := &g.bands[l.band]
		middle := p.plot.Min.Y + p.tops[l.band] + b.n*p.down/2
		y := p.plot.Min.Y + l.y
		p.write(l.name, p.plot.Min.X-leader, y, toLeft, ink)
		p.lead(p.plot.Min.X-leader+4, y, p.plot.Min.X-2, middle)
		p.write(l.where, p.plot.Max.X+leader, y, toRight, faint)
		p.lead(p.plot.Max.X+leader-4, y, p.plot.Max.X+1, middle)
	}
}

// swatch is colours of the legend, and what they mean.
type swatch struct {
	colours []color.RGBA
	text    string
}

const apart = 18 // two of them

func (s *swatch) width() int { return max(20, 6*len(s.colours)) }

// swatches are all of the legend.
func (p *Picture) swatches() (all []swatch) {
	for what := range pages.What(len(p.grid.shown)) {
		if p.grid.shown[what] || what == 0 {
			all = append(all, swatch{[]color.RGBA{p.colour(what)}, names[what]})
		}
	}
	if p.even {
		return all
	}
	shades := swatch{text: fmt.Sprintf("little to all of a point's %ss, in each slice of it, was touched", p.m.FinestNoun())}
	for level := range density.Levels {
		shades.colours = append(shades.colours, shaded(p.colour(pages.WasRead|pages.WasWritten), level))
	}
	return append(all, shades)
}

// legendWidth is how wide that is.
func (p *Picture) legendWidth() (n int) {
	for _, s := range p.swatches() {
		n += s.width() + 8 + p.width(s.text) + apart
	}
	return n - apart
}

// heading is two lines about all.
func (p *Picture) heading() (first, second string) {
	g, m := p.grid, p.m
	t := &m.Total
	of := fmt.Sprintf(", of %s that are mapped and %s that are resident,", figures.Thousands(t.Mapped), figures.Thousands(t.Resident))
	if m.Source != "" {
		of = ", by a log of " + m.Source + ","
	}
	first = fmt.Sprintf("%s: %s of memory touched%s in %s", m.Program, m.Count(t.Touched), of, figures.Count(g.total, "instruction"))
	row := fmt.Sprintf("a %s of %s bytes", m.Noun(), figures.Thousands(g.unit))
	if g.row > 1 {
		row = fmt.Sprintf("%s bytes", figures.Thousands(g.row*g.unit))
	}
	kind := m.Noun() + "s that were never touched are left out"
	if p.isMapped() {
		kind = "all that is mapped"
	}
	known := figures.Count(uint64(g.slices), "slice") + " of time"
	if g.longest > g.column { // what was touched in one is drawn all along it
		known += fmt.Sprintf(", of up to %s instructions, are told apart", figures.Short(float64(g.longest)))
	}
	second = fmt.Sprintf("A row is %s, by address, the highest at the top; a column is %s; %s; %s", row, figures.Count(g.column, "instruction"), known, kind)
	if left := len(g.bands) - len(p.labels); left > 0 {
		second += fmt.Sprintf("; %s without a label", figures.Count(uint64(left), "smaller mapping"))
	}
	return first, second
}

func (p *Picture) isMapped() bool {
	n := uint64(0)
	for i := range p.grid.bands {
		n += p.grid.bands[i].units
	}
	return n > p.m.Total.Touched
}

// lead draws a thin line.
func (p *Picture) lead(x0, y0, x1, y1 int) {
	n := max(x1-x0, x0-x1, y1-y0, y0-y1, 1)
	for i := range n + 1 {
		p.image.Set(x0+(x1-x0)*i/n, y0+(y1-y0)*i/n, frame)
	}
}

// cells draws what was done.
func (p *Picture) cells() {
	g := p.grid
	for i := range g.bands {
		b := &g.bands[i]
		for row := range b.n {
			y := p.plot.Min.Y + p.tops[i] + (b.n-1-row)*p.down
			line := g.cells[(b.first+row)*g.width:][:g.width]
			for from := 0; from < len(line); {
				to := from + 1
				for to < len(line) && line[to] == line[from] {
					to++
				}
				p.fill(p.plot.Min.X+from*p.across, y, p.plot.Min.X+to*p.across, y+p.down, p.shade(line[from]))
				from = to
			}
		}
	}
}

// at is where so many instructions are.
func (p *Picture) at(instructions uint64) int {
	return p.plot.Min.X + int(float64(instructions)/float64(p.grid.column)*float64(p.across))
}

// axis writes how many instructions had run.
func (p *Picture) axis() {
	const apart = 150
	y := p.plot.Max.Y
	step := round(uint64(apart / float64(p.across) * float64(p.grid.column)))
	for n := uint64(0); n <= p.grid.total; n += step {
		x := p.at(n)
		p.fill(x, y, x+1, y+5, ink)
		p.write(short(n), x, y+5+line/2, centred, ink)
		if n+step < n {
			break
		}
	}
	p.write("instructions executed", p.plot.Min.X-leader, y+5+line/2, toLeft, ink)
}

// round is a number that people like, not below n.
func round(n uint64) uint64 {
	for unit := uint64(1); ; unit *= 10 {
		for _, k := range []uint64{1, 2, 5} {
			if k*unit >= n || unit >= 1e18 {
				return k * unit
			}
		}
	}
}

// short is a number, to three digits.
func short(n uint64) string {
	for _, u := range []struct {
		unit uint64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if n >= u.unit {
			return strconv.FormatFloat(float64(n)/float64(u.unit), 'g', 3, 64) + u.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// stripTexts say what the curves below are.
func (p *Picture) stripTexts() []string {
	return []string{
		fmt.Sprintf("%ss used so far, of %s", p.m.Noun(), figures.Thousands(p.m.Curve[len(p.m.Curve)-1].Used)),
		fmt.Sprintf("working set of %s instructions", short(p.m.Window)),
		"touched in a slice",
	}
}

// strip draws pages by time.
func (p *Picture) strip() {
	top := p.plot.Max.Y + 2*line + 8
	bottom := top + stripHeight
	most := max(1, p.m.Curve[len(p.m.Curve)-1].Used)
	p.fill(p.plot.Min.X, top, p.plot.Max.X, bottom, white)
	colours := []color.Color{ink, accent, pale}
	for i, text := range p.stripTexts() {
		y := top + line/2 + 4 + i*(line+4)
		p.write(text, p.plot.Min.X-leader, y, toLeft, ink)
		p.fill(p.plot.Min.X-leader+5, y-3, p.plot.Min.X-5, y+3, colours[i])
	}
	height := func(n uint64) int {
		return bottom - int(float64(min(n, most))/float64(most)*float64(stripHeight-4))
	}
	before, used, set := p.plot.Min.X, bottom, bottom
	for i := range p.m.Curve {
		c := &p.m.Curve[i]
		x := min(max(p.at(c.Instructions), before+1), p.plot.Max.X)
		p.fill(before, height(c.Touched), x, bottom, pale)
		before = x
	}
	before = p.plot.Min.X
	for i := range p.m.Curve {
		c := &p.m.Curve[i]
		x := min(max(p.at(c.Instructions), before+1), p.plot.Max.X)
		for _, l := range []struct {
			from *int
			to   int
			c    color.Color
		}{{&set, height(c.WorkingSet), accent}, {&used, height(c.Used), ink}} {
			p.fill(before, min(*l.from, l.to)-1, before+2, max(*l.from, l.to)+1, l.c)
			p.fill(before, l.to-1, x, l.to+1, l.c)
			*l.from = l.to
		}
		before = x
	}
	p.fill(p.plot.Min.X, bottom, p.plot.Max.X, bottom+1, ink)
	if last := p.m.Curve[len(p.m.Curve)-1]; p.m.Source == "" { // a log tells no time
		p.write(fmt.Sprintf("ended after %v", time.Duration(last.Nanoseconds).Round(time.Millisecond)), p.plot.Max.X, bottom+line/2+4, toLeft, faint)
	}
}
