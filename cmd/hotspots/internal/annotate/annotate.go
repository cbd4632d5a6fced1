// Package annotate shows a function's instructions with how often each has run.
package annotate

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	tripsof "github.com/dynprof/dynprof/cmd/hotspots/internal/loops"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Function is a function with its blocks.
type Function struct {
	Object       string         `json:"object"`
	BuildID      string         `json:"build_id"`
	Address      report.Address `json:"address"`
	Name         string         `json:"name"`
	Calls        uint64         `json:"calls"`
	Observed     *uint64        `json:"observed_calls,omitempty"` // calls that all that follows is of, if it is not of all
	Instructions uint64         `json:"instructions"`             // that it has executed
	objcode.Accesses
	Blocks []Block `json:"blocks"` // by address
	Ways   []Way   `json:"ways"`   // between these blocks, and from and to outside of them
	Loops  []Loop  `json:"loops"`  // those of an outer loop before those in it

	ShowLoads bool `json:"-"` // as text, with loads and stores
}

// Block is instructions that run one after the other.
type Block struct {
	Address      report.Address `json:"address"`
	Size         uint32         `json:"size"` // bytes
	Runs         uint64         `json:"runs"`
	Instructions uint64         `json:"instructions"` // executed
	objcode.Accesses
	Loop *int          `json:"loop"` // place of the innermost loop that it is in, in the function's; null if in none
	Code []Instruction `json:"code"`
}

// Way is how control goes from a block to another.
type Way struct {
	From  *report.Address `json:"from"` // null: from outside: by a call, a return, an indirect jump
	To    *report.Address `json:"to"`   // null: it leaves the blocks
	Taken uint64          `json:"taken"`
	Back  bool            `json:"back"` // to the header of a loop that it is in
}

// Loop is blocks that run in turn.
type Loop struct {
	Header     report.Address `json:"header"`
	Parent     *int           `json:"parent"` // place of the loop around it; null if there is none
	Depth      int            `json:"depth"`  // 1 for the outermost
	Iterations uint64         `json:"iterations"`
	Entries    *uint64        `json:"entries"`      // null where they cannot be told from iterations
	Executed   uint64         `json:"instructions"` // those of loops in it as well
	Trips      *tripsof.Trips `json:"trips"`        // null where they are not counted
}

// Instruction is one of a block.
type Instruction struct {
	Address report.Address `json:"address"`
	Text    string         `json:"text"`
	File    string         `json:"file,omitempty"` // the source line that it is of, where that is known
	Line    int            `json:"line,omitempty"`
	source  string         // what stands there
}

// Find makes the functions of t that are named name, as shown or in the file, or have an
// alias or the address of that, 0x and hex digits.
func Find(t *table.Table, name string, mangled bool) (list []*Function, err error) {
	snapshot, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	codes := map[string]*objcode.Image{}
	known, why := false, ledger.ReasonNone
	for i := range t.Functions {
		e := &t.Functions[i]
		o := &t.Objects[e.Object]
		shown := symname.Display(e.Name, o.Path, e.Address, !mangled)
		if !report.IsNamed(e, shown, name) {
			continue
		}
		known = true
		f, err := of(t, snapshot, flow, i, shown, codes)
		if err != nil {
			return nil, err
		}
		if len(f.Blocks) > 0 {
			list = append(list, f)
		} else if e.Blocks != ledger.ReasonNone {
			why = e.Blocks
		}
	}
	switch {
	case !known:
		return nil, report.NoneNamed(name)
	case list == nil:
		if why != ledger.ReasonNone {
			return nil, fmt.Errorf("%s: its blocks are not counted (%s)", name, why)
		}
		return nil, fmt.Errorf("%s: its blocks are not counted", name)
	}
	return list, nil
}

// Of makes the function of that number; its blocks are none where they are not counted.
func Of(t *table.Table, i int, shown string) (*Function, error) {
	snapshot, flow, err := report.Flow(t)
	if err != nil {
		return nil, err
	}
	return of(t, snapshot, flow, i, shown, map[string]*objcode.Image{})
}

