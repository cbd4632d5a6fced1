package table

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dynprof/dynprof/internal/spantree"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Flow is how control went in the functions whose blocks are counted. Where a table is of a
// program that runs, numbers are not of one moment; and a thread that is in the middle of a
// block, or has left it by a signal, makes what follows from others' counts wrong by one.
type Flow struct {
	Blocks []Block // by function and address
	Ways   []Way   // by function; numbers of blocks are those in Blocks
	Loops  []Loop  // by function, those of an outer loop before those in it

	Callees []Callee // of calls by pointers, where these are noted; by block and address

	observed map[uint32]uint64 // by function: calls, where they are not all
}

// Observed is of how many calls a function's blocks were counted, if that is not of all: in a
// run where functions have to be hot, or counting was paused. Besides, blocks may be counted of
// a call that was under way when that changed, from where a call of its own came back.
func (f *Flow) Observed(function uint32) (calls uint64, some bool) {
	if f == nil {
		return 0, false
	}
	calls, some = f.observed[function]
	return calls, some
}

// Block is a block of a function, and how often it has run.
type Block struct {
	layout.Block
	Runs uint64
}

// Way is how control went from one block to another, or from outside or to there.
type Way struct {
	layout.Way
	Taken uint64
}

// Loop is blocks that run in turn, and how often they did.
type Loop struct {
	layout.Loop
	Function   uint32 // index in Functions
	Depth      int    // 1 for the outermost
	Iterations uint64 // how often its header has run
	Entries    uint64 // those of them that came from outside of the loop; unless LoopUntold
	Executed   uint64 // instructions, those of loops in it as well

	Histogram *Histogram // of the trips of its executions; nil where these are not counted
}

// Executed is how many instructions of the block have run: all of them each time, but for
// those behind one that faulted, or was a call that did not come back.
func (b *Block) Executed() uint64 { return b.Runs * uint64(b.Instructions) }

// HasBlocks reports whether the table counts blocks.
func (t *Table) HasBlocks() bool { return t.Geometry.Blocks.Count > 0 }

// Flow reads the blocks, and the ways and loops of them; nil where they are not counted. s
// is a snapshot of the table, for the calls of functions.
func (t *Table) Flow(s *Snapshot) (*Flow, error) {
	if !t.HasBlocks() {
		return nil, nil
	}
	f := &Flow{observed: map[uint32]uint64{}}
	for _, read := range []func(*Table) error{f.readBlocks, f.readWays, f.readLoops} {
		if err := read(t); err != nil {
			return nil, err
		}
	}
	c := t.flowCounters()
	if most := f.mostCounters(t); uint64(t.BlockCounters.Count) > most || c.Count-t.BlockCounters.Count > mostLater {
		return nil, layout.Corrupt("%d counters of %d blocks and %d ways", c.Count, len(f.Blocks), len(f.Ways))
	}
	counts, err := t.SumCounters(c.First, c.Count)
	if err != nil {
		return nil, err
	}
	w := solver{Flow: f, first: c.First, counts: counts, calls: s.Calls}
	for w.blocks < len(f.Blocks) {
		if err := w.function(); err != nil {
			return nil, err
		}
	}
	if w.ways < len(f.Ways) {
		return nil, layout.Corrupt("way %d: %+v", w.ways, f.Ways[w.ways].Way)
	}
	f.sumLoops()
	if err := f.readTrips(t, c.First, counts); err != nil {
		return nil, err
	}
	return f, f.readCallees(t)
}

// mostLater is how many counters there can be of what came later, those of functions and of
// adders that died among them (build.SpareFunctions and others).
const mostLater = 4 << 20

// flowCounters are the counters from the first on that is a block's, or a call site's: behind those of what was
// there at the start come those of objects that came later, functions' and theirs.
func (t *Table) flowCounters() layout.BlockCounters {
	first := t.BlockCounters.First
	return layout.BlockCounters{First: first, Count: t.Counters - first}
}

