package translate

import (
	"slices"

	"github.com/dynprof/dynprof/internal/spantree"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Trip is where the trips of a loop's executions are counted (emit.Trip).
type Trip struct {
	Words int32 // the first, behind the counters; NoCounter: they are not counted
	Why   TripReason
}

// TripReason is why the trips of a loop are not counted.
type TripReason uint8

// Reasons.
const (
	TripUntold TripReason = iota + 1 // where it is entered cannot be told from where it goes round
	TripFlags                        // status flags are live where it goes round or is left
)

func (r TripReason) String() string {
	return [...]string{"", "entries cannot be told", "flags are live"}[r]
}

// CountTrips has Count and CountAs count the trips of the loops' executions, too.
func (c *Code) CountTrips() { c.wantsTrips = true }

// forgetTrips has the copy forget executions of loops whose trips counted counts, where they
// come to the header.
func (c *Code) forgetTrips(counted *Code) {
	words := map[int32]int32{} // by block
	for i, t := range counted.Trips {
		if t.Words != NoCounter {
			words[counted.Nest.Loops[i].Header] = t.Words
		}
	}
	if len(words) == 0 {
		return
	}
	ops, begins := make([]Op, 0, len(c.Ops)+len(words)), make([]int32, 0, len(c.Begins))
	for k := range c.Begins {
		begins = append(begins, int32(len(ops)))
		if to := wordsAt(words, int32(k)); to != NoCounter {
			ops = append(ops, Op{Kind: TripForget, Inst: c.Home.Graph.Blocks[k].First, To: to})
		}
		ops = append(ops, c.ops(k)...)
	}
	c.Ops, c.Begins = ops, begins
}

// TripLoops is how many loops have words for their trips.
func (c *Code) TripLoops() (n int32) {
	for i := range c.Trips {
		if c.Trips[i].Words != NoCounter {
			n++
		}
	}
	return n
}

// tripsChange are the flags that rounds and ends change and somebody may mean to read: not AF.
const tripsChange = x86.FlagsAll &^ x86.FlagAF

// tripPlaces are where executions of loops start, and end: first words of their trips.
type tripPlaces struct {
	ways   []int32           // by way: what starts on a detour or, if that has none, behind the block that it leaves
	jumps  map[int32]int32   // by operation: what starts in front of it
	rounds map[int32]int32   // by block
	ends   map[int32][]int32 // by block: of the loops that are left to it
	falls  map[int32]int32   // by block: what starts behind it
}

// byDetour is what starts on the detour of way number i, NoCounter if nothing does.
func (p *tripPlaces) byDetour(i int) int32 {
	if p.ways == nil {
		return NoCounter
	}
	return p.ways[i]
}

func wordsAt(m map[int32]int32, at int32) int32 {
	if words, ok := m[at]; ok {
		return words
	}
	return NoCounter
}

func (p *tripPlaces) inFrontOf(op int32) int32 { return wordsAt(p.jumps, op) }
func (p *tripPlaces) behind(block int32) int32 { return wordsAt(p.falls, block) }

// tripsAt adds what a block begins with.
func (k *counting) tripsAt(ops []Op, b int32) []Op {
	first := k.Home.Graph.Blocks[b].First
	for _, words := range k.trips.ends[b] {
		ops = append(ops, Op{Kind: TripEnd, Inst: first, To: words})
	}
	if words := wordsAt(k.trips.rounds, b); words != NoCounter {
		ops = append(ops, Op{Kind: TripRound, Inst: first, To: words})
	}
	return ops
}

// planTrips finds the places, for words from first on.
func (k *counting) planTrips(first int32) {
	k.trips = tripPlaces{
		ways: slices.Repeat([]int32{NoCounter}, len(k.Ways)), jumps: map[int32]int32{}, falls: map[int32]int32{},
		rounds: map[int32]int32{}, ends: map[int32][]int32{},
	}
	k.Trips = make([]Trip, len(k.Nest.Loops))
	for i := range k.Nest.Loops {
		l := &k.Nest.Loops[i]
		left := k.leftTo(l)
		why := k.whyNoTrips(i, left)
		if k.Trips[i] = (Trip{NoCounter, why}); why != 0 {
			continue
		}
		k.Trips[i].Words = first
		k.startTrips(l, first)
		k.trips.rounds[l.Header] = first
		for _, b := range left {
			k.trips.ends[b] = append(k.trips.ends[b], first)
		}
		first += emit.TripWords
	}
}

func (k *counting) whyNoTrips(loop int, left []int32) TripReason {
	g, header := k.Home.Graph, k.Nest.Loops[loop].Header
	live := func(b int32) bool { return k.live[g.Blocks[b].First]&tripsChange != 0 }
	switch {
	case k.Untold[loop], k.isHome(g.Blocks[header].First):
		return TripUntold
	case live(header), slices.ContainsFunc(left, live):
		return TripFlags
	}
	return 0
}

// isHome reports whether an instruction runs at its old place, too, behind a call.
func (k *counting) isHome(inst int32) bool {
	return slices.ContainsFunc(k.Home.Runs, func(r Run) bool { return inst > r.First && inst < r.End })
}

// leftTo lists the blocks that a loop is left to. What runs at its old place is not in the
// copy then: so what follows it is among them, too.
func (k *counting) leftTo(l *flow.Loop) (list []int32) {
	g := k.Home.Graph
	var add func(from int32)
	add = func(from int32) {
		for _, e := range g.Blocks[from].Succs {
			if _, in := slices.BinarySearch(l.Blocks, e.To); in || slices.Contains(list, e.To) {
				continue
			}
			if list = append(list, e.To); k.isHome(g.Blocks[e.To].First) {
				add(e.To)
			}
		}
	}
	for _, b := range l.Blocks {
		add(b)
	}
	slices.Sort(list)
	return list
}

// startTrips finds where executions of a loop begin: on each way to its header that comes from
// outside of it.
func (k *counting) startTrips(l *flow.Loop, words int32) {
	for i := range k.Ways {
		w := &k.Ways[i]
		if _, in := slices.BinarySearch(l.Blocks, w.From); w.To != l.Header || in || w.Back {
			continue
		}
		switch {
		case i == len(k.Ways)-1: // where the function is entered
			k.Start = words
		case w.From == spantree.Outside:
			k.trips.ways[i] = words
		case w.op == NoCounter:
			k.trips.falls[w.From] = words
		case k.Home.Graph.Insts[k.Ops[w.op].Inst].Kind == x86.Jmp:
			k.trips.jumps[w.op] = words
		default:
			k.trips.ways[i] = words
		}
	}
}

// tripEnd is the end of an execution that is written where it belongs, but for its cold part.
type tripEnd struct {
	emit.Trip
	from              uint64 // link-time address of the block
	begin, cold, back x86.Label
}

func (w *Writer) tripOf(words int32) emit.Trip {
	return emit.Trip{Word: w.counter.Row + 8*words, Number: w.counter.Number}
}

// startTrip has an execution begin, in front of an instruction.
func (w *Writer) startTrip(words, inst int32) {
	t := w.tripOf(words)
	w.runs.BeginTrip(w.asm, w.shown(inst), emit.TripStartSize)
	t.WriteStart(w.asm, w.fixAt)
}

// trip writes an operation, and keeps the cold part of an end for coldEnds.
func (w *Writer) trip(op Op) {
	if op.Kind == TripStart {
		w.startTrip(op.To, op.Inst)
		return
	}
	e := tripEnd{Trip: w.tripOf(op.To), from: w.shown(op.Inst)}
	switch op.Kind {
	case TripRound:
		w.runs.BeginTrip(w.asm, e.from, emit.TripRoundSize)
		e.WriteRound(w.asm, w.fixAt)
		return
	case TripForget:
		w.runs.BeginTrip(w.asm, e.from, emit.TripForgetSize)
		e.WriteForget(w.asm, w.fixAt)
		return
	}
	w.runs.BeginTrip(w.asm, e.from, emit.TripEndSize)
	e.begin, e.cold, e.back = w.asm.NewLabel(), w.asm.NewLabel(), w.asm.NewLabel()
	w.asm.Bind(e.begin)
	e.WriteEnd(w.asm, e.cold, w.fixAt)
	w.asm.Bind(e.back)
	w.ends = append(w.ends, e)
}

// coldEnds writes the cold parts.
func (w *Writer) coldEnds() {
	for i := range w.ends {
		e := &w.ends[i]
		w.runs.ColdEnd(w.asm, e.from)
		start := w.asm.Len()
		e.WriteColdEnd(w.asm, e.begin, e.cold, e.back, w.fixAt)
		w.runs.Noted(w.asm.Len() - start)
	}
}
