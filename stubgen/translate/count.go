package translate

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/spantree"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Way is how control goes from a block of the copy to another, or comes from outside of
// it, or leaves it: to where calls stay, to what they return to, by indirect jumps, into
// other units.
type Way struct {
	spantree.Edge       // blocks of the graph
	Counter       int32 // number of its counter, NoCounter if its count follows from others'
	Calls         bool  // it is taken as often as the function is called
	Back          bool  // it leads back to the header of a loop

	op int32 // the jump, or NoCounter; of one from outside, too
}

// NoCounter is in place of a counter's number where there is none.
const NoCounter = -1

// Detour is code at the copy's end, or in front of a block, that counts a way to it, or has an
// execution of a loop begin there:
//
//	detour: inc   qword gs:[counter]
//	        jmp   block
type Detour struct {
	Counter int32 // NoCounter if the way has none
	Start   int32 // first word of the loop's trips, NoCounter if none begins
	To      int32 // block
	Keep    bool  // flags are live there, and saved
	Ahead   bool  // it is in front of the block, and needs no jump
	Short   bool  // its jump is short
}

// What counting costs, beside an increment: flags saved; a jump over a detour, and what makes
// the copy longer for it.
const (
	keepCost   = 6.0
	detourCost = 4.0
)

// Count puts counters into blocks, and on ways between them, so that how often each block
// ran and each way was taken follows from them, and from the function's calls: as few as
// can be, at places that rarely run, by guess (package spantree). Calls are ways out of the
// copy and ways into it again: what does not come back is no error. A jump of the unit to
// its own entry is a way like others, and no call. Called says that the copy is entered as
// often as the function is called: not where calls may be sent elsewhere, or come uncounted.
//
// A block's counter is in front of the first instruction where no flag is live that it
// changes, or, where there is none, at the block's beginning, with the flags saved.
func (c *Code) Count(called bool) {
	k := &counting{Code: c, live: c.Home.Graph.LiveFlags(), called: called}
	k.Nest = c.Home.Graph.Loops()
	k.guess = c.Home.Graph.Guess(k.Nest)
	k.often = k.guess.Frequency()
	k.findWays()
	k.markBack()
	k.choose()
	if c.wantsTrips {
		k.planTrips(c.Counters)
	}
	k.place()
}

// CountAs puts counters where Count has put them in another copy of the same unit, without
// looking at loops again, unless trips are counted, whose words begin with trips: counter is
// that of block, and of way, number i.
func (c *Code) CountAs(block, way func(i int) (counter int32), trips int32) {
	k := &counting{Code: c, live: c.Home.Graph.LiveFlags()}
	k.findWays()
	if c.wantsTrips {
		k.Nest = c.Home.Graph.Loops()
		k.markBack()
		k.planTrips(trips)
	}
	k.Blocks = make([]int32, len(c.Home.Graph.Blocks))
	for b := range k.Blocks {
		k.Blocks[b] = block(b)
	}
	for i := range k.Ways {
		k.Ways[i].Counter = way(i)
	}
	k.place()
}

// counting is the work of Count.
type counting struct {
	*Code
	called bool
	live   []x86.FlagSet
	guess  *flow.Guess
	often  []float64 // by block, a guess
	outs   []int32   // by block: ways that leave it
	ins    []int32   // and that lead to it
	falls  []bool    // by block: it goes on at the next
	lands  []bool    // by block: old text leads there
	trips  tripPlaces
}

// findWays lists the ways, by block that they leave, and those from outside.
func (k *counting) findWays() {
	g := k.Home.Graph
	n := len(g.Blocks)
	k.outs, k.ins, k.falls, k.lands = make([]int32, n), make([]int32, n), make([]bool, n), make([]bool, n)
	k.Ways = make([]Way, 0, 2*n+len(k.Home.Landings))
	for b := range int32(n) {
		k.waysOf(b)
	}
	for _, l := range k.Home.Landings {
		k.lands[g.BlockOf(l.Inst)] = true
	}
	for b, lands := range k.lands {
		if lands {
			k.way(spantree.Outside, int32(b), NoCounter)
		}
	}
	k.way(spantree.Outside, int32(g.Entry), NoCounter)
	k.Ways[len(k.Ways)-1].Calls = k.called
}

func (k *counting) way(from, to, op int32) {
	if from != spantree.Outside {
		k.outs[from]++
	}
	if to != spantree.Outside {
		k.ins[to]++
	}
	k.Ways = append(k.Ways, Way{Edge: spantree.Edge{From: from, To: to}, Counter: NoCounter, op: op})
}

