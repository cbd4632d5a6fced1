package patcher

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/survey"
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
	counters uint32       // that they need, slots and all
	sets     uint32       // of slots for callees, which are the last of them
	saved    uint32       // one of them, if pages are noted: what a touch saves
	written  []byte       // unless nil, the arena that they are in: they are written once more,
	up       uint64       // for so much further up
	kept     atomic.Int64 // instructions whose copies are kept until they are written
}

// copied is the copy of a function.
type copied struct {
	unit     int32         // number of its unit + 1; 0: its blocks are not counted
	why      ledger.Reason // why they are not
	copy     bool          // it runs as a copy; else all of it is one block
	patches  uint32        // of its old body; at most, until it is written
	first    uint32        // of its counters, from the first of the object's on
	insts    uint32
	probes   uint32          // that note touches
	code     *translate.Code // as long as it is kept
	counters uint32          // with the words of its trips and its notes, which are behind the others
	trips    uint32          // loops whose trips are counted
	notes    uint32          // of callees
	touches  bool            // pages that are touched are noted
	blocks   []layout.Block  // all numbers in them are from the first of the unit's on, but those of functions
	ways     []layout.Way    // as well
	loops    []layout.Loop   // as well
	leads    []patch.CopyLead
	fixes    []translate.Fix // if it may be written once more
}

// wantsBlocks reports whether blocks of the object are counted. What is watched by a debugger,
// and Go's code, are counted by call.
func (p *Plan) wantsBlocks(o *object) bool {
	return p.Options.On[setting.Blocks] && !p.how.debugged && !o.code.Go && !o.byCall
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
	p.countByCall(largest)
	return true
}

// countByCall plans an object that has copies, or sites, without them: there is no room.
func (p *Plan) countByCall(o *object) {
	o.byCall, o.bySite = true, false
	if o.cached != nil {
		o.cached = nil
		p.planObject(o)
		return
	}
	p.decide(o, p.how)
}

// roomOfBlocks is what blocks of the object take of the table, or its call sites at most.
func (o *object) roomOfBlocks() (n build.Room) {
	n.Counters = int(o.countersOfBlocks())
	if c := o.cached; c != nil {
		n.Blocks, n.Ways, n.Loops, n.Sites = c.CountBlocks(), c.CountWays(), c.CountLoops(), c.CountSites()
	}
	if o.bySite {
		n.Sites = o.sitesAtMost()
		n.Counters = n.Sites
	}
	if o.copies == nil {
		return n
	}
	for i := range o.copies.units {
		u := &o.copies.units[i]
		n.Blocks, n.Ways, n.Loops = n.Blocks+len(u.blocks), n.Ways+len(u.ways), n.Loops+len(u.loops)
	}
	return n
}

// copy plans the copies of all functions that are counted and can have one, or, unless that is
// nil, of those with such names.
func (o *object) copy(how decision, of *symname.Names, far *progress) {
	c := &copies{program: flow.New(o.survey, o.callSites, 0), units: make([]copied, len(o.plans))}
	units := c.program.Units()
	// Those with a detour are first: what copies of them no longer need is free for the others.
	for i := range c.units {
		c.units[i].why = ledger.ReasonNotSelected
	}
	for _, detours := range []bool{true, false} {
		held := o.held()
		parallel.Ranges(len(units), grain, 0, func(_, first, end int) {
			for k := first; k < end; k++ {
				i := units[k].Function
				u := &c.units[i]
				if !o.plans[i].Counted() || detours && o.plans[i].Detour == nil || u.unit != 0 || of != nil && !of.Match(o.displayed(int(i))) {
					continue
				}
				if u.why = o.copyUnit(c, u, int32(k), held, how); u.why == ledger.ReasonNone {
					u.unit = int32(k) + 1
				}
			}
			if !detours {
				far.add(o, end-first)
			}
		})
	}
	notes := uint32(0)
	for i := range c.units {
		if u := &c.units[i]; u.copy {
			u.first = c.counters
			c.counters, notes = c.counters+u.counters, notes+u.notes
		}
	}
	if how.heat {
		c.saved = c.counters
		c.counters++
	}
	if notes > 0 {
		c.sets = setsFor(notes)
		c.counters += c.sets * layout.SetWords
	}
	o.copies, o.patches = c, 0
}

