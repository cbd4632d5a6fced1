package patcher

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/translate"
)

// Where blocks are to be counted, functions run as copies, which stand behind their counts
// (stubgen/translate). A copy is made to see how large it is, and made again to be written,
// but of the first keptInsts instructions: the graphs of all functions of a large program are
// more memory than a planner may take.

// keptInsts is how many instructions' copies are kept, some 200 bytes each.
const keptInsts = 1 << 18

// copies are those of an object.
type copies struct {
	program  *flow.Program
	units    []copied     // by function
	counters uint32       // that they need
	kept     atomic.Int64 // instructions whose copies are kept until they are written
	first    uint32       // the first of these
}

// copied is the copy of a function.
type copied struct {
	unit     int32  // number of its unit + 1; 0: its blocks are not counted
	copy     bool   // it runs as a copy; else all of it is one block
	patches  uint32 // of its old body, at most
	first    uint32 // of its counters, from the first of the object's on
	insts    uint32
	code     *translate.Code // as long as it is kept
	counters uint32
	blocks   []layout.Block // Function, Counter, After and Loop are from the first of the unit's on
	ways     []layout.Way   // all numbers as well
	loops    []layout.Loop  // as well
	leads    []patch.CopyLead
}

// wantsBlocks reports whether blocks of the object are counted. What comes later, or is
// watched by a debugger, and Go's code, are counted by call.
func (p *Plan) wantsBlocks(o *object) bool {
	return p.Options.On[setting.Blocks] && !p.Late && !p.how.debugged && !o.code.Go && !o.noCopies
}

// dropCopies has the functions of the arena's object with most copies counted by call. It
// reports false if there are none.
func (p *Plan) dropCopies(a *arena) bool {
	largest := (*object)(nil)
	for _, o := range a.objects {
		if o.copies != nil && (largest == nil || o.copies.counters > largest.copies.counters) {
			largest = o
		}
	}
	if largest == nil {
		return false
	}
	largest.noCopies = true
	p.decide(largest, p.how)
	return true
}

// copy plans the copies of all functions that are counted and can have one.
func (o *object) copy(how decision) {
	c := &copies{program: flow.New(o.survey, o.callSites, 0), units: make([]copied, len(o.plans))}
	held := o.held()
	units := c.program.Units()
	parallel.Ranges(len(units), grain, 0, func(_, first, end int) {
		for k := first; k < end; k++ {
			i := units[k].Function
			if !o.plans[i].Counted() {
				continue
			}
			u := &c.units[i]
			if o.copyUnit(c, u, int32(k), held, how) == ledger.ReasonNone {
				u.unit = int32(k) + 1
			}
		}
	})
	for i := range c.units {
		if u := &c.units[i]; u.copy {
			u.first = c.counters
			c.counters += u.counters
		}
	}
	o.copies, o.patches = c, 0
}

// copyUnit plans the copy of unit number k.
func (o *object) copyUnit(c *copies, u *copied, k int32, held []elfscan.Range, how decision) ledger.Reason {
	unit := &c.program.Units()[k]
	p := &o.plans[unit.Function]
	for _, r := range unit.Ranges {
		if why := o.survey.FixedIn(r.Low, r.High); why != ledger.ReasonNone {
			return why
		}
		if o.survey.HasSite(r.Low, r.High) {
			return ledger.ReasonKernelSite
		}
		if overlaps(held, r) {
			return ledger.ReasonBranchIntoWindow
		}
	}
	g, why := c.program.Graph(int(k))
	if g == nil {
		return why
	}
	if len(g.Blocks) == 1 && len(unit.Ranges) == 1 && len(g.Blocks[0].Succs) == 0 && g.Blocks[0].Entered == flow.ByEntry {
		u.blocks, u.insts = blocksOf(g, nil), uint32(len(g.Insts)) // it runs as often as it is called
		return ledger.ReasonNone
	}
	if p.Detour != nil {
		return ledger.ReasonBranchIntoWindow
	}
	moved, ok := inWindow(g, p.Start)
	if !ok {
		return ledger.ReasonTooShort
	}
	code, why := o.lower(g)
	if code == nil {
		return why
	}
	code.Count()
	u.copy, u.counters, u.insts = true, uint32(code.Counters), uint32(len(g.Insts))
	u.blocks, u.ways, u.loops = blocksOf(g, code), waysOf(code), loopsOf(code)
	u.patches = uint32(len(code.Home.Landings)*2 + len(unit.Ranges))
	if c.kept.Add(int64(len(g.Insts))) <= keptInsts {
		u.code = code
	}
	p.RunsCopy(moved, code.Size(o.code, how.shared), how.shared)
	return ledger.ReasonNone
}

// lower is the copy of a graph, with its tables, without counters.
func (o *object) lower(g *flow.Graph) (*translate.Code, ledger.Reason) {
	h, why := translate.PlanHome(g)
	if h == nil {
		return nil, why
	}
	code := translate.Lower(h)
	code.RebuildTables(o.code)
	return code, ledger.ReasonNone
}