// waysOf lists those that leave block b. All that lead outside are one.
func (k *counting) waysOf(b int32) {
	g := k.Home.Graph
	goesOn, outside := true, int32(NoCounter)
	left := false
	for i, op := range k.ops(int(b)) {
		kind := g.Insts[op.Inst].Kind
		at := k.Begins[b] + int32(i)
		switch op.Kind {
		case Branch:
			k.way(b, op.To, at)
			goesOn = kind != x86.Jmp
		case Leave:
			left, outside, goesOn = true, at, kind != x86.Jmp
		case Stay, Push, Follow:
			left, outside, goesOn = true, NoCounter, false
		default:
			if kind == x86.Ret || kind == x86.JmpInd || kind == x86.Trap && g.Blocks[b].Leaves&flow.ByTrap != 0 {
				left, outside, goesOn = true, NoCounter, false
			}
		}
	}
	if left {
		k.way(b, spantree.Outside, outside)
	}
	if k.falls[b] = goesOn; goesOn {
		k.way(b, (b+1)%int32(len(g.Blocks)), NoCounter)
	}
}

// markBack marks the ways back to the headers of loops, where they can be told from
// others that come to it: a call that comes back to a header is the way from outside.
func (k *counting) markBack() {
	g := k.Home.Graph
	k.Untold = make([]bool, len(k.Nest.Loops))
	for i := range k.Nest.Loops {
		l := &k.Nest.Loops[i]
		for _, tail := range l.Back {
			for _, e := range g.Blocks[tail].Succs {
				if e.To != l.Header {
					continue
				}
				from := tail
				switch e.Kind {
				case flow.Fall, flow.Taken:
				case flow.Return:
					from = spantree.Outside
					k.Untold[i] = k.Untold[i] || !k.onlyReturn(l.Header)
				default:
					k.Untold[i] = true
				}
				k.back(from, l.Header)
			}
		}
		k.Untold[i] = k.Untold[i] || k.comesHome(l)
	}
}

// comesHome reports whether control comes to a loop's header from what runs at its old place
// behind a call in the loop, as if from outside.
func (k *counting) comesHome(l *flow.Loop) bool {
	g := k.Home.Graph
	header := g.Blocks[l.Header].First
	return slices.ContainsFunc(k.Home.Runs, func(r Run) bool {
		if _, in := slices.BinarySearch(l.Blocks, int32(g.BlockOf(r.First))); !in {
			return false
		}
		for i := r.First + 1; i < r.End; i++ {
			if g.Target(&g.Insts[i]) == int(header) {
				return true
			}
		}
		return r.End > r.First+1 && r.Resume == header
	})
}

func (k *counting) back(from, to int32) {
	for i := range k.Ways {
		if w := &k.Ways[i]; w.From == from && w.To == to {
			w.Back = true
		}
	}
}

// onlyReturn reports whether a block is come to from outside by what one call in front of it
// returns to, only.
func (k *counting) onlyReturn(b int32) bool {
	g := k.Home.Graph
	if g.Blocks[b].Entered != 0 || int(b) == g.Entry {
		return false
	}
	for _, r := range k.Home.Runs {
		for i := r.First + 1; i < r.End; i++ {
			if g.Target(&g.Insts[i]) == int(g.Blocks[b].First) {
				return false
			}
		}
	}
	returns := 0
	for i := range g.Blocks {
		for _, e := range g.Blocks[i].Succs {
			if e.To == b && e.Kind == flow.Return {
				returns++
			}
		}
	}
	return returns == 1
}

// critical reports whether a way is neither all that leaves a block nor all that comes to
// one: the block's count is not the way's.
func (k *counting) critical(w *Way) bool {
	return (w.From == spantree.Outside || k.outs[w.From] > 1) && (w.To == spantree.Outside || k.ins[w.To] > 1)
}

// choose gives counters to blocks and ways. Each block is two nodes, with an edge that is
// the block's own; a way that is not critical needs no counter of its own, as the block's
// would do, and one that jumps out of the unit, or comes to its entry, has no place for it:
// these come first, and make no circle (of each but the entry's one end has no other).
func (k *counting) choose() {
	n := len(k.Home.Graph.Blocks)
	ways, dear := make([]spantree.Edge, len(k.Ways)), make([]float64, n+len(k.Ways))
	order := make([]int32, 0, n+len(k.Ways))
	for i := range k.Ways {
		w := &k.Ways[i]
		switch ways[i] = w.Edge; {
		case w.Calls:
			dear[n+i] = -1 // it is known
		case w.To != spantree.Outside && k.critical(w) && i != len(k.Ways)-1:
			dear[n+i] = k.cost(w)
		default:
			order = append(order, int32(n+i))
		}
	}
	first := len(order)
	for b := range n {
		dear[b] = k.often[b]
		if _, keep := k.spot(b); keep {
			dear[b] *= 1 + keepCost
		}
		order = append(order, int32(b))
	}
	for i := range k.Ways {
		if dear[n+i] != 0 {
			order = append(order, int32(n+i))
		}
	}
	slices.SortFunc(order[first:], func(a, b int32) int { return cmp.Or(cmp.Compare(dear[b], dear[a]), cmp.Compare(a, b)) })
	edges := spantree.Split(n, ways)
	tree := spantree.Tree(2*n, edges, order)
	k.Blocks = make([]int32, n)
	for b := range k.Blocks {
		k.Blocks[b] = k.counter(!tree[b])
	}
	for i := range k.Ways {
		w := &k.Ways[i]
		w.Counter = k.counter(!tree[n+i] && !w.Calls)
	}
}

