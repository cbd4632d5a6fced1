// Package patcher plans: of a target and what is wanted it makes arenas full of
// stubs, the list of patches that leads into them, and the ledger. It looks at the
// target and writes to no memory but the reserve and the list that it is given.
package patcher

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/keep"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// grain is how many functions a goroutine takes at a time.
const grain = 256

// Plan is what is planned for a target: stubs that are written, and what the target
// has to do.
type Plan struct {
	*Request
	target   target.Target
	maps     []procmaps.Mapping
	how      decision
	all      []*object // the target's
	fitting  []*object // those that the table has room for
	base     *base
	arenas   []*arena
	undos    *undos
	led      int // calls, at most: those that can be taken back
	progress *progress
	caches   bool         // plans of earlier starts are used, and made for later ones
	tooLarge []string     // paths of objects whose plans would be, to be kept
	cached   *place.Space // what is free, but for the arenas that those have
	reserve  []byte
	used     uint64 // bytes of the reserve that are arenas
	heapEnd  uint64

	// From Patch.
	texts           []text
	changes         []patchedText // of these, after Patch
	undosAt, undone uint64
	originPages     *arena
}

// New reads the target's objects, plans every function, and writes the stubs into
// the reserve. Nothing else is changed, but what the request is told.
func New(r *Request, t target.Target) (*Plan, error) {
	p := &Plan{Request: r, target: t, used: r.ReserveUsed, progress: &progress{tell: r.Progress}}
	shared := r.Shared || r.Options.On[setting.Lock]
	p.how = decision{debugged: t.IsDebugged(), shared: shared, redirectable: r.Translator && !shared,
		notes: r.Options.On[setting.Edges] && r.Options.On[setting.Blocks] && !shared,
		trips: r.Options.On[setting.Trips] && !shared, sites: r.countsCalls(), heat: r.Options.Heat, masks: r.Options.HeatByMasks, threads: r.Options.HeatThreads, tells: r.Options.HeatTells, granule: r.Options.Granule, bases: r.Options.Bases, records: r.Options.Regions,
		switched: r.Options.On[setting.Blocks] && (r.Options.On[setting.Control] || r.Options.Hot)}
	p.how.within = p.how.switched && p.Options.Overhead > 0
	p.caches = p.mayCache()
	if err := p.readMaps(); err != nil {
		return nil, fmt.Errorf("cannot see what is loaded: %w%s", err, hintProc(err))
	}
	p.readObjects()
	if err := unreadable(p.all); err != nil && !r.Late {
		return nil, err
	}
	p.how = p.share()
	if err := p.openBase(); err != nil {
		return nil, err
	}
	p.fit()
	if r.Keep && r.Late {
		p.used = p.base.table.ReserveUsed()
	}
	return p, p.lay()
}

// lay finds places for the arenas and writes what is in them.
func (p *Plan) lay() (err error) {
	if p.reserve, err = p.target.Reserve(); err != nil {
		return fmt.Errorf("cannot map the stubs writable: %w", err)
	}
	space, row := p.freeSpace(), view{}
	if p.how.shared {
		row = viewOf(p.base.counters, p.base.counters+countersOf(p.all))
	}
	if err := p.layArenas(space, row); err != nil {
		return err
	}
	p.number()
	for _, a := range p.arenas {
		if err := a.fill(p); err != nil {
			return err
		}
		for _, o := range a.objects {
			o.patches = 0 // now all are known
		}
	}
	if err := p.layOrigins(space); err != nil {
		return err
	}
	if err := p.layUndos(space); err != nil {
		return err
	}
	p.heapEnd = space.HeapEnd()
	return nil
}

func (p *Plan) readMaps() (err error) {
	if p.Late && !p.caches {
		p.maps = lateMaps(p.Objects, p.target)
	}
	if p.maps != nil {
		return nil
	}
	p.maps, err = p.target.Maps()
	switch {
	case err != nil && p.Late && p.caches: // plans need them, program headers will do for the objects
		p.caches = false
		return p.readMaps()
	case err == nil && p.Late:
		p.maps = withCopies(p.Objects, p.target, p.maps)
	}
	return err
}

func hintProc(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return " (is /proc mounted?)"
	}
	return ""
}

// plan plans every function of a selected object.
func (p *Plan) plan(o *object) {
	if !o.selected || o.reason != ledger.ReasonNone {
		return
	}
	o.code.AddTails(o.scan, o.tail)
	o.code.NoteCalls = !o.code.Go
	// Go's mprotect is no kernel site: who writes over an entry by it is not seen.
	o.leads = !p.Options.On[setting.KeepCalls] && !p.how.debugged && !p.Translator && !o.code.Go
	if (o.leads || p.wantsBlocks(o)) && !p.Late { // what comes later is not bound yet; before anything has run, what will be is writable
		o.code.Closed = o.closed(p.maps)
	}
	o.bySite = p.how.sites && o.leads && !o.byCall
	o.survey = survey.New(o.code, 0)
	o.stubs = make([]emit.Stub, len(o.code.Functions))
	o.sites = o.survey.KernelSites()
	if p.Translator {
		o.keeps = keep.Find(o.survey, 0)
	}
	p.decide(o, p.how)
}