// copyUnit plans the copy of unit number k.
func (o *object) copyUnit(c *copies, u *copied, k int32, held []holding, how decision) ledger.Reason {
	unit := &c.program.Units()[k]
	p := &o.plans[unit.Function]
	for _, r := range unit.Ranges {
		if why := o.survey.FixedIn(r.Low, r.High); why != ledger.ReasonNone {
			return why
		}
		if o.survey.HasSite(r.Low, r.High) {
			return ledger.ReasonKernelSite
		}
	}
	g, why := c.program.Graph(int(k))
	if g == nil {
		return why
	}
	likeCalls := !how.redirectable && !(how.notes && g.Blocks[0].Leaves&flow.ByIndirect != 0) && len(g.Blocks) == 1 && len(unit.Ranges) == 1 && len(g.Blocks[0].Succs) == 0 && g.Blocks[0].Entered == flow.ByEntry
	if likeCalls && !how.heat {
		u.runsLikeCalls(o, g)
		return ledger.ReasonNone
	}
	for _, r := range unit.Ranges {
		if overlaps(held, r, p.Function) {
			return ledger.ReasonBranchIntoWindow
		}
	}
	hop := false
	code, moved, why := o.copyOf(g, p, emit.JumpSize)
	if code == nil && p.KeepsHop() && !unit.Contains(p.Detour.Island) {
		hop = true
		code, moved, why = o.copyOf(g, p, p.Window())
	}
	if code == nil && likeCalls {
		u.runsLikeCalls(o, g)
		return ledger.ReasonNone
	}
	if code == nil {
		return why
	}
	if how.within && len(code.Home.Landings) > 0 {
		return ledger.ReasonNotSelected
	}
	if how.trips {
		code.CountTrips()
	}
	code.Count(!how.redirectable && !how.switched)
	u.trips = uint32(code.TripLoops())
	u.counters = uint32(code.Counters) + emit.TripWords*u.trips
	if how.notes {
		u.notes = uint32(code.NoteCallees(o.code, int32(u.counters)))
		u.counters += emit.NoteWords * u.notes
	}
	if u.touches = how.heat; u.touches {
		plain := len(code.Ops)
		how.note(code, o.code)
		u.probes = uint32(len(code.Ops) - plain)
	}
	u.copy, u.insts = true, uint32(len(g.Insts))
	u.blocks, u.ways, u.loops = o.blocksOf(g, code), waysOf(code), loopsOf(code)
	u.patches = uint32(len(code.Home.Landings)*2 + len(unit.Ranges))
	if c.kept.Add(int64(len(g.Insts))) <= keptInsts {
		u.code = code
	}
	size := code.Size(o.code, how.shared)
	if how.switched {
		size = code.SizeOfPair(o.code, how.shared)
	}
	p.RunsCopy(moved, size, hop, how.shared)
	return ledger.ReasonNone
}

// whyNoBlocks is why the blocks of function i are not counted, where those of others are.
func (o *object) whyNoBlocks(i int) ledger.Reason {
	if o.copies == nil {
		return ledger.ReasonNone
	}
	return o.copies.units[i].why
}

// runsLikeCalls says that all of the function is one block, which runs as often as it is called.
func (u *copied) runsLikeCalls(o *object, g *flow.Graph) {
	u.blocks, u.insts = o.blocksOf(g, nil), uint32(len(g.Insts))
}

// copyOf is the copy of a function, without counters, and how many bytes of the old body the
// window of so many bytes overwrites; or why there is none.
func (o *object) copyOf(g *flow.Graph, p *entry.Plan, window uint64) (code *translate.Code, moved int, why ledger.Reason) {
	if p.Detour != nil && !o.arrivesInCopy(g, p, window) {
		return nil, 0, ledger.ReasonBranchIntoWindow
	}
	moved, ok := inWindow(g, p.Start, window)
	if !ok && p.Tactic == ledger.TacticWholeBody { // it ends in the window, and padding follows
		moved, ok = int(p.Moved), true
	}
	if !ok {
		return nil, 0, ledger.ReasonTooShort
	}
	code, why = o.lower(g, p.Start+window)
	return code, moved, why
}

