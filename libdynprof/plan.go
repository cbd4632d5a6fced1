package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
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
	in.shared = in.shared || choice.lock
	maps, err := mapsFor(in)
	if err != nil {
		return nil, fmt.Errorf("cannot see what is loaded: %w%s", err, hintProc(err))
	}
	if in.late {
		locate(in, maps)
	}
	choice.translator = in.translator
	in.debugged = isDebugged(in.pid)
	all := objects(in, maps, choice)
	if err := unreadable(all); err != nil && !in.late {
		return nil, err
	}
	share(in, choice, all, func(o *object) { o.decide(choice, maps, in, true) })
	in.translator = in.translator && !in.shared // fronts count in a row of the thread's own
	base, err := openBase(in)
	if err != nil {
		return nil, err
	}
	fitting := base.fit(in, all)
	if in.keep && in.late {
		in.used = base.table.ReserveUsed()
	}
	fitPatches(in, all)
	reserve, err := mem.Alias(in.reserve, int(in.size))
	if err != nil {
		return nil, fmt.Errorf("cannot map the stubs writable: %w", err)
	}
	space := in.space(maps)
	row := view{}
	if in.shared {
		row = viewOf(base.counters, base.counters+countersOf(all))
	}
	arenas, err := layArenas(in, all, space, reserve, row, choice.threshold.Any())
	if err != nil {
		return nil, err
	}
	number(all, base)
	for _, a := range arenas {
		if err := a.fill(in, choice); err != nil {
			return nil, err
		}
	}
	if arenas, err = layOrigins(in, arenas, space, reserve); err != nil {
		return nil, err
	}
	undos := layUndos(in, all, space, reserve)
	if err := in.outsiderMay(all); err != nil {
		return nil, err
	}
	in.begin()
	out := &output{arenas: arenas, announce: choice.perfMap, traps: choice.allowTraps}
	serving, out.remark = openEndpoint(in, choice, all[0].path)
	if choice.perfMap {
		writePerfMap(in.pid, all) // perf shows bare addresses without it
	}
	done := make(chan error, 1)
	go func() { done <- out.writeTable(in, choice, fitting, base) }()
	err = out.patch(in, all, undos)
	return out, errors.Join(<-done, err)
}

func knownSpace() (*patcher.Space, error) {
	maps, err := procmaps.Of("self")
	return patcher.NewSpace(maps, lowestAddress(), growth()), err
}

func mapsFor(in *input) ([]procmaps.Mapping, error) {
	if in.late {
		return lateMaps(in)
	}
	return procmaps.Of("self")
}

func hintProc(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return " (is /proc mounted?)"
	}
	return ""
}

// plan plans every function of a selected object.
func (o *object) plan(choice *config, maps []procmaps.Mapping, in *input) {
	if !o.selected || o.reason != ledger.ReasonNone {
		return
	}
	o.code.AddTails(o.scan, o.tail)
	o.code.NoteCalls = choice.directCalls && !in.debugged && !in.translator
	o.survey = stubgen.NewSurvey(o.code, 0)
	o.stubs = make([]stubgen.Stub, len(o.code.Functions))
	o.sites = o.survey.KernelSites()
	if in.translator {
		o.keeps = o.survey.Keeps(0)
	}
	o.decide(choice, maps, in, in.shared)
}

// decide makes the plans of an object that is surveyed; shared says that all
// threads share the counters.
func (o *object) decide(choice *config, maps []procmaps.Mapping, in *input, shared bool) {
	if o.survey == nil {
		return
	}
	var chooses func(int) bool
	if choice.only != nil || choice.skip != nil {
		chooses = func(i int) bool { return choice.chooses(o, i) }
	}
	opt := stubgen.Options{
		Threshold: choice.threshold.Any(), Redirectable: choice.translator && !shared,
		Traps: choice.allowTraps, Shared: shared, Stay: in.debugged,
	}
	if !choice.threshold.Same() {
		o.thresholds = make([]uint32, len(o.code.Functions))
		opt.Hot = func(i int) bool {
			o.thresholds[i] = choice.threshold.Of(o.displayed(i))
			return o.thresholds[i] > 0
		}
	}
	opt.KnownFaults = o.code.Go && hasActionSite(in, maps)
	o.plans = o.survey.Plans(opt, 0, chooses)
	o.dropHook()
}

// tail is the memory behind a segment of text, to the end of its last page.
func (o *object) tail(s elfscan.Segment, n uint64) []byte {
	at := s.Addr + s.FileSize + o.code.Bias
	if !readable(o.exec, at, at+n) {
		return nil
	}
	return mem.View(at, int(n))
}