// isCut reports whether an entry may be of a block that does not count, as its adder is at
// work, or died.
func (t *Table) isCut() bool { return t.Generation%2 != 0 }

// mostCounters is how many there can be, words of trips, notes and slots and all.
func (f *Flow) mostCounters(t *Table) uint64 {
	n := uint64(len(f.Blocks) + len(f.Ways))
	for i := range f.Blocks {
		if f.Blocks[i].Flags&layout.BlockNote != 0 {
			n += layout.NtWords
		}
	}
	for i := range f.Loops {
		if f.Loops[i].Trips != 0 {
			n += layout.TrWords
		}
	}
	for i := range t.Objects {
		n += uint64(t.Objects[i].Sets) * layout.SetWords
	}
	return n
}

// isCallee reports whether a block's callee is one of the table's functions, or a note's words.
func (t *Table) isCallee(b *layout.Block) bool {
	if b.Flags&layout.BlockNote != 0 {
		return t.hasWords(b.Callee, layout.NtWords)
	}
	return b.Callee <= uint32(len(t.Functions))
}

// hasWords reports whether so many words, from one on, are of blocks.
func (t *Table) hasWords(first, n uint32) bool {
	c := t.flowCounters()
	return first-c.First < c.Count && n <= c.Count-(first-c.First)
}

func isCounter(counter uint32, c layout.BlockCounters) bool {
	return counter == layout.NoCounter || counter-c.First < c.Count
}

func (f *Flow) readBlocks(t *Table) error {
	return t.EachEntry(t.Geometry.Blocks, func(b []byte) error {
		k, n := Block{Block: layout.DecodeBlock(b)}, len(f.Blocks)
		if n > 0 && k.Function < f.Blocks[n-1].Function || k.Function >= uint32(len(t.Functions)) || !isCounter(k.Counter, t.flowCounters()) ||
			k.After != layout.NoBlock && k.After >= uint32(n) || k.Instructions == 0 || !t.isCallee(&k.Block) || k.Loop != layout.NoLoop && k.Loop >= t.Geometry.Loops.Count {
			return layout.Corrupt("block %d: %+v", n, k.Block)
		}
		f.Blocks = append(f.Blocks, k)
		return nil
	})
}

func (f *Flow) readWays(t *Table) error {
	return until(t.EachEntry(t.Geometry.Ways, func(b []byte) error {
		w, n := Way{Way: layout.DecodeWay(b)}, uint32(len(f.Blocks))
		if t.isCut() && w.Block() >= n {
			return errStop
		}
		if w.From != layout.NoBlock && w.From >= n || w.To != layout.NoBlock && w.To >= n || w.From == layout.NoBlock && w.To == layout.NoBlock || !isCounter(w.Counter, t.flowCounters()) {
			return layout.Corrupt("way %d: %+v", len(f.Ways), w.Way)
		}
		f.Ways = append(f.Ways, w)
		return nil
	}))
}

func (f *Flow) readLoops(t *Table) error {
	return until(t.EachEntry(t.Geometry.Loops, func(b []byte) error {
		l, n := Loop{Loop: layout.DecodeLoop(b), Depth: 1}, len(f.Loops)
		if t.isCut() && l.Header >= uint32(len(f.Blocks)) {
			return errStop
		}
		if l.Header >= uint32(len(f.Blocks)) || l.Parent != layout.NoLoop && l.Parent >= uint32(n) || l.Trips != 0 && !t.hasWords(l.Trips, layout.TrWords) {
			return layout.Corrupt("loop %d: %+v", n, l.Loop)
		}
		if l.Parent != layout.NoLoop {
			l.Depth = f.Loops[l.Parent].Depth + 1
		}
		l.Function = f.Blocks[l.Header].Function
		if n > 0 && l.Function < f.Loops[n-1].Function {
			return layout.Corrupt("loop %d: %+v", n, l.Loop)
		}
		f.Loops = append(f.Loops, l)
		return nil
	}))
}