// arrivesInCopy reports whether all that leads to the first bytes of a function with a detour, or
// by a loop to the entry, gets to the copy without it: by jumps of the graph, which are in the
// copy, or behind the window to where the graph knows that control comes in. What of these jumps
// stays at home translate.PlanHome refuses.
func (o *object) arrivesInCopy(g *flow.Graph, p *entry.Plan, window uint64) bool {
	i := int(p.Function)
	isJump := func(from survey.Site) bool {
		k := g.InstAt(from.Addr)
		return from.Len != 0 && k >= 0 && g.Target(&g.Insts[k]) >= 0
	}
	lands := func(at uint64) bool {
		k := g.InstAt(at)
		if at < p.Start+window || k < 0 {
			return false
		}
		b := &g.Blocks[g.BlockOf(int32(k))]
		return b.First == int32(k) && b.Entered != 0
	}
	for _, from := range o.survey.Loops(i) {
		if !isJump(from) {
			return false
		}
	}
	for _, a := range o.survey.Inside(i) {
		if !isJump(a.From) && !lands(a.Target) {
			return false
		}
	}
	return !o.survey.LoopsByTable(i)
}

// lower is the copy of a graph, with its tables, without counters; what is in front of open is
// overwritten.
func (o *object) lower(g *flow.Graph, open uint64) (*translate.Code, ledger.Reason) {
	h, why := translate.PlanHomeBehind(g, open)
	if h == nil {
		return nil, why
	}
	code := translate.Lower(h)
	code.RebuildTables(o.code)
	return code, ledger.ReasonNone
}