// chooses applies --only and --skip.
func (c *config) chooses(o *object, i int) bool {
	name := o.displayed(i)
	return (c.only == nil || c.only.Match(name)) && (c.skip == nil || !c.skip.Match(name))
}

// displayed is the name of function i as reports show it.
func (o *object) displayed(i int) string {
	f := &o.code.Functions[i]
	return symname.Display(f.Name, o.path, f.Addr, true)
}

// threshold is the number of calls at which function i, which is counted, fires;
// 0 is never.
func (o *object) threshold(choice *config, i int) uint32 {
	if o.thresholds != nil {
		return o.thresholds[i]
	}
	return choice.threshold.All
}

// number gives every counted function its counter, and every function its
// number in the table.
func number(all []*object, base *base) {
	next, functions := base.counters, base.functions
	for _, o := range all {
		o.groups = patcher.Groups(functions)
		functions += len(o.plans)
		o.first, o.counters = next, make([]uint32, len(o.plans))
		for i := range o.plans {
			if o.plans[i].Counted() {
				o.counters[i] = next
				next++
			}
		}
	}
}

// patch lists what the target has to change, by run of executable pages, in
// the memory that the target will read it from.
func (out *output) patch(in *input, all []*object, undos *undos) error {
	list := in.patches[:0]
	var texts []patchedText
	for _, o := range all {
		start := len(list)
		list = o.appendPatches(list)
		mine := list[start:]
		patcher.Sort(mine)
		for _, m := range o.exec {
			n := sort.Search(len(mine), func(i int) bool { return uint64(mine[i].At) >= m.End })
			if n > 0 {
				texts = append(texts, patchedText{object: o, patches: mine[:n]})
				out.texts = append(out.texts, text{Mapping: m, arena: o.arena, patches: n})
			}
			mine = mine[n:]
		}
	}
	calls := out.roomForCalls(in, len(list))
	for i := range texts {
		n := len(calls)
		calls = texts[i].leadCalls(calls, &out.texts[i])
		out.texts[i].calls = len(calls) - n
	}
	if undos != nil && len(texts) > 0 {
		out.undos, out.undosCount = undos.write(texts, out.texts, calls)
		out.arenas = append(out.arenas, undos.pages)
	}
	return nil
}

// fitPatches takes back the plans of objects for which the list of patches has no
// room. There is always some for their kernel sites.
func fitPatches(in *input, all []*object) {
	room := cap(in.patches)
	for _, o := range all {
		room -= o.patchesAtMost() - o.patchedCounts()
	}
	for _, o := range all {
		n := o.patchedCounts()
		if n > room {
			o.refuse(ledger.ReasonNoMemory)
			continue
		}
		room -= n
	}
}

// patchedCounts is the number of patches of counted functions, at most.
func (o *object) patchedCounts() int {
	return o.patchesAtMost() - len(o.sites) - len(o.signals) - 1
}

func (o *object) patchesAtMost() int {
	n := len(o.sites) + len(o.signals) + 1 // the hook
	for i := range o.plans {
		if o.plans[i].Counted() {
			n += patcher.PatchesOf(&o.plans[i], o.survey.Leads(&o.plans[i]))
		}
	}
	return n
}

func (o *object) appendPatches(list []patcher.Patch) []patcher.Patch {
	for i := range o.plans {
		p := &o.plans[i]
		if !p.Counted() {
			continue
		}
		list = o.groups.Append(list, o.code, p, o.survey.Leads(p), &o.stubs[i])
	}
	if o.arena != nil {
		for i, site := range o.sites {
			list = append(list, patcher.KernelSite(o.code, site, o.arena.thunk(o, i)))
		}
		for i, site := range o.signals {
			list = append(list, patcher.SignalSite(o.code, site, o.arena.thunk(o, len(o.sites)+i)))
		}
		if o.hook != 0 {
			list = append(list, patcher.Hook(o.code, o.hook, o.arena.hook()))
		}
	}
	return list
}

// writeTable makes the table; the target publishes it when the patches are in.
func (out *output) writeTable(in *input, choice *config, all []*object, base *base) error {
	if in.late {
		return base.add(in, choice, all)
	}
	program := all[0].path
	host, _ := os.Hostname() // only for %h
	path, err := table.OutputPath(choice.output, choice.runtimeDir, table.Names{
		Program: program, Pid: in.pid, Host: host, Time: time.Now(),
	})
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // the program may go elsewhere
		return err
	}
	f, err := table.Create(path, ledgerOf(in, choice, program, all))
	if err != nil {
		return err
	}
	out.table, out.nonce = f.Path(), f.Nonce
	return f.Close()
}
