package export

import (
	"encoding/hex"
	"io"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/parquet"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
)

// columns are those of docs/json.md, "export --format parquet".
var columns = []parquet.Column{
	{Name: "host"},
	{Name: "run", Optional: true},
	{Name: "started", Kind: parquet.Instant},
	{Name: "program"},
	{Name: "pid", Kind: parquet.Uint32},
	{Name: "build_id"},
	{Name: "object"},
	{Name: "address", Kind: parquet.Uint64},
	{Name: "function"},
	{Name: "size", Kind: parquet.Uint32},
	{Name: "calls", Kind: parquet.Uint64, Optional: true},
	{Name: "instructions", Kind: parquet.Uint64, Optional: true},
	{Name: "self_ns", Kind: parquet.Uint64, Optional: true},
	{Name: "self_ns_low", Kind: parquet.Uint64, Optional: true},
	{Name: "self_ns_high", Kind: parquet.Uint64, Optional: true},
}

// Parquet writes tables into one file of Apache Parquet: a row for each function of each
// table, called or not, and for what else took CPU time.
type Parquet struct {
	file    *parquet.Writer
	host    string
	mangled bool
}

// NewParquet begins a file of tables of that host.
func NewParquet(w io.Writer, host string, mangled bool) *Parquet {
	return &Parquet{parquet.NewWriter(w, columns), symname.Clean(host), mangled}
}

// Add adds a table.
func (p *Parquet) Add(t *table.Table) error {
	counts, err := read(t)
	if err != nil {
		return err
	}
	var run any
	if t.RunID != [16]byte{} {
		run = hex.EncodeToString(t.RunID[:])
	}
	started, program := t.Realtime.UTC(), symname.Clean(t.Program)
	for i := range t.Functions {
		f := &t.Functions[i]
		if f.Reason.Excluded() && counts.times.Nanoseconds(i) == 0 {
			continue
		}
		o := &t.Objects[f.Object]
		var calls, instructions any
		if f.Counted() {
			calls = counts.s.Calls[i]
		}
		if n, ok := counts.executed(i); ok {
			instructions = n
		}
		var times [3]any
		if counts.times != nil {
			one := counts.times.Of(i)
			times = [3]any{one.Self, one.Low, one.High}
		}
		err := p.file.Row(p.host, run, started, program, t.Pid, symname.Clean(o.BuildID), symname.Clean(o.Path),
			f.Address, symname.Display(f.Name, o.Path, f.Address, !p.mangled), f.Size, calls, instructions, times[0], times[1], times[2])
		if err != nil {
			return err
		}
	}
	return p.addOthers(counts, run, started, program)
}

// addOthers adds what took CPU time and is in no ledger.
func (p *Parquet) addOthers(c *counts, run any, started time.Time, program string) error {
	if c.times == nil {
		return nil
	}
	for i, o := range c.others(p.mangled) {
		r := &c.times.Rest[i]
		t := c.times.OfSamples(r.Samples)
		err := p.file.Row(p.host, run, started, program, c.t.Pid, symname.Clean(r.BuildID), symname.Clean(o.object), o.address, o.name, r.Size, nil, nil, t.Self, t.Low, t.High)
		if err != nil {
			return err
		}
	}
	return nil
}

// Close writes the file's end.
func (p *Parquet) Close() error { return p.file.Close() }