func (k *counting) counter(wanted bool) int32 {
	if !wanted {
		return NoCounter
	}
	k.Counters++
	return k.Counters - 1
}

// cost is that of counting a critical way.
func (k *counting) cost(w *Way) float64 {
	often := k.often[w.To] / float64(k.ins[w.To])
	if w.From != spantree.Outside {
		often = k.often[w.From] * k.guess.Share(w.From, w.To)
	}
	cost := 1.0
	if w.From == spantree.Outside || w.op != NoCounter {
		cost += detourCost
	}
	if k.keepsAt(w.To) {
		cost += keepCost
	}
	return max(often, 1e-12) * cost
}

// keepsAt reports whether flags are live where a block begins.
func (k *counting) keepsAt(b int32) bool {
	return k.live[k.Home.Graph.Blocks[b].First]&countsChange != 0
}

// countsChange is what an increment writes and somebody may mean to read: not AF.
const countsChange = x86.FlagsAll &^ x86.FlagCF &^ x86.FlagAF

// spot is where a block's counter is, among its operations.
func (k *counting) spot(b int) (at int, keep bool) {
	for i, op := range k.ops(b) {
		if k.live[op.Inst]&countsChange == 0 {
			return i, false
		}
	}
	return 0, true
}

// place writes the counters into the operations.
func (k *counting) place() {
	g := k.Home.Graph
	k.Lands = make([]int32, len(g.Blocks))
	via, behind := make([]int32, len(k.Ops)), make([]int32, len(g.Blocks)) // number + 1
	for i := range k.Ways {
		switch w := &k.Ways[i]; {
		case w.Counter == NoCounter && k.trips.byDetour(i) == NoCounter:
		case w.From == spantree.Outside:
			k.Lands[w.To] = k.detour(i)
		case w.op != NoCounter:
			via[w.op] = k.detour(i)
		default:
			behind[w.From] = w.Counter + 1
		}
	}
	k.lookAhead()
	ops, begins := make([]Op, 0, len(k.Ops)+int(k.Counters)), make([]int32, 0, len(g.Blocks))
	for b := range g.Blocks {
		at, keep := k.spot(b)
		old, begin := k.ops(b), k.Begins[b]
		begins = append(begins, int32(len(ops)))
		ops = k.tripsAt(ops, int32(b))
		for i, op := range old {
			if start := k.trips.inFrontOf(begin + int32(i)); start != NoCounter {
				ops = append(ops, Op{Kind: TripStart, Inst: op.Inst, To: start})
			}
			if k.Blocks[b] != NoCounter && i == at {
				ops = append(ops, Op{Kind: Count, Inst: op.Inst, To: k.Blocks[b], Keep: keep})
			}
			op.Via = via[begin+int32(i)]
			ops = append(ops, op)
		}
		to := int32((b + 1) % len(g.Blocks))
		if start := k.trips.behind(int32(b)); start != NoCounter {
			ops = append(ops, Op{Kind: TripStart, Inst: g.Blocks[to].First, To: start})
		}
		if behind[b] != 0 {
			ops = append(ops, Op{Kind: Count, Inst: g.Blocks[to].First, To: behind[b] - 1, Keep: k.keepsAt(to), Way: true})
		}
	}
	k.Begins, k.Ops, k.Falls = begins, ops, k.falls
}

// detour makes that of way number i, and returns its number + 1.
func (k *counting) detour(i int) int32 {
	w := &k.Ways[i]
	k.Detours = append(k.Detours, Detour{Counter: w.Counter, Start: k.trips.byDetour(i), To: w.To, Keep: k.keepsAt(w.To)})
	return int32(len(k.Detours))
}

// lookAhead puts the detour of a block that is taken most in front of it, where nothing
// else goes on at the block from there.
func (k *counting) lookAhead() {
	best := map[int32]int{}
	for i := range k.Detours {
		to := k.Detours[i].To
		if int(to) == k.Home.Graph.Entry || to > 0 && k.falls[to-1] {
			continue
		}
		if _, found := best[to]; !found { // jumps come first, by block
			best[to] = i
		}
	}
	for _, i := range best {
		k.Detours[i].Ahead = true
	}
}
