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
// which are not known. The number is the function's calls, or the instructions that it has
// executed itself.
type Folded struct {
	out          *bufio.Writer
	instructions bool
	mangled      bool
}

// NewFolded begins with calls, or with instructions.
func NewFolded(w io.Writer, instructions, mangled bool) *Folded {
	return &Folded{bufio.NewWriter(w), instructions, mangled}
}

// Add adds a table.
func (f *Folded) Add(t *table.Table) error {
	if f.instructions && !t.HasBlocks() {
		return fmt.Errorf("%s counts no blocks, so no instructions: add --value calls", t.Path())
	}
	counts, err := read(t)
	if err != nil {
		return err
	}
	program := symname.Frame(filepath.Base(symname.Clean(t.Program)))
	for _, i := range counts.ran() {
		n := counts.s.Calls[i]
		if f.instructions {
			n, _ = counts.executed(i)
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
	return nil
}

// Close writes what is left.
func (f *Folded) Close() error { return f.out.Flush() }
