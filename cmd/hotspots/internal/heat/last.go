package heat

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/lines"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Code is an instruction that has touched memory last.
type Code struct {
	Function string         `json:"function"`
	Offset   uint64         `json:"offset"`         // behind the function's beginning; 0, too, where it is elsewhere
	Object   string         `json:"object"`         // empty: nothing is known of it
	Address  report.Address `json:"address"`        // in that file, as hotspots annotate shows it
	File     string         `json:"file,omitempty"` // of its source, if there is debug information
	Line     int            `json:"line,omitempty"`

	object *layout.Object
	looked bool // for its line
}

const untold = "?"

// String is its function, and how far it is behind its beginning.
func (c *Code) String() string {
	if c.Offset == 0 {
		return c.Function
	}
	return fmt.Sprintf("%s+%#x", c.Function, c.Offset)
}

// where is its source line, or the place in its object.
func (c *Code) where() string {
	switch {
	case c.Line > 0:
		return fmt.Sprintf("%s:%d", filepath.Base(c.File), c.Line)
	case c.Object != "":
		return fmt.Sprintf("%s+%#x", filepath.Base(c.Object), uint64(c.Address))
	}
	return ""
}

// text is both.
func (c *Code) text() string {
	if where := c.where(); where != "" {
		return fmt.Sprintf("%s (%s)", c, where)
	}
	return c.String()
}

// Codes finds the instructions that numbers stand for.
type Codes struct {
	symbols *Symbols
	objects []*layout.Object
	read    func() []layout.Block // of the table
	blocks  map[*layout.Object][]layout.Block
	known   map[uint32]*Code
	find    *debugfile.Finder
	lines   map[*layout.Object]*lines.File
}

// NewCodes are those of a program of which names are known, whose functions' blocks read reads.
// Source lines are looked for with find.
func NewCodes(symbols *Symbols, read func() []layout.Block, find *debugfile.Finder) *Codes {
	c := &Codes{symbols: symbols, read: read, known: map[uint32]*Code{}, find: find, lines: map[*layout.Object]*lines.File{}}
	for i := range symbols.Objects {
		if o := &symbols.Objects[i]; o.CodeCount > 0 {
			c.objects = append(c.objects, o)
		}
	}
	slices.SortFunc(c.objects, func(a, b *layout.Object) int { return cmp.Compare(a.Codes, b.Codes) })
	return c
}

// BlocksOf reads the blocks of a table; what cannot be read has none.
func BlocksOf(t *table.Table) (list []layout.Block) {
	t.EachEntry(t.Geometry.Blocks, func(b []byte) error {
		list = append(list, layout.DecodeBlock(b))
		return nil
	})
	return list
}

// Of is the instruction that a number stands for; nil: none. It is the same for the same number.
func (c *Codes) Of(number uint32) *Code {
	if number == 0 {
		return nil
	}
	code := c.known[number]
	if code == nil {
		code = c.look(number)
		c.known[number] = code
	}
	return code
}

func (c *Codes) look(number uint32) *Code {
	i := sort.Search(len(c.objects), func(i int) bool { return c.objects[i].Codes > number }) - 1
	if i < 0 || number-c.objects[i].Codes >= c.objects[i].CodeCount {
		return &Code{Function: untold}
	}
	o := c.objects[i]
	at := layout.CodesAt(o.Low) + uint64(number-o.Codes)
	code := &Code{Function: untold, Object: symname.Clean(o.Path), Address: report.Address(at - o.Bias), object: o}
	if f, begin, is := c.symbols.function(at); is {
		code.Function, code.Offset = c.symbols.Name(f), at-begin
	} else if f, is := c.functionOf(o, at-o.Bias); is {
		code.Function = c.symbols.Name(f)
	}
	return code
}

// function is the one whose bytes an address is one of, and where it begins.
func (y *Symbols) function(at uint64) (f int, begin uint64, is bool) {
	const nested = 8
	i := sort.Search(len(y.functions), func(i int) bool { return y.functions[i].from > at }) - 1
	for n := 0; i >= 0 && n < nested; i, n = i-1, n+1 {
		if one := &y.functions[i]; at < one.to {
			return one.i, one.from, true
		}
	}
	return 0, 0, false
}

// functionOf is the one that has a block elsewhere.
func (c *Codes) functionOf(o *layout.Object, at uint64) (f int, is bool) {
	if c.blocks == nil {
		c.blocks = map[*layout.Object][]layout.Block{}
		for _, b := range c.read() {
			if int(b.Function) < len(c.symbols.owners) {
				of := &c.symbols.Objects[c.symbols.owners[b.Function]]
				c.blocks[of] = append(c.blocks[of], b)
			}
		}
		for _, list := range c.blocks {
			slices.SortFunc(list, func(a, b layout.Block) int { return cmp.Compare(a.Address, b.Address) })
		}
	}
	list := c.blocks[o]
	i := sort.Search(len(list), func(i int) bool { return list[i].Address > at }) - 1
	if i < 0 || at-list[i].Address >= uint64(list[i].Size) {
		return 0, false
	}
	return int(list[i].Function), true
}

