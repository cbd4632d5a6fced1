package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/annotate"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// lastDetail is what was read of a function last.
type lastDetail struct {
	detail *top.Detail
	at     time.Time
	took   time.Duration
}

// often is how many times as long as it takes to read callers and code they are not read
// again: that is 2 % of a core.
const often = 50

// Detail reads what is known of a function. Callers and code, which take longer, are not
// read anew each time.
func (p *Program) Detail(i int) (d *top.Detail) {
	p.changing.RLock()
	defer p.changing.RUnlock()
	d = &top.Detail{Function: i}
	defer func() {
		if bug := recover(); bug != nil {
			d.NoCode = fmt.Sprintf("BUG: %v", bug)
		}
	}()
	if last := p.detail; last.detail != nil && last.detail.Function == i && (!callgraph.Known(p.t) || time.Since(last.at) < often*last.took) {
		*d = *last.detail
		d.Threads, d.Shared = nil, false
		addThreads(d, p.t)
		return d
	}
	began := time.Now()
	p.addCode(d)
	addEdges(d, p.t, p.mangled)
	p.detail = lastDetail{d, time.Now(), time.Since(began)}
	addThreads(d, p.t)
	return d
}

// addThreads adds which threads have called the function.
func addThreads(d *top.Detail, t *table.Table) {
	rows, err := t.RowsOf(d.Function)
	if err != nil {
		return // the next Frame says why
	}
	for _, r := range rows {
		d.Threads = append(d.Threads, top.Thread{ThreadID: top.ThreadID{Pid: r.Pid, Tid: r.Tid}, Calls: r.Calls})
		d.Shared = d.Shared || r.Base > 0
	}
	slices.SortFunc(d.Threads, func(a, b top.Thread) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Pid, b.Pid), cmp.Compare(a.Tid, b.Tid))
	})
}

// addCode adds the instructions, with how often each has run where that is known.
func (p *Program) addCode(d *top.Detail) {
	e := &p.t.Functions[d.Function]
	o := &p.t.Objects[e.Object]
	if p.t.HasBlocks() {
		f, err := annotate.Of(p.t, d.Function, symname.Display(e.Name, o.Path, e.Address, !p.mangled))
		if err != nil {
			d.NoCode = err.Error()
			return
		}
		if len(f.Blocks) > 0 {
			annotate.AddSource([]*annotate.Function{f}, &debugfile.Finder{Root: debugfile.System}, func(error) {}) // without, then
			for _, l := range f.Lines() {
				d.Code = append(d.Code, top.Text{Text: l.Numbers + l.Text, Hot: l.Hot})
			}
			return
		}
	}
	addPlain(d, o, e)
}

// addPlain adds instructions alone.
func addPlain(d *top.Detail, o *layout.Object, e *layout.Function) {
	code, err := annotate.Plain(o, e)
	switch {
	case err != nil:
		d.NoCode = err.Error()
		return
	case len(code) == 0:
		d.NoCode = "it has none in the file"
		return
	}
	d.Code = []top.Text{{Text: "ADDRESS  (how often each has run: start the program with hotspots run --blocks)"}}
	for _, in := range code {
		d.Code = append(d.Code, top.Text{Text: fmt.Sprintf("%7x  %s", uint64(in.Address), in.Text)})
	}
}

// addEdges adds callers and callees.
func addEdges(d *top.Detail, t *table.Table, mangled bool) {
	if !callgraph.Known(t) {
		d.NoEdges = "start the program with hotspots run --edges, or --blocks, to see them"
		return
	}
	g, err := callgraph.Of(t, callgraph.FilesOf(t))
	if err != nil {
		d.NoEdges = err.Error()
		return
	}
	l := &callgraph.List{Graph: g, Objects: t.Objects, Mangled: mangled}
	e := &t.Functions[d.Function]
	callers, callees := l.Around(callgraph.Place{Object: int(e.Object), Address: e.Address})
	d.Callers, d.Callees = edges(callers), edges(callees)
}

func edges(list []callgraph.Neighbor) (all []top.Edge) {
	for _, n := range list {
		all = append(all, top.Edge{Name: n.Name, Kind: n.Kind.String(), Calls: n.Calls})
	}
	return all
}
