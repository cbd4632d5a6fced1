package main

import (
	"fmt"
	"os"
	"time"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

// grain is how many functions a goroutine takes at a time.
const grain = 256

// plan does all of the planner's work but the delivery: it reads the target's
// objects, plans every function, writes the stubs into the reserve and the
// ledger into a new table.
func plan(in *input) (*output, error) {
	choice, err := parseConfig(in.vars)
	if err != nil {
		return nil, err
	}
	maps, err := mem.SelfMaps()
	if err != nil {
		return nil, fmt.Errorf("cannot see what is loaded: %w (is /proc mounted?)", err)
	}
	all := objects(in, maps, choice)
	for _, o := range all {
		o.planFunctions(choice)
	}
	reserve, err := mem.Alias(in.reserve, int(in.size))
	if err != nil {
		return nil, fmt.Errorf("cannot map the stubs writable: %w", err)
	}
	arenas, err := layArenas(in, all, maps, reserve, choice.threshold != 0)
	if err != nil {
		return nil, err
	}
	number(all)
	for _, a := range arenas {
		if err := a.fill(in, choice.threshold); err != nil {
			return nil, err
		}
	}
	out := &output{arenas: arenas}
	out.texts, out.patches = patches(all)
	if len(out.patches) > in.maxPatches {
		return nil, fmt.Errorf("%d patches are more than the list holds (%d)", len(out.patches), in.maxPatches)
	}
	return out, out.writeTable(in, choice, all)
}

// planFunctions plans every function of a selected object.
func (o *object) planFunctions(choice *config) {
	if !o.selected || o.reason != ledger.ReasonNone {
		return
	}
	survey := stubgen.NewSurvey(o.code, 0)
	o.plans = make([]stubgen.Plan, len(o.code.Functions))
	o.stubs = make([]stubgen.Stub, len(o.code.Functions))
	opt := stubgen.Options{Sites: o.sites, Threshold: choice.threshold != 0}
	parallel.Ranges(len(o.plans), grain, 0, func(_, first, end int) {
		for i := first; i < end; i++ {
			o.plans[i] = survey.Plan(i, opt)
			if o.plans[i].Counted() && !choice.chooses(o, i) {
				o.plans[i] = stubgen.Plan{Function: i, Reason: ledger.ReasonNotSelected}
			}
		}
	})
	if survey.UsesGS() {
		for i := range o.plans {
			o.plans[i] = stubgen.Plan{Function: i, Reason: ledger.ReasonUsesGS}
		}
	}
}

// chooses applies --only and --skip.
func (c *config) chooses(o *object, i int) bool {
	if c.only == nil && c.skip == nil {
		return true
	}
	f := &o.code.Functions[i]
	name := symname.Display(f.Name, o.path, f.Addr, true)
	return (c.only == nil || c.only.Match(name)) && (c.skip == nil || !c.skip.Match(name))
}

// number gives every counted function its counter.
func number(all []*object) {
	next := uint32(0)
	for _, o := range all {
		o.first, o.counters = next, make([]uint32, len(o.plans))
		for i := range o.plans {
			if o.plans[i].Counted() {
				o.counters[i] = next
				next++
			}
		}
	}
}

// patches lists, by run of executable pages, what the target has to change.
func patches(all []*object) (texts []text, list []patcher.Patch) {
	for _, o := range all {
		var mine []patcher.Patch
		for i := range o.plans {
			if p := &o.plans[i]; p.Counted() {
				mine = append(mine, patcher.Entry(o.code, p, o.stubs[i]))
				mine = append(mine, patcher.Loops(o.code, p, o.stubs[i])...)
			}
		}
		if o.arena != nil {
			for i, site := range o.sites {
				mine = append(mine, patcher.CloneSite(o.code, site, o.arena.thunk(o, i)))
			}
		}
		patcher.Sort(mine)
		for _, m := range o.exec {
			n := 0
			for n < len(mine) && uint64(mine[n].At) < m.End {
				n++
			}
			if n > 0 {
				texts = append(texts, text{m, n})
				list = append(list, mine[:n]...)
				mine = mine[n:]
			}
		}
	}
	return texts, list
}

// writeTable makes the table; the target publishes it when the patches are in.
func (out *output) writeTable(in *input, choice *config, all []*object) error {
	program := all[0].path
	host, _ := os.Hostname() // only for %h
	path, err := table.OutputPath(choice.output, choice.runtimeDir, table.Names{
		Program: program, Pid: in.pid, Host: host, Time: time.Now(),
	})
	if err != nil {
		return err
	}
	f, err := table.Create(path, ledgerOf(in, choice, program, all))
	if err != nil {
		return err
	}
	out.table, out.nonce = f.Path(), f.Nonce
	return f.Close()
}