// inWindow is the bytes of the whole instructions that the window at start overwrites; false
// if it reaches beyond them.
func inWindow(g *flow.Graph, start, window uint64) (moved int, ok bool) {
	if translate.WindowEnd(g) != start+emit.JumpSize {
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
func (o *object) blocksOf(g *flow.Graph, code *translate.Code) []layout.Block {
	list := make([]layout.Block, len(g.Blocks))
	for k := range g.Blocks {
		b := &g.Blocks[k]
		list[k] = layout.Block{
			Address: g.Addr(b), Size: uint32(g.Last(b).End() - g.Addr(b)), Instructions: uint32(b.End - b.First),
			Function: uint32(g.Unit.Function), Callee: o.calleeOf(g.Last(b)),
			Counter: layout.NoCounter, After: layout.NoBlock, Loop: layout.NoLoop,
		}
	}
	list[g.Entry].Flags |= layout.BlockEntry
	if code == nil {
		return list
	}
	for k := range list {
		list[k].Counter, list[k].Loop = number(code.Blocks[k]), number(code.Nest.Inner[k])
		if n := code.NoteOf(k); n != translate.NoCounter {
			list[k].Flags, list[k].Callee = list[k].Flags|layout.BlockNote, uint32(n)
		}
	}
	for _, r := range code.Home.Runs {
		call := uint32(g.BlockOf(r.First))
		for i := r.First + 1; i < r.End; i++ {
			list[g.BlockOf(i)].After = call
		}
	}
	return list
}

// calleeOf is the function, of those of the object, that an instruction calls or jumps to
// always: its number + 1, or 0.
func (o *object) calleeOf(in *flow.Inst) uint32 {
	if in.Kind != x86.Call && in.Kind != x86.Jmp {
		return 0
	}
	if i := o.code.FunctionAt(in.To); i >= 0 && o.code.Functions[i].Addr == in.To {
		return uint32(i) + 1
	}
	return 0
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
		if i == len(list)-1 {
			list[i].Flags |= layout.WayEntry
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
		if code.Trips == nil {
			continue
		}
		switch t := &code.Trips[i]; t.Why {
		case translate.TripUntold:
			list[i].Flags |= layout.LoopUntold
		case translate.TripFlags:
			list[i].Flags |= layout.LoopFlagsLive
		default:
			list[i].Trips = uint32(t.Words) // counters are in front of it
		}
	}
	return list
}

// holding is a range of the text that patches need.
type holding struct {
	elfscan.Range
	of int32 // function whose patches they are, entry.NoHost if they are none's
}

// held is what of the text patches but those of entries need, in order.
func (o *object) held() (list []holding) {
	of := entry.NoHost
	add := func(low, size uint64) { list = append(list, holding{elfscan.Range{Low: low, High: low + size}, of}) }
	for i := range o.plans {
		p := &o.plans[i]
		if p.Detour == nil || !p.Counted() {
			continue
		}
		of = p.Function
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
	of = entry.NoHost
	for i := range o.sites {
		add(o.sites[i].Addr, o.sites[i].End()-o.sites[i].Addr)
	}
	for _, s := range o.signals {
		add(s.Addr, s.End()-s.Addr)
	}
	for _, t := range o.transfers {
		add(t.Addr, t.End()-t.Addr)
	}
	for _, r := range o.code.Restartable {
		add(r.Start, r.End-r.Start)
	}
	if o.hook != 0 {
		add(o.hook, emit.JumpSize)
	}
	slices.SortFunc(list, func(a, b holding) int { return cmp.Compare(a.Low, b.Low) })
	return list
}

// overlaps reports whether one of list, which is in order and of which none is longer than
// a page, overlaps r, and is not of function i.
func overlaps(list []holding, r elfscan.Range, i int32) bool {
	k, _ := slices.BinarySearchFunc(list, r.Low, func(h holding, low uint64) int { return cmp.Compare(h.Low+pageSize, low) })
	for ; k < len(list) && list[k].Low < r.High; k++ {
		if list[k].High > r.Low && (list[k].of != i || i == entry.NoHost) {
			return true
		}
	}
	return false
}

// writeCopy has a stub's Spec write the copy of function i, if it has one, and, if plans are to
// be kept, note what in it depends on the process. What it returns is called when it is written.
func (o *object) writeCopy(i int, v *view, spec *emit.Spec, p *Plan) (done func()) {
	if o.copies == nil || !o.copies.units[i].copy {
		return func() {}
	}
	u := &o.copies.units[i]
	if o.copies.written != nil {
		spec.Copy = &rewriter{stub: o.copies.written[o.stubs[i].At:], body: o.stubs[i].Body, size: o.stubs[i].Len, fixes: u.fixes, up: o.copies.up}
		return func() {}
	}
	w := o.writer(u, v, &p.how)
	if spec.Copy = w; p.how.switched {
		spec.Copy = translate.NewPair(w, !p.Options.Hot && p.Options.Overhead == 0, p.Options.Overhead > 0)
	}
	return func() {
		o.keepLeads(i, w.Patches)
		if p.caches {
			u.fixes = w.Fixes
		}
	}
}

// rewriter writes a copy once more as it was written: with counters that are
// plancache.ElsewhereBlocks later, and further up, with its object. It is an emit.Copy.
type rewriter struct {
	stub       []byte
	body, size uint32
	fixes      []translate.Fix
	up         uint64
}

// WriteCopy implements emit.Copy. The origins are those that there are.
func (r *rewriter) WriteCopy(a *x86.Asm, _ *emit.Runs) {
	le, code := binary.LittleEndian, slices.Clone(r.stub[:r.size])
	for _, f := range r.fixes {
		switch word := code[f.At:]; f.Kind {
		case translate.FixAddress:
			le.PutUint64(word, le.Uint64(word)+r.up)
		case translate.FixCode:
			le.PutUint32(word, le.Uint32(word)+plancache.ElsewhereCodes)
		default:
			le.PutUint32(word, le.Uint32(word)+8*plancache.ElsewhereBlocks)
		}
	}
	a.Copy(code[r.body:])
}

// writer writes a copy.
func (o *object) writer(u *copied, v *view, how *decision) *translate.Writer {
	code := u.code
	if u.code = nil; code == nil {
		g, _ := o.copies.program.Graph(int(u.unit - 1))
		p := &o.plans[g.Unit.Function]
		code, _ = o.lower(g, p.Start+p.Window())
		firstNote := u.counters - emit.NoteWords*u.notes
		if u.trips > 0 {
			code.CountTrips()
		}
		code.CountAs(func(i int) int32 { return int32(u.blocks[i].Counter) }, func(i int) int32 { return int32(u.ways[i].Counter) }, int32(firstNote-emit.TripWords*u.trips))
		if u.notes > 0 {
			code.NoteCallees(o.code, int32(firstNote))
		}
		if u.touches {
			how.note(code, o.code)
		}
	}
	first := o.firstOfBlocks + u.first
	notes := emit.Notes{Number: layout.RowIndex, Slots: int32(layout.RowCounters + 8*o.slots()), Sets: int(o.copies.sets)}
	return translate.NewWriter(code, o.code, translate.Counter{Shared: v.counter(first), Row: int32(layout.RowCounters + 8*first), Notes: notes, Number: layout.RowIndex, Saved: int32(layout.RowCounters + 8*(o.firstOfBlocks+o.copies.saved)), Common: x86.RunAddr(o.arena.at), Codes: o.codes})
}

// note puts what notes touched pages, or records accesses, into a copy.
func (d *decision) note(c *translate.Code, o *stubgen.Object) {
	how := translate.Touching{Row: !d.shared, Masks: d.masks, Granule: emit.Granule(d.granule), Bases: d.bases, Threads: d.threads, Tells: d.tells}
	if d.records {
		c.RecordAccesses(o, how)
	} else {
		c.NoteTouches(o, how)
	}
}

// setsFor is how many sets of slots there are for so many notes. Most calls by pointers have
// one callee, a few very many.
func setsFor(notes uint32) uint32 {
	const least, notesOfSet = 256, 4
	return max(least, uint32(1)<<bits.Len32((notes-1)/notesOfSet))
}

// slots is the number of the first word of the slots.
func (o *object) slots() uint32 {
	return o.firstOfBlocks + o.countersOfBlocks() - o.setsOfSlots()*layout.SetWords
}

func (o *object) setsOfSlots() uint32 {
	switch {
	case o.cached != nil:
		return o.cached.Sets
	case o.copies != nil:
		return o.copies.sets
	}
	return 0
}

// What notes, slots and trips are like is said twice, as code knows nothing of tables.
const (
	_ = uint(layout.NtWords-emit.NoteWords) + uint(emit.NoteWords-layout.NtWords)
	_ = uint(layout.SlSize-emit.SlotSize) + uint(emit.SlotSize-layout.SlSize)
	_ = uint(layout.SlNote-emit.SlotNote) + uint(emit.SlotNote-layout.SlNote)
	_ = uint(layout.SlCalls-emit.SlotCalls) + uint(emit.SlotCalls-layout.SlCalls)
	_ = uint(layout.SetSlots-emit.SlotsInSet) + uint(emit.SlotsInSet-layout.SetSlots)
	_ = uint(layout.TrStack-emit.TripStack) + uint(emit.TripStack-layout.TrStack)
	_ = uint(layout.TrRounds-emit.TripRounds) + uint(emit.TripRounds-layout.TrRounds)
	_ = uint(layout.TrMost-emit.TripMost) + uint(emit.TripMost-layout.TrMost)
	_ = uint(layout.TrLeast-emit.TripLeast) + uint(emit.TripLeast-layout.TrLeast)
	_ = uint(layout.TrBuckets-emit.TripBuckets) + uint(emit.TripBuckets-layout.TrBuckets)
	_ = uint(layout.TrWords-emit.TripWords) + uint(emit.TripWords-layout.TrWords)
	_ = uint(layout.RgLow-(emit.BoundLow-emit.BoundsAt)) + uint(emit.BoundLow-emit.BoundsAt-layout.RgLow)
	_ = uint(layout.RgHigh-(emit.BoundHigh-emit.BoundsAt)) + uint(emit.BoundHigh-emit.BoundsAt-layout.RgHigh)
	_ = uint(layout.RgEdge-(emit.BoundEdge-emit.BoundsAt)) + uint(emit.BoundEdge-emit.BoundsAt-layout.RgEdge)
	_ = uint(layout.ShBits-emit.ShadowBits) + uint(emit.ShadowBits-layout.ShBits)
	_ = uint(layout.ShPage-emit.GranulePage) + uint(emit.GranulePage-layout.ShPage)
	_ = uint(layout.ShLine-emit.GranuleLine) + uint(emit.GranuleLine-layout.ShLine)
	_ = uint(layout.ShWord-emit.GranuleWord) + uint(emit.GranuleWord-layout.ShWord)
	_ = uint(layout.ShThreads-emit.ShadowThreads) + uint(emit.ShadowThreads-layout.ShThreads)
	_ = uint(layout.RowIndex-emit.RowNumber) + uint(emit.RowNumber-layout.RowIndex)
	_ = uint(layout.ShBy-emit.ShadowBy) + uint(emit.ShadowBy-layout.ShBy)
	_ = uint(layout.ShByWrote-emit.ShadowByWrote) + uint(emit.ShadowByWrote-layout.ShByWrote)
	_ = uint(layout.ShText-emit.ShadowText) + uint(emit.ShadowText-layout.ShText)
	_ = uint(layout.TrCount-1-emit.TripLastBucket) + uint(emit.TripLastBucket-layout.TrCount+1)
)

// again are the same copies, which are in an arena, to be written so much further up.
func (c *copies) again(arena []byte, up uint64) *copies {
	if c == nil {
		return nil
	}
	return &copies{program: c.program, units: c.units, counters: c.counters, written: arena, up: up}
}

// keepLeads keeps what leads into the copy of function i, and so knows its patches.
func (o *object) keepLeads(i int, list []translate.Patch) {
	u := &o.copies.units[i]
	u.leads = make([]patch.CopyLead, len(list))
	for k, l := range list {
		u.leads[k] = patch.CopyLead(l)
	}
	u.patches = uint32(patch.CopyPatches(o.copies.program.Units()[u.unit-1].Ranges, u.leads))
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
	const run, probe, instruction = 2 * (emit.OriginSize + 4), 3 * (emit.OriginSize + 4), 2
	for i := range o.copies.units {
		u := &o.copies.units[i]
		n += uint64(len(u.blocks)+int(u.counters))*run + uint64(u.probes)*probe + uint64(u.insts)*instruction
	}
	return n
}

// blocked is blocks with their ways and loops: a function's, or those of all functions of an
// object whose plan is an earlier start's. Numbers in them are from the first of each on, those
// of functions from the object's first.
type blocked struct {
	blocks iter.Seq[layout.Block]
	ways   iter.Seq[layout.Way]
	loops  iter.Seq[layout.Loop]
	firsts
}

// firsts are the numbers of the first of each kind, in the table.
type firsts struct{ function, counter, block, loop uint32 }

// blocked yields all blocks, by object and function.
func (p *Plan) blocked(yield func(b blocked) bool) {
	at := firsts{block: p.base.blocks, loop: p.base.loops}
	for _, o := range p.fitting {
		at.function, at.counter = uint32(o.groups), o.firstOfBlocks
		if !o.blocked(&at, yield) {
			return
		}
	}
}

// blocked yields those of an object whose first ones have these numbers, and counts them on
// to the next object's. It reports false where yield does.
func (o *object) blocked(at *firsts, yield func(b blocked) bool) bool {
	if c := o.cached; c != nil {
		first := *at
		at.block, at.loop = at.block+uint32(c.CountBlocks()), at.loop+uint32(c.CountLoops())
		return yield(blocked{c.EachBlock(), c.EachWay(), c.EachLoop(), first})
	}
	if o.copies == nil {
		return true
	}
	of := *at
	for i := range o.copies.units {
		u := &o.copies.units[i]
		if u.unit == 0 || !o.plans[i].Counted() {
			continue
		}
		of.counter = at.counter + u.first
		if !yield(blocked{slices.Values(u.blocks), slices.Values(u.ways), slices.Values(u.loops), of}) {
			return false
		}
		of.block, of.loop = of.block+uint32(len(u.blocks)), of.loop+uint32(len(u.loops))
	}
	at.block, at.loop = of.block, of.loop
	return true
}

// shifted is number n of a list, in that of all.
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
			for b := range f.blocks {
				if f.shiftBlock(&b); !yield(&b) {
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
			for w := range f.ways {
				if f.shiftWay(&w); !yield(&w) {
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
			for l := range f.loops {
				if f.shiftLoop(&l); !yield(&l) {
					return
				}
			}
		}
	}
}

func (f *firsts) shiftBlock(b *layout.Block) {
	if b.Flags&layout.BlockNote != 0 {
		b.Callee += f.counter
	} else if b.Callee != 0 {
		b.Callee += f.function
	}
	b.Function, b.Counter, b.After, b.Loop = f.function+b.Function, shifted(f.counter, b.Counter), shifted(f.block, b.After), shifted(f.loop, b.Loop)
}

func (f *firsts) shiftWay(w *layout.Way) {
	w.From, w.To, w.Counter = shifted(f.block, w.From), shifted(f.block, w.To), shifted(f.counter, w.Counter)
}

func (f *firsts) shiftLoop(l *layout.Loop) {
	l.Header, l.Parent = shifted(f.block, l.Header), shifted(f.loop, l.Parent)
	if l.Trips != 0 {
		l.Trips += f.counter
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
		if c.Count == 0 {
			c.First = o.firstOfBlocks
		}
		c.Count += o.countersOfBlocks()
	}
	return c
}

// countersOfBlocks is how many counters its blocks have, or its call sites.
func (o *object) countersOfBlocks() uint32 {
	switch {
	case o.cached != nil:
		return o.cached.BlockCounters
	case o.copies != nil:
		return o.copies.counters
	}
	return uint32(len(o.direct))
}