// decide makes the plans of an object that is surveyed.
func (p *Plan) decide(o *object, how decision) {
	if o.survey == nil {
		return
	}
	var chooses func(int) bool
	choice := &p.Options
	if choice.Only != nil || choice.Skip != nil {
		chooses = func(i int) bool { return choice.chooses(o, i) }
	}
	opt := entry.Options{
		Threshold: choice.Threshold.Any(), Redirectable: how.redirectable,
		Traps: how.traps, Shared: how.shared, Stay: how.debugged,
	}
	if !choice.Threshold.Same() {
		o.thresholds = make([]uint32, len(o.code.Functions))
		opt.Hot = func(i int) bool {
			o.thresholds[i] = choice.Threshold.Of(o.displayed(i))
			return o.thresholds[i] > 0
		}
	}
	opt.KnownFaults = o.code.Go && p.hasActionSite()
	o.plans, o.patches, o.copies = entry.Plans(o.survey, opt, 0, chooses), 0, nil
	o.dropHook()
	if p.wantsBlocks(o) {
		o.copy(how, choice.BlocksOf, p.progress)
	} else {
		p.progress.add(o, len(o.plans))
	}
}

// tail is the memory behind a segment of text, to the end of its last page.
func (o *object) tail(s elfscan.Segment, n uint64) []byte {
	at := s.Addr + s.FileSize + o.code.Bias
	if !readable(o.exec, at, at+n) {
		return nil
	}
	return o.target.View(at, int(n))
}

// chooses applies --only and --skip.
func (c *Options) chooses(o *object, i int) bool {
	name := o.displayed(i)
	return (c.Only == nil || c.Only.Match(name)) && (c.Skip == nil || !c.Skip.Match(name))
}

// displayed is the name of function i as reports show it.
func (o *object) displayed(i int) string {
	f := &o.code.Functions[i]
	return symname.Display(f.Name, o.path, f.Addr, true)
}

// threshold is the number of calls at which function i, which is counted, fires;
// 0 is never.
func (p *Plan) threshold(o *object, i int) uint32 {
	if o.thresholds != nil {
		return o.thresholds[i]
	}
	return p.Options.Threshold.All
}

// number gives every counted function its counter, and every function its
// number in the table.
func (p *Plan) number() {
	next, functions := p.base.counters, p.base.functions
	for _, o := range p.all {
		o.groups, o.first = patch.Groups(functions), next
		functions += o.count()
		if o.cached != nil {
			next += o.cached.Counters
			continue
		}
		o.counters = make([]uint32, len(o.plans))
		for i := range o.plans {
			if o.plans[i].Counted() {
				o.counters[i] = next
				next++
			}
		}
		o.numbered = next - o.first
	}
	for _, o := range p.all {
		o.firstOfBlocks = next
		next += o.countersOfBlocks()
	}
	if p.how.tells {
		p.numberCodes()
	}
}

// Patch lists what the target has to change, by run of executable pages, in the reserve.
func (p *Plan) Patch() {
	atMost := 0
	for _, o := range p.all {
		atMost += o.patchesAtMost()
	}
	list := make([]patch.Patch, 0, atMost)
	var texts []patchedText
	for _, o := range p.all {
		if o.cached != nil {
			texts = p.cachedTexts(o, texts)
			continue
		}
		start := len(list)
		list = o.appendPatches(list)
		mine := list[start:]
		patch.Sort(mine)
		for _, m := range o.exec {
			n := sort.Search(len(mine), func(i int) bool { return uint64(mine[i].At) >= m.End })
			if n > 0 {
				texts = append(texts, patchedText{object: o, patches: mine[:n]})
				p.texts = append(p.texts, text{Mapping: m, arena: o.arena})
			}
			mine = mine[n:]
		}
	}
	calls := make([]patch.Call, 0, p.led)
	for i := range texts {
		if texts[i].kept != nil {
			continue
		}
		n := len(calls)
		calls = texts[i].leadCalls(calls, &p.texts[i])
		texts[i].calls = calls[n:]
	}
	p.changes = texts
	if len(texts) > 0 {
		p.undosAt, p.undone = p.undos.write(texts, p.texts)
		p.arenas = append(p.arenas, p.undos.pages)
	}
	p.keepStubs()
}

// patchedCounts is the number of patches of counted functions, at most.
func (o *object) patchedCounts() int {
	if o.cached != nil {
		return 0 // its arena has its place
	}
	return o.patchesAtMost() - len(o.sites) - len(o.signals) - len(o.transfers) - len(o.allocators) - 1
}

func (o *object) patchesAtMost() int {
	if o.cached != nil {
		return len(o.cached.Patches) / patch.OverwrittenSize
	}
	if o.patches > 0 {
		return o.patches // plans are only taken back
	}
	n := len(o.sites) + len(o.signals) + len(o.transfers) + len(o.allocators) + 1 + o.copyPatches() // 1: the hook
	for i := range o.plans {
		if o.plans[i].Counted() {
			n += patch.PatchesOf(&o.plans[i], o.leadsOf(&o.plans[i]))
		}
	}
	o.patches = n
	return n
}

func (o *object) appendPatches(list []patch.Patch) []patch.Patch {
	for i := range o.plans {
		p := &o.plans[i]
		if !p.Counted() {
			continue
		}
		list = o.groups.Append(list, o.code, p, o.leadsOf(p), &o.stubs[i])
		if o.copies != nil && o.copies.units[i].copy {
			u := &o.copies.units[i]
			list = o.groups.AppendCopy(list, o.code, p, o.copies.program.Units()[u.unit-1].Ranges, u.leads)
		}
	}
	if o.arena != nil {
		for i, site := range o.sites {
			list = append(list, patch.KernelSite(o.code, site, o.arena.thunk(o, i)))
		}
		for i, site := range o.signals {
			list = append(list, patch.SignalSite(o.code, site, o.arena.thunk(o, len(o.sites)+i)))
		}
		list = o.appendTransfers(list)
		list = o.appendAllocators(list)
		if o.hook != 0 {
			list = append(list, patch.Hook(o.code, o.hook, o.arena.hook()))
		}
	}
	return list
}