func of(t *table.Table, s *table.Snapshot, flow *table.Flow, i int, shown string, codes map[string]*objcode.Image) (*Function, error) {
	e := &t.Functions[i]
	o := &t.Objects[e.Object]
	f := &Function{Object: o.Path, BuildID: o.BuildID, Address: report.Address(e.Address), Name: shown, Calls: s.Calls[i]}
	return f, f.add(flow, uint32(i), o, codes)
}

// Plain is the instructions of a function whose blocks are not counted.
func Plain(o *layout.Object, e *layout.Function) ([]Instruction, error) {
	img, err := objcode.Load(o)
	if err != nil {
		return nil, err
	}
	return disassemble(img, e.Address, e.Size), nil
}

// add adds the function's blocks, ways and loops.
func (f *Function) add(flow *table.Flow, function uint32, o *layout.Object, codes map[string]*objcode.Image) (err error) {
	part := flow.Of(function)
	if n, some := flow.Observed(function); some {
		f.Observed = &n
	}
	f.Loops = loops(&part)
	for i := range part.Ways {
		w := &part.Ways[i]
		f.Ways = append(f.Ways, Way{From: address(&part, w.From), To: address(&part, w.To), Taken: w.Taken, Back: w.Flags&layout.WayBack != 0})
	}
	for k := range part.Blocks {
		b := &part.Blocks[k]
		img := codes[o.Path]
		if img == nil {
			if img, err = objcode.Load(o); err != nil {
				return err
			}
			codes[o.Path] = img
		}
		f.Instructions += b.Executed()
		var accesses objcode.Accesses
		accesses.Add(img.Accesses(b.Address, b.Size), b.Runs)
		f.Accesses.Add(accesses, 1)
		f.Blocks = append(f.Blocks, Block{
			Address: report.Address(b.Address), Size: b.Size, Runs: b.Runs, Instructions: b.Executed(), Accesses: accesses,
			Loop: place(b.Loop, part.FirstLoop), Code: disassemble(img, b.Address, b.Size),
		})
	}
	return nil
}

func address(p *table.Part, block uint32) *report.Address {
	at, ok := p.Address(block)
	if !ok {
		return nil
	}
	return (*report.Address)(&at)
}

// place is that of a loop among the function's, nil if it is none.
func place(loop, first uint32) *int {
	if loop == layout.NoLoop {
		return nil
	}
	n := int(loop - first)
	return &n
}

func loops(p *table.Part) []Loop {
	list := make([]Loop, len(p.Loops))
	for i := range p.Loops {
		l := &p.Loops[i]
		header, _ := p.Address(l.Header)
		list[i] = Loop{Header: report.Address(header), Parent: place(l.Parent, p.FirstLoop), Depth: l.Depth, Iterations: l.Iterations, Executed: l.Executed, Trips: tripsof.TripsOf(l)}
		if l.Flags&layout.LoopUntold == 0 {
			list[i].Entries = &l.Entries
		}
	}
	return list
}

func disassemble(img *objcode.Image, addr uint64, size uint32) (list []Instruction) {
	for at, code := range img.Instructions(addr, size) {
		list = append(list, Instruction{Address: report.Address(at), Text: x86.Text(code, at)})
	}
	return list
}

// JSON writes the functions.
func JSON(w io.Writer, functions []*Function) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
	}{report.Schema}, "functions", functions)
}

