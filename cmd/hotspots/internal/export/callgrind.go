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
// has run, read and written memory, where blocks are counted, and for each function its calls.
// Who called whom is not known.
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
	for _, o := range c.others(mangled) {
		fmt.Fprintf(out, "\nob=%s\nfl=???\nfn=%s\n", oneLine(o.object), oneLine(o.name))
		c.line(o.address, executed{}, 0, o.ns)
	}
	fmt.Fprint(out, "\ntotals:")
	c.numbers(c.total, c.calls, c.time)
	return out.Flush()
}

type callgrind struct {
	*counts
	out     *bufio.Writer
	mangled bool

	object int // number of the last one + 1
	image  *objcode.Image
	calls  uint64
	total  executed
	time   uint64 // ns
}

// executed is instructions that have run, and what they have read and written.
type executed struct{ instructions, reads, writes uint64 }

// executedOf counts reads as callgrind does: what is then written at the same place is in
// writes alone, unless that is atomic.
func executedOf(code []byte, runs uint64) executed {
	a := objcode.AccessesOf(code)
	return executed{runs, (a.Loads - a.Modifies + a.Atomics) * runs, a.Stores * runs}
}

// numbers writes those of the events that there are.
func (c *callgrind) numbers(e executed, calls, ns uint64) {
	if c.flow != nil {
		fmt.Fprintf(c.out, " %d %d %d", e.instructions, e.reads, e.writes)
	}
	fmt.Fprintf(c.out, " %d", calls)
	if c.times != nil {
		fmt.Fprintf(c.out, " %d", ns)
	}
	fmt.Fprintln(c.out)
}

// line writes the costs at an address.
func (c *callgrind) line(at uint64, e executed, calls, ns uint64) {
	fmt.Fprintf(c.out, "0x%x", at)
	c.numbers(e, calls, ns)
	c.time += ns
}

func (c *callgrind) head() {
	fmt.Fprintf(c.out, "# callgrind format\nversion: 1\ncreator: hotspots\npid: %d\ncmd: %s\npart: 1\n\n", c.t.Pid, oneLine(c.t.Program))
	fmt.Fprint(c.out, "positions: instr\n")
	events := "Calls"
	if c.flow != nil {
		fmt.Fprint(c.out, "event: Ir : instructions\nevent: Dr : loads\nevent: Dw : stores\n")
		events = "Ir Dr Dw Calls"
	}
	fmt.Fprint(c.out, "event: Calls : calls of functions\n")
	if c.times != nil {
		fmt.Fprint(c.out, "event: Ns : CPU time, sampled, ns\n")
		events += " Ns"
	}
	fmt.Fprintf(c.out, "events: %s\n", events)
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
	ns := c.times.Nanoseconds(i)
	if len(blocks) == 0 {
		c.line(f.Address, executed{}, calls, ns)
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
		for at, code := range c.image.Instructions(b.Address, b.Size) {
			e := executedOf(code, b.Runs)
			c.total.instructions += e.instructions
			c.total.reads += e.reads
			c.total.writes += e.writes
			switch {
			case at == f.Address && calls+ns > 0:
				c.line(at, e, calls, ns)
				calls, ns = 0, 0
			case e.reads+e.writes > 0:
				fmt.Fprintf(c.out, "0x%x %d %d %d\n", at, e.instructions, e.reads, e.writes) // all that is not there is 0
			default:
				fmt.Fprintf(c.out, "0x%x %d\n", at, e.instructions)
			}
		}
	}
	if ns > 0 { // its first block did not run: who jumped into it is found in it
		c.line(f.Address, executed{}, 0, ns)
	}
	return nil
}