// inWindow is the bytes of the whole instructions that the window at start overwrites; false
// if it reaches beyond them.
func inWindow(g *flow.Graph, start uint64) (moved int, ok bool) {
	const window = emit.JumpSize
	if translate.WindowEnd(g) != start+window {
		return 0, false
	}
	at := start
	for i := g.Blocks[g.Entry].First; int(i) < len(g.Insts) && at < start+window; i++ {
		in := &g.Insts[i]
		if in.Addr < start {
			continue // endbr64
		}
		if in.Addr != at {
			return 0, false
		}
		at = in.End()
	}
	return int(at - start), at >= start+window
}

// blocksOf lists a unit's blocks. What stays home behind a call runs as often as the block
// with the call, and as control comes to it in other ways.
func blocksOf(g *flow.Graph, code *translate.Code) []layout.Block {
	list := make([]layout.Block, len(g.Blocks))
	for k := range g.Blocks {
		b := &g.Blocks[k]
		list[k] = layout.Block{
			Address: g.Addr(b), Size: uint32(g.Last(b).End() - g.Addr(b)), Instructions: uint32(b.End - b.First),
			Counter: layout.NoCounter, After: layout.NoBlock, Loop: layout.NoLoop,
		}
	}
	list[g.Entry].Flags |= layout.BlockEntry
	if code == nil {
		return list
	}
	for k := range list {
		list[k].Counter, list[k].Loop = number(code.Blocks[k]), number(code.Nest.Inner[k])
	}
	for _, r := range code.Home.Runs {
		call := uint32(g.BlockOf(r.First))
		for i := r.First + 1; i < r.End; i++ {
			list[g.BlockOf(i)].After = call
		}
	}
	return list
}

// number is one of a table's entries, none if it is negative.
func number(n int32) uint32 { return uint32(n) }

// number says this of -1.
const _ = uint(layout.NoCounter&layout.NoBlock&layout.NoLoop - math.MaxUint32)

// waysOf lists the ways of a copy.
func waysOf(code *translate.Code) []layout.Way {
	list := make([]layout.Way, len(code.Ways))
	for i := range code.Ways {
		w := &code.Ways[i]
		list[i] = layout.Way{From: number(w.From), To: number(w.To), Counter: number(w.Counter)}
		if w.Calls {
			list[i].Flags |= layout.WayCalls
		}
		if w.Back {
			list[i].Flags |= layout.WayBack
		}
	}
	return list
}

// loopsOf lists the loops of a copy.
func loopsOf(code *translate.Code) []layout.Loop {
	list := make([]layout.Loop, len(code.Nest.Loops))
	for i := range code.Nest.Loops {
		l := &code.Nest.Loops[i]
		list[i] = layout.Loop{Header: number(l.Header), Parent: number(int32(l.Parent))}
		if code.Untold[i] {
			list[i].Flags |= layout.LoopUntold
		}
	}
	return list
}

// held is what of the text patches of other functions' need, in order.
func (o *object) held() (list []elfscan.Range) {
	add := func(low, size uint64) { list = append(list, elfscan.Range{Low: low, High: low + size}) }
	for i := range o.plans {
		p := &o.plans[i]
		if p.Detour == nil || !p.Counted() {
			continue
		}
		if p.Detour.Island != 0 {
			add(p.Detour.Island, emit.JumpSize)
		}
		for _, e := range p.Detour.Evicted {
			add(e.Addr, max(uint64(e.Len), 2*emit.JumpSize))
		}
		for _, l := range p.Detour.Leads {
			add(l.Addr, uint64(l.Len))
			if l.Island != 0 {
				add(l.Island, emit.JumpSize)
			}
		}
	}
	for i := range o.sites {
		add(o.sites[i].Addr, o.sites[i].End()-o.sites[i].Addr)
	}
	for _, s := range o.signals {
		add(s.Addr, s.End()-s.Addr)
	}
	for _, r := range o.code.Restartable {
		list = append(list, elfscan.Range{Low: r.Start, High: r.End})
	}
	if o.hook != 0 {
		add(o.hook, emit.JumpSize)
	}
	slices.SortFunc(list, func(a, b elfscan.Range) int { return cmp.Compare(a.Low, b.Low) })
	return list
}

// overlaps reports whether one of list, which is in order and of which none is longer than
// a page, overlaps r.
func overlaps(list []elfscan.Range, r elfscan.Range) bool {
	i, _ := slices.BinarySearchFunc(list, r.Low, func(h elfscan.Range, low uint64) int { return cmp.Compare(h.Low+pageSize, low) })
	for ; i < len(list) && list[i].Low < r.High; i++ {
		if list[i].High > r.Low {
			return true
		}
	}
	return false
}

