// Package show tells all that a table, and the files of its objects, know of a function.
package show

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/loops"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Function is what is known of one.
type Function struct {
	Object  string         `json:"object"`
	BuildID string         `json:"build_id"`
	Address report.Address `json:"address"`
	Name    string         `json:"name"`
	Guess   string         `json:"guess"`   // a string beside a pointer to it; empty if there is none
	Nearest string         `json:"nearest"` // of one without a name: the name in front of it, and how far; else empty
	Aliases []string       `json:"aliases"`
	Size    uint32         `json:"size"`
	Source  string         `json:"source"`
	Tactic  string         `json:"tactic"`
	Reason  string         `json:"reason"`

	Calls            *uint64      `json:"calls"` // null: they are not counted
	*report.SelfTime              // nil if no CPU time was sampled
	Hot              bool         `json:"hot"`
	Threads          []Thread     `json:"threads"`
	Instructions     *uint64      `json:"instructions"`             // that it has executed; null: its blocks are not counted
	Observed         *uint64      `json:"observed_calls,omitempty"` // calls that they are of, if not of all
	Blocks           int          `json:"blocks"`
	BlocksReason     string       `json:"blocks_reason,omitempty"` // why its blocks are not counted, where those of others are
	Loops            []loops.Loop `json:"loops"`
	Callers          any          `json:"callers"` // edges, as of hotspots calls; null: nobody tells who called whom
	Callees          any          `json:"callees"`

	ReferredBy []Referrer    `json:"referred_by"`
	Refers     []Reference   `json:"refers"`
	Code       []Instruction `json:"code"`
	// Patch is where it is known from which bytes are overwritten: memory, of the running
	// program, or tactic; empty if none are.
	Patch string   `json:"patch"`
	Notes []string `json:"notes"` // what could not be read

	number int // in the table
	list   *callgraph.List
}

// Thread is calls by one, or by several that had a row of the table one after the other.
type Thread struct {
	Pid     uint32 `json:"pid"`
	Tid     uint32 `json:"tid"`
	Several bool   `json:"several"` // others had the row before, or all share it
	Calls   uint64 `json:"calls"`
}

// View is a table that functions are shown of.
type View struct {
	Program      string  `json:"program"`
	Pid          uint32  `json:"pid"`
	Status       string  `json:"status"`
	TotalCalls   uint64  `json:"total_calls"`
	Instructions *uint64 `json:"total_instructions,omitempty"` // only where blocks are counted

	Time *report.Sampling `json:"time,omitempty"` // CPU time; nil if none was sampled

	Functions []*Function `json:"-"`

	table   *table.Table
	counts  *table.Snapshot
	flow    *table.Flow
	times   *report.Times
	mangled bool
	objects map[int]*object
	files   callgraph.Files
	list    *callgraph.List
}

// mostNamed is how many functions of one name are shown.
const mostNamed = 50

// Find is a view of the functions that a user names: by a name, an alias, an address in them,
// or object+0xaddress. If there are none the error tells of names that are like it.
func Find(t *table.Table, name string, mangled bool) (*View, error) {
	v := &View{
		Program: symname.Clean(t.Program), Pid: t.Pid, Status: alive.Of(t.File).String(),
		table: t, mangled: mangled, objects: map[int]*object{}, files: callgraph.FilesOf(t),
	}
	var err error
	if v.counts, err = t.SinceReset(); err != nil {
		return nil, err
	}
	if v.flow, err = t.Flow(v.counts); err != nil {
		return nil, err
	}
	v.times, err = report.TimesOf(t)
	v.Time = report.SamplingOf(v.times, err) // which says why, if it cannot be read
	v.TotalCalls = v.counts.Total()
	if v.flow != nil {
		v.Instructions = new(uint64)
		for i := range v.flow.Blocks {
			*v.Instructions += v.flow.Blocks[i].Executed()
		}
	}
	numbers := v.named(name)
	if len(numbers) == 0 {
		return nil, v.noneNamed(name)
	}
	if len(numbers) > mostNamed {
		return nil, fmt.Errorf("%s: %d functions have that name: show one by its address, such as %s+0x%x", name, len(numbers), filepath.Base(symname.Clean(t.Objects[t.Functions[numbers[0]].Object].Path)), t.Functions[numbers[0]].Address)
	}
	for _, i := range numbers {
		f, err := v.function(i)
		if err != nil {
			return nil, err
		}
		v.Functions = append(v.Functions, f)
	}
	return v, nil
}

