package export

import (
	"bufio"
	"fmt"
	"io"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// Callgrind writes a table in the format of callgrind (valgrind's manual, "Callgrind Format
// Specification"), for callgrind_annotate and KCachegrind: for each instruction how often it
// has run, where blocks are counted, and for each function its calls. Who called whom is not
// known.
func Callgrind(w io.Writer, t *table.Table, mangled bool) error {
	counts, err := read(t)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	c := &callgrind{counts: counts, out: out, mangled: mangled}
	c.head()
	for _, i := range c.ran() {
		if err := c.function(i); err != nil {
			return err
		}
	}
	if c.flow == nil {
		fmt.Fprintf(out, "\ntotals: %d\n", c.calls)
	} else {
		fmt.Fprintf(out, "\ntotals: %d %d\n", c.instructions, c.calls)
	}
	return out.Flush()
}

type callgrind struct {
	*counts
	out     *bufio.Writer
	mangled bool

	object              int // number of the last one + 1
	image               *objcode.Image
	calls, instructions uint64
}

func (c *callgrind) head() {
	fmt.Fprintf(c.out, "# callgrind format\nversion: 1\ncreator: hotspots\npid: %d\ncmd: %s\npart: 1\n\n", c.t.Pid, oneLine(c.t.Program))
	if c.flow == nil {
		fmt.Fprint(c.out, "positions: instr\nevent: Calls : calls of functions\nevents: Calls\n")
		return
	}
	fmt.Fprint(c.out, "positions: instr\nevent: Ir : instructions\nevent: Calls : calls of functions\nevents: Ir Calls\n")
}

// function writes the costs of function i.
func (c *callgrind) function(i int) error {
	f := &c.t.Functions[i]
	o := &c.t.Objects[f.Object]
	if c.object != int(f.Object)+1 {
		c.object, c.image = int(f.Object)+1, nil
		fmt.Fprintf(c.out, "\nob=%s\n", oneLine(o.Path))
	}
	fmt.Fprintf(c.out, "fl=???\nfn=%s\n", oneLine(symname.Display(f.Name, o.Path, f.Address, !c.mangled)))
	calls := c.s.Calls[i]
	c.calls += calls
	blocks := c.flow.Of(uint32(i)).Blocks
	switch {
	case c.flow == nil:
		fmt.Fprintf(c.out, "0x%x %d\n", f.Address, calls)
		return nil
	case len(blocks) == 0:
		fmt.Fprintf(c.out, "0x%x 0 %d\n", f.Address, calls)
		return nil
	}
	if c.image == nil {
		var err error
		if c.image, err = objcode.Load(o); err != nil {
			return err
		}
	}
	for k := range blocks {
		b := &blocks[k]
		if b.Runs == 0 {
			continue
		}
		for at := range c.image.Instructions(b.Address, b.Size) {
			c.instructions += b.Runs
			if calls > 0 && at == f.Address {
				fmt.Fprintf(c.out, "0x%x %d %d\n", at, b.Runs, calls)
				calls = 0
			} else {
				fmt.Fprintf(c.out, "0x%x %d\n", at, b.Runs)
			}
		}
	}
	return nil
}
