package export

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// Folded writes tables as collapsed stacks, for flamegraph.pl, speedscope and what else reads
// Brendan Gregg's format: a line for each function that ran, of frames with semicolons in
// between and a number. The frames are program, object and function: no stacks of calls,
// which are not known. The number is the function's calls, the instructions that it has
// executed itself, or the CPU time that it took itself, ns.
type Folded struct {
	out     *bufio.Writer
	value   Value
	mangled bool
}

// Value is what of functions is written.
type Value string

// Values.
const (
	Calls        Value = "calls"
	Instructions Value = "instructions"
	Time         Value = "time"
)

// NewFolded begins.
func NewFolded(w io.Writer, value Value, mangled bool) *Folded {
	return &Folded{bufio.NewWriter(w), value, mangled}
}

// Add adds a table.
func (f *Folded) Add(t *table.Table) error {
	if f.value == Instructions && !t.HasBlocks() {
		return fmt.Errorf("%s counts no blocks, so no instructions: add --value calls", t.Path())
	}
	counts, err := read(t)
	if err != nil {
		return err
	}
	if f.value == Time && counts.times == nil {
		return fmt.Errorf("%s has no CPU time: run the program with hotspots run --time, or add --value calls", t.Path())
	}
	program := symname.Frame(filepath.Base(symname.Clean(t.Program)))
	for _, i := range counts.ran() {
		n := counts.s.Calls[i]
		switch f.value {
		case Instructions:
			n, _ = counts.executed(i)
		case Time:
			n = counts.times.Nanoseconds(i)
		}
		if n == 0 {
			continue
		}
		e := &t.Functions[i]
		path := t.Objects[e.Object].Path
		object, name := symname.Frame(filepath.Base(symname.Clean(path))), symname.Frame(symname.Display(e.Name, path, e.Address, !f.mangled))
		if _, err := fmt.Fprintf(f.out, "%s;%s;%s %d\n", program, object, name, n); err != nil {
			return err
		}
	}
	if f.value != Time {
		return nil
	}
	for _, o := range counts.others(f.mangled) {
		if _, err := fmt.Fprintf(f.out, "%s;%s;%s %d\n", program, symname.Frame(filepath.Base(symname.Clean(o.object))), symname.Frame(o.name), o.ns); err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is left.
func (f *Folded) Close() error { return f.out.Flush() }