// shown is the name of function i.
func (v *View) shown(i int) string {
	f := &v.table.Functions[i]
	return symname.Display(f.Name, v.table.Objects[f.Object].Path, f.Address, !v.mangled)
}

// nearest is the last function with a name in front of one that has none, as debuggers show
// addresses: compilers and linkers keep together what was together in the source.
func (v *View) nearest(e *layout.Function) string {
	last := -1
	for i := range v.table.Functions {
		f := &v.table.Functions[i]
		if f.Object == e.Object && f.Name != "" && !f.Reason.Excluded() && f.Address < e.Address && (last < 0 || f.Address > v.table.Functions[last].Address) {
			last = i
		}
	}
	if e.Name != "" || last < 0 {
		return ""
	}
	return fmt.Sprintf("%s+%#x", v.shown(last), e.Address-v.table.Functions[last].Address)
}

// function tells of function i.
func (v *View) function(i int) (*Function, error) {
	e := &v.table.Functions[i]
	o := &v.table.Objects[e.Object]
	f := &Function{
		Object: symname.Clean(o.Path), BuildID: symname.Clean(o.BuildID), Address: report.Address(e.Address), Name: v.shown(i),
		Aliases: []string{}, Size: e.Size, Source: e.Source.String(), Tactic: e.Tactic.String(), Reason: e.Reason.String(),
		Hot: v.counts.Hot(i), Threads: []Thread{}, Loops: []loops.Loop{}, ReferredBy: []Referrer{}, Refers: []Reference{}, Code: []Instruction{}, Notes: []string{},
		number: i, BlocksReason: e.Blocks.String(),
	}
	f.Nearest = v.nearest(e)
	for _, a := range e.Aliases {
		f.Aliases = append(f.Aliases, symname.Display(a, o.Path, e.Address, !v.mangled))
	}
	if e.Counted() {
		f.Calls = &v.counts.Calls[i]
	}
	if v.times != nil {
		f.SelfTime = v.times.Of(i)
	}
	rows, err := v.table.ByRow(v.counts, i)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		f.Threads = append(f.Threads, Thread(r))
	}
	slices.SortStableFunc(f.Threads, func(a, b Thread) int { return cmp.Compare(b.Calls, a.Calls) })
	if err := v.addFlow(f); err != nil {
		return nil, err
	}
	v.addEdges(f)
	if err := v.addCode(f); err != nil {
		f.Notes = append(f.Notes, fmt.Sprintf("no code: %v", err))
	}
	return f, nil
}

// addFlow adds what is known where blocks are counted.
func (v *View) addFlow(f *Function) error {
	if v.flow == nil {
		return nil
	}
	part := v.flow.Of(uint32(f.number))
	if f.Blocks = len(part.Blocks); f.Blocks > 0 {
		f.Instructions = new(uint64)
		if n, some := v.flow.Observed(uint32(f.number)); some {
			f.Observed = &n
		}
		for i := range part.Blocks {
			*f.Instructions += part.Blocks[i].Executed()
		}
	}
	list, err := loops.Of(v.table, f.Address.String(), v.mangled)
	if err != nil {
		return err
	}
	for _, l := range list.Loops {
		if l.Object == f.Object {
			f.Loops = append(f.Loops, l)
		}
	}
	return nil
}

// addEdges adds callers and callees, where they are known.
func (v *View) addEdges(f *Function) {
	if !callgraph.Known(v.table) {
		return
	}
	if v.list == nil {
		g, err := callgraph.Of(v.table, v.files)
		if err != nil {
			f.Notes = append(f.Notes, fmt.Sprintf("no callers: %v", err))
			return
		}
		v.list = &callgraph.List{Graph: g, Program: v.Program, Objects: v.table.Objects, Mangled: v.mangled}
	}
	f.list = v.list
	if n, ok := v.list.Number(v.place(f)); ok {
		f.Callers, f.Callees = v.list.EdgesOf(n)
	}
}

func (v *View) place(f *Function) callgraph.Place {
	return callgraph.Place{Object: int(v.table.Functions[f.number].Object), Address: uint64(f.Address)}
}