// Text writes a function, as Lines says it. What takes a tenth and more is in color.
func (f *Function) Text(w io.Writer, hot func(string) string) error {
	var out strings.Builder
	for _, l := range f.Lines() {
		if l.Hot {
			l.Numbers = hot(l.Numbers)
		}
		out.WriteString(l.Numbers + l.Text + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Line is one of a function as text.
type Line struct {
	Numbers string // how often an instruction has run, and the share of its block
	Text    string
	Hot     bool // that is a tenth and more
}

// Lines shows how often each instruction has run, and what share of the function's executed
// instructions its block has.
func (f *Function) Lines() (lines []Line) {
	say := func(format string, args ...any) { lines = append(lines, Line{Text: fmt.Sprintf(format, args...)}) }
	calls := figures.Thousands(f.Calls) + " calls"
	if n := f.Observed; n != nil {
		calls = fmt.Sprintf("%s of %s observed", figures.Thousands(*n), calls)
	}
	loads := ""
	if f.ShowLoads {
		loads = fmt.Sprintf(", %s%s loads, %s%[2]s stores", figures.Thousands(f.Loads), f.More(), figures.Thousands(f.Stores))
	}
	say("%s of %s: %s, %s instructions%s, %d blocks", f.Name, filepath.Base(f.Object), calls, figures.Thousands(f.Instructions), loads, len(f.Blocks))
	columns := f.columns()
	say("%s  ADDRESS", columns[0])
	blank := strings.Repeat(" ", len(columns[0]))
	var file string
	line := 0
	for i := range f.Blocks {
		b := &f.Blocks[i]
		share := f.share(b.Instructions)
		bars := f.bars(b)
		if l := f.headed(b); l != nil {
			say("%s           %s %s", blank, bars, f.describe(l))
		}
		for k, in := range b.Code {
			if in.File != file || in.Line != line {
				file, line = in.File, in.Line
				say("%s           %s %s", blank, bars, in.where())
			}
			numbers := columns[i+1]
			if k > 0 {
				numbers = blank
			}
			const tenth = 10
			lines = append(lines, Line{numbers, fmt.Sprintf("  %7x  %s %s", uint64(in.Address), bars, in.Text), share >= tenth})
		}
		if i+1 < len(f.Blocks) {
			say("")
		}
	}
	return lines
}

// columns are the numbers of each block, all as wide as the heading, which is first.
func (f *Function) columns() (all []string) {
	rows := [][]string{{"RUNS", " SHARE", "LOADS", "STORES"}}
	for i := range f.Blocks {
		b := &f.Blocks[i]
		rows = append(rows, []string{figures.Thousands(b.Runs), fmt.Sprintf("%5.1f%%", f.share(b.Instructions)), figures.Thousands(b.Loads) + b.More(), figures.Thousands(b.Stores) + b.More()})
	}
	shown := 2
	if f.ShowLoads {
		shown = len(rows[0])
	}
	all = make([]string, len(rows))
	for column := range shown {
		width := 0
		for _, row := range rows {
			width = max(width, len(row[column]))
		}
		for i, row := range rows {
			if column > 0 {
				all[i] += "  "
			}
			all[i] += fmt.Sprintf("%*s", width, row[column])
		}
	}
	return all
}

// share is that of so many instructions in all of the function, in percent.
func (f *Function) share(instructions uint64) float64 {
	if f.Instructions == 0 {
		return 0
	}
	return float64(instructions) * 100 / float64(f.Instructions)
}

// bars is one for each loop that a block is in, of as many characters as there are loops in
// each other.
func (f *Function) bars(b *Block) string {
	deepest, depth := 0, 0
	for i := range f.Loops {
		deepest = max(deepest, f.Loops[i].Depth)
	}
	if b.Loop != nil {
		depth = f.Loops[*b.Loop].Depth
	}
	return strings.Repeat("|", depth) + strings.Repeat(" ", deepest-depth)
}

// headed is the loop that a block is the header of, nil if it is of none.
func (f *Function) headed(b *Block) *Loop {
	if b.Loop == nil || f.Loops[*b.Loop].Header != b.Address {
		return nil
	}
	return &f.Loops[*b.Loop]
}

// describe says how often a loop ran.
func (f *Function) describe(l *Loop) string {
	text := fmt.Sprintf("loop: %s iterations", figures.Thousands(l.Iterations))
	if l.Entries != nil {
		text += fmt.Sprintf(", entered %s times", figures.Thousands(*l.Entries))
		if *l.Entries > 0 {
			text += fmt.Sprintf(", %.1f each", float64(l.Iterations)/float64(*l.Entries))
		}
	}
	if l.Trips != nil && (l.Iterations > 0 || l.Trips.Ended > 0) {
		text += "; " + l.Trips.Range()
		if n := l.Trips.Missing(l.Entries); n > 0 && l.Trips.Ended > 0 {
			text += fmt.Sprintf(", %s not seen to end", figures.Thousands(n))
		}
	}
	return fmt.Sprintf("%s; %.1f %% of the instructions", text, f.share(l.Executed))
}