// writer writes the copy of function i; nil if it has none.
func (o *object) writer(i int, v *view) *translate.Writer {
	if o.copies == nil || !o.copies.units[i].copy {
		return nil
	}
	u := &o.copies.units[i]
	code := u.code
	if u.code = nil; code == nil {
		g, _ := o.copies.program.Graph(int(u.unit - 1))
		code, _ = o.lower(g)
		code.CountAs(func(i int) int32 { return int32(u.blocks[i].Counter) }, func(i int) int32 { return int32(u.ways[i].Counter) })
	}
	first := o.copies.first + u.first
	return translate.NewWriter(code, o.code, translate.Counter{Shared: v.counter(first), Row: int32(layout.RowCounters + 8*first)})
}

// keepLeads keeps what leads into the copy.
func (u *copied) keepLeads(list []translate.Patch) {
	u.leads = make([]patch.CopyLead, len(list))
	for i, l := range list {
		u.leads[i] = patch.CopyLead(l)
	}
}

// leadsOf are what must lead into the stub of a counted function.
func (o *object) leadsOf(p *entry.Plan) []entry.Lead {
	if o.copies != nil && o.copies.units[p.Function].copy {
		return nil // what leads into the copy is known when that is written
	}
	return entry.Leads(o.survey, p)
}

// copyPatches is the number of patches of copies, at most.
func (o *object) copyPatches() (n int) {
	if o.copies == nil {
		return 0
	}
	for i := range o.copies.units {
		if o.plans[i].Counted() {
			n += int(o.copies.units[i].patches)
		}
	}
	return n
}

// copyOrigins is how many bytes tell of the copies' code, about.
func (o *object) copyOrigins() (n uint64) {
	if o.copies == nil {
		return 0
	}
	const run, instruction = 2 * (emit.OriginSize + 4), 2
	for i := range o.copies.units {
		u := &o.copies.units[i]
		n += uint64(len(u.blocks)+int(u.counters))*run + uint64(u.insts)*instruction
	}
	return n
}

// blocked yields the functions whose blocks are counted, with the numbers of their first
// block, and loop, of all.
func (p *Plan) blocked(yield func(f blocked) bool) {
	f := blocked{}
	for _, o := range p.fitting {
		if o.copies == nil {
			continue
		}
		for i := range o.copies.units {
			u := &o.copies.units[i]
			if u.unit == 0 || !o.plans[i].Counted() {
				continue
			}
			f.copied, f.function, f.counter = u, uint32(o.groups)+uint32(i), o.copies.first+u.first
			if !yield(f) {
				return
			}
			f.block += uint32(len(u.blocks))
			f.loop += uint32(len(u.loops))
		}
	}
}

// blocked is a function whose blocks are counted.
type blocked struct {
	*copied
	function             uint32
	counter, block, loop uint32 // the first of each
}

// shifted is number n of a list of the function's, in that of all.
func shifted(first, n uint32) uint32 {
	if n == number(-1) {
		return n
	}
	return first + n
}

// blocks yields the blocks of the functions that are counted, by function and address.
func (p *Plan) blocks() iter.Seq[*layout.Block] {
	return func(yield func(*layout.Block) bool) {
		for f := range p.blocked {
			for _, b := range f.blocks {
				b.Function, b.Counter, b.After, b.Loop = f.function, shifted(f.counter, b.Counter), shifted(f.block, b.After), shifted(f.loop, b.Loop)
				if !yield(&b) {
					return
				}
			}
		}
	}
}

// ways yields those between the blocks.
func (p *Plan) ways() iter.Seq[*layout.Way] {
	return func(yield func(*layout.Way) bool) {
		for f := range p.blocked {
			for _, w := range f.ways {
				w.From, w.To, w.Counter = shifted(f.block, w.From), shifted(f.block, w.To), shifted(f.counter, w.Counter)
				if !yield(&w) {
					return
				}
			}
		}
	}
}

// loops yields those of the blocks.
func (p *Plan) loops() iter.Seq[*layout.Loop] {
	return func(yield func(*layout.Loop) bool) {
		for f := range p.blocked {
			for _, l := range f.loops {
				l.Header, l.Parent = shifted(f.block, l.Header), shifted(f.loop, l.Parent)
				if !yield(&l) {
					return
				}
			}
		}
	}
}

// copyIslands adds the islands of the copy of function i.
func (o *object) copyIslands(list []entry.Island, i int) []entry.Island {
	if o.copies == nil {
		return list
	}
	for _, l := range o.copies.units[i].leads {
		if l.From != 0 {
			list = append(list, entry.Island{At: o.code.Run(l.Addr), From: o.code.Run(l.From)})
		}
	}
	return list
}

// blockCounters are those of all objects.
func (p *Plan) blockCounters() (c layout.BlockCounters) {
	for _, o := range p.all {
		if o.copies == nil {
			continue
		}
		if c.Count == 0 {
			c.First = o.copies.first
		}
		c.Count += o.copies.counters
	}
	return c
}