// AddLines adds the source lines of some instructions, as far as there is debug information. Say is told
// what cannot be read.
func (c *Codes) AddLines(list []*Code, say func(error)) {
	if c.find == nil {
		return
	}
	wanted := map[*layout.Object][]uint64{}
	for _, one := range list {
		if one != nil && one.object != nil && !one.looked {
			one.looked = true
			wanted[one.object] = append(wanted[one.object], uint64(one.Address))
		}
	}
	places := map[*layout.Object]map[uint64]lines.Place{}
	for o, at := range wanted {
		file, is := c.lines[o]
		if !is {
			var err error
			if file, err = lines.Open(o, c.find); err != nil {
				say(err)
			}
			c.lines[o] = file
		}
		if file == nil {
			continue
		}
		found, err := file.At(at)
		if err != nil {
			say(err)
		}
		places[o] = found
	}
	for _, one := range list {
		if one != nil {
			if p, is := places[one.object][uint64(one.Address)]; is {
				one.File, one.Line = symname.Clean(p.File), p.Line
			}
		}
	}
}

// Lasts is which instructions have read and written something last, in all of the time.
type Lasts struct {
	Reader *Code `json:"last_reader,omitempty"`
	Writer *Code `json:"last_writer,omitempty"`

	last heat.Last
}

// text says which.
func (l *Lasts) text() string {
	text := ""
	if l != nil && l.Reader != nil {
		text += " last read by " + l.Reader.text()
	}
	if l != nil && l.Writer != nil {
		text += " last written by " + l.Writer.text()
	}
	return text
}

// cells are those of CSV: the function of each, and where it is.
func (l *Lasts) cells() (row []string) {
	if l == nil {
		l = &Lasts{}
	}
	for _, one := range []*Code{l.Reader, l.Writer} {
		if one == nil {
			row = append(row, "", "")
		} else {
			row = append(row, one.String(), one.where())
		}
	}
	return row
}

// takeLast is who has touched the first unit of a range last, and how many more units this is true
// of.
func (m *Map) takeLast(r *heat.Range) (units uint64, l *Lasts) {
	units, one := takeFirst(&m.lasts, r, func(b *heat.ByLast) (first, pages uint64) { return b.First, b.Pages })
	if one == nil {
		return units, nil
	}
	return units, &Lasts{m.codes.Of(one.Reader), m.codes.Of(one.Writer), one.Last}
}

// Toucher is code that has touched so many units last.
type Toucher struct {
	*Code
	Units uint64 `json:"units"`
}

// In lists which instructions have read some units last, and which have written them, those of most
// first.
func (c *Codes) In(list []heat.ByLast, first, end uint64) (readers, writers []Toucher) {
	var units [2]map[*Code]uint64
	for i := range units {
		units[i] = map[*Code]uint64{}
	}
	for _, b := range list {
		n := min(end, b.First+b.Pages) - max(first, b.First)
		for i, number := range []uint32{b.Reader, b.Writer} {
			if code := c.Of(number); code != nil {
				units[i][code] += n
			}
		}
	}
	return touchers(units[0]), touchers(units[1])
}

func touchers(units map[*Code]uint64) []Toucher {
	list := []Toucher{}
	for code, n := range units {
		list = append(list, Toucher{code, n})
	}
	slices.SortFunc(list, func(a, b Toucher) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), strings.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// Function is one that has touched so many units last.
type Function struct {
	Function string `json:"function"`
	Object   string `json:"object"`
	Units    uint64 `json:"units"`
}

// sumLasts adds up by function who has touched how many pages last, and adds source lines to what is
// shown.
func (m *Map) sumLasts(say func(error)) {
	var sums [2]map[[2]string]uint64
	for i := range sums {
		sums[i] = map[[2]string]uint64{}
	}
	var codes []*Code
	for i := range m.Areas {
		for k := range m.Areas[i].Ranges {
			r := &m.Areas[i].Ranges[k]
			if r.Lasts == nil {
				continue
			}
			for i, code := range []*Code{r.Reader, r.Writer} {
				if code != nil {
					sums[i][[2]string{code.Function, code.Object}] += r.Pages
					codes = append(codes, code)
				}
			}
		}
	}
	m.LastReaders, m.LastWriters = functionsOf(sums[0]), functionsOf(sums[1])
	m.codes.AddLines(codes, say)
}

func functionsOf(sums map[[2]string]uint64) []Function {
	list := []Function{}
	for of, n := range sums {
		list = append(list, Function{of[0], of[1], n})
	}
	slices.SortFunc(list, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), strings.Compare(a.Function, b.Function), strings.Compare(a.Object, b.Object))
	})
	return list
}

// lastsText is a line of those with most pages.
func (m *Map) lastsText() string {
	if !m.hasCode {
		return ""
	}
	const most = 3
	of := func(list []Function) string {
		var parts []string
		for _, f := range list[:min(len(list), most)] {
			parts = append(parts, fmt.Sprintf("%s %s", f.Function, figures.Thousands(f.Units)))
		}
		if more := len(list) - most; more > 0 {
			parts = append(parts, fmt.Sprintf("%s more", figures.Count(uint64(more), "function")))
		}
		return strings.Join(parts, ", ")
	}
	text := ""
	for _, one := range []struct {
		what string
		list []Function
	}{{"read", m.LastReaders}, {"written", m.LastWriters}} {
		if len(one.list) > 0 {
			text += fmt.Sprintf("Pages that were %s last by: %s.\n", one.what, of(one.list))
		}
	}
	return text
}