// until is the error of a pass that errStop may have ended.
func until(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// solver works out the counts of one function after the other.
type solver struct {
	*Flow
	first  uint32 // counter
	counts []uint64
	calls  []uint64
	blocks int // those that are done
	ways   int
}

// function works out the counts of the next one.
func (s *solver) function() error {
	p, edges := s.next()
	if err := s.part(p, edges); err != nil {
		return err
	}
	if p.ways < p.endWays {
		s.observe(s.Ways[p.ways:p.endWays], p.function)
	}
	return nil
}

// part is where a function's blocks and ways are.
type part struct {
	function           uint32
	blocks, ways       int // the first of them
	endBlocks, endWays int
}

// next finds the next function, and the edges of its graph.
func (s *solver) next() (p part, edges []spantree.Edge) {
	p = part{function: s.Blocks[s.blocks].Function, blocks: s.blocks, ways: s.ways}
	for s.blocks < len(s.Blocks) && s.Blocks[s.blocks].Function == p.function {
		s.blocks++
	}
	p.endBlocks = s.blocks
	n := uint32(p.endBlocks - p.blocks)
	for _, w := range s.Ways[s.ways:] {
		from, to := w.From-uint32(p.blocks), w.To-uint32(p.blocks)
		if w.From != layout.NoBlock && from >= n || w.To != layout.NoBlock && to >= n {
			break
		}
		e := spantree.Edge{From: int32(from), To: int32(to)}
		if w.From == layout.NoBlock {
			e.From = spantree.Outside
		}
		if w.To == layout.NoBlock {
			e.To = spantree.Outside
		}
		edges = append(edges, e)
	}
	s.ways += len(edges)
	p.endWays = s.ways
	return p, edges
}

// part works out the counts of a function.
func (s *solver) part(p part, edges []spantree.Edge) error {
	g, err := s.graph(p, edges)
	if err == nil {
		s.solve(p, g)
	}
	return err
}

// observe notes how often the copy of a function was entered, if that is not with each call.
func (s *solver) observe(ways []Way, number uint32) {
	for i := range ways {
		w := &ways[i]
		if w.Flags&layout.WayEntry != 0 && w.Flags&layout.WayCalls == 0 && w.Taken < s.calls[number] {
			s.observed[number] = w.Taken
		}
	}
}

// graph is how the counts of a function are worked out.
type graph struct {
	order    *spantree.Order // nil: there is no way, and its block runs with each call
	counters []int32         // by edge: its counter, edgeUnknown or edgeCalls
	taken    []int64
}

const (
	edgeUnknown = -1
	edgeCalls   = -2 // by the calls of the function
)

// graph finds that of a function with those edges.
func (s *solver) graph(p part, edges []spantree.Edge) (*graph, error) {
	blocks, ways := s.Blocks[p.blocks:p.endBlocks], s.Ways[p.ways:p.endWays]
	if len(ways) == 0 {
		if len(blocks) > 1 || blocks[0].Flags&layout.BlockEntry == 0 {
			return nil, layout.Corrupt("%d blocks of function %d, and no way", len(blocks), p.function)
		}
		return &graph{counters: []int32{edgeCalls}, taken: make([]int64, 1)}, nil
	}
	n := len(blocks)
	edges = spantree.Split(n, edges)
	g := &graph{counters: make([]int32, len(edges)), taken: make([]int64, len(edges))}
	known := make([]bool, len(edges))
	know := func(i int, counter uint32) {
		g.counters[i] = edgeUnknown
		if counter != layout.NoCounter {
			known[i], g.counters[i] = true, int32(counter-s.first)
		}
	}
	for i := range blocks {
		know(i, blocks[i].Counter)
	}
	for i := range ways {
		if know(n+i, ways[i].Counter); ways[i].Flags&layout.WayCalls != 0 {
			known[n+i], g.counters[n+i] = true, edgeCalls
		}
	}
	var ok bool
	if g.order, ok = spantree.NewOrder(2*n, edges, known); !ok {
		return nil, layout.Corrupt("the counts of function %d do not say how often its blocks ran", p.function)
	}
	return g, nil
}

// solve works out how often the blocks of a function ran, and its ways were taken.
func (s *solver) solve(p part, g *graph) {
	for i, counter := range g.counters {
		switch {
		case counter >= 0:
			g.taken[i] = int64(s.counts[counter])
		case counter == edgeCalls:
			g.taken[i] = int64(s.calls[p.function])
		}
	}
	if g.order != nil {
		g.order.Solve(g.taken)
	}
	blocks, ways := s.Blocks[p.blocks:p.endBlocks], s.Ways[p.ways:p.endWays]
	for i := range blocks {
		blocks[i].Runs = uint64(max(g.taken[i], 0))
	}
	for i := range ways {
		ways[i].Taken = uint64(max(g.taken[len(blocks)+i], 0))
	}
	for i := range blocks {
		if after := blocks[i].After; after != layout.NoBlock {
			blocks[i].Runs += s.Blocks[after].Runs
		}
	}
}

// sumLoops adds up what the loops ran. Whoever came to a header behind a call at its old
// place may have come from within the loop.
func (f *Flow) sumLoops() {
	for i := range f.Blocks {
		if b := &f.Blocks[i]; b.Loop != layout.NoLoop {
			f.Loops[b.Loop].Executed += b.Executed()
		}
	}
	for i := range slices.Backward(f.Loops) { // those in a loop come behind it
		if l := &f.Loops[i]; l.Parent != layout.NoLoop {
			f.Loops[l.Parent].Executed += l.Executed
		}
	}
	back := make([]uint64, len(f.Blocks))
	for i := range f.Ways {
		if w := &f.Ways[i]; w.Flags&layout.WayBack != 0 && w.To != layout.NoBlock {
			back[w.To] += w.Taken
		}
	}
	for i := range f.Loops {
		l := &f.Loops[i]
		h := &f.Blocks[l.Header]
		l.Iterations = h.Runs
		if h.After != layout.NoBlock {
			l.Flags |= layout.LoopUntold
		}
		if l.Flags&layout.LoopUntold == 0 {
			l.Entries = l.Iterations - min(back[l.Header], l.Iterations)
		}
	}
}

// Of is what of the flow is of one function. Numbers stay those of all.
func (f *Flow) Of(function uint32) Part {
	if f == nil {
		return Part{}
	}
	p := Part{}
	p.Blocks, p.FirstBlock = among(f.Blocks, function, func(b *Block) uint32 { return b.Function })
	p.Ways, _ = among(f.Ways, function, func(w *Way) uint32 { return f.Blocks[w.Block()].Function })
	p.Loops, p.FirstLoop = among(f.Loops, function, func(l *Loop) uint32 { return l.Function })
	return p
}

// Part is what of a Flow is of one function.
type Part struct {
	Flow
	FirstBlock, FirstLoop uint32 // numbers
}

// among are those of a list, which is by function, that are of one, and where they begin.
func among[T any](list []T, function uint32, of func(*T) uint32) (part []T, first uint32) {
	compare := func(e T, function uint32) int { return cmp.Compare(of(&e), function) }
	low, _ := slices.BinarySearchFunc(list, function, compare)
	high, _ := slices.BinarySearchFunc(list, function+1, compare)
	return list[low:high], uint32(low)
}

// Address is where block number n, of those of all, begins; false if it is none.
func (p *Part) Address(n uint32) (uint64, bool) {
	if n-p.FirstBlock >= uint32(len(p.Blocks)) {
		return 0, false
	}
	return p.Blocks[n-p.FirstBlock].Address, true
}
