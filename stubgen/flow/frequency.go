package flow

import "github.com/dynprof/dynprof/internal/x86"

// Shares of the ways that leave a block, by guess: loops go round lapsGuessed times, and what
// throws, does not come back, or was put apart by the compiler is rare.
const (
	lapsGuessed = 8
	rare        = 1.0 / 256
	leastGuess  = 1e-9 // so that what nothing is known to lead to counts for something, too
)

// Guess says how often blocks run and ways are taken, by what the code is like.
type Guess struct {
	g      *Graph
	nest   *Nest
	preds  preds
	rarity []rarity // by block
}

// rarity is how rarely control comes to a block.
type rarity uint8

const (
	isUsual rarity = iota
	isCold         // it is in a cold part, or all that follows it is
	isLast         // it does not come back
)

// Guess looks at a graph with these loops.
func (g *Graph) Guess(n *Nest) *Guess {
	s := &Guess{g: g, nest: n, preds: g.preds(), rarity: make([]rarity, len(g.Blocks))}
	own := g.Unit.Ranges[0]
	for k := range g.Blocks {
		switch b := &g.Blocks[k]; {
		case b.isEnd():
			s.rarity[k] = isLast
		case g.Addr(b)-own.Low >= own.High-own.Low:
			s.rarity[k] = isCold
		}
	}
	for i := len(n.order) - 1; i >= 0; i-- {
		s.foresee(n.order[i])
	}
	return s
}

// foresee has a block be as rare as the most usual of those behind it.
func (s *Guess) foresee(k int32) {
	b := &s.g.Blocks[k]
	if b.Leaves&^ByCall != 0 {
		return
	}
	most, any := isLast, false
	for _, e := range b.Succs {
		if e.Kind != Unwind {
			most, any = min(most, s.rarity[e.To]), true
		}
	}
	if any {
		s.rarity[k] = max(s.rarity[k], most)
	}
}

// Frequency guesses how often each block runs when the unit is called once.
func (s *Guess) Frequency() []float64 {
	g, n := s.g, s.nest
	often := make([]float64, len(g.Blocks))
	header := make([]bool, len(g.Blocks))
	for i := range n.Loops {
		header[n.Loops[i].Header] = true
	}
	place := make([]int32, len(g.Blocks)) // in the order
	for i, k := range n.order {
		place[k] = int32(i)
	}
	often[g.Entry] = 1
	var shares []float64
	for i, k := range n.order {
		if often[k] = max(often[k], leastGuess); header[k] {
			often[k] *= lapsGuessed
		}
		shares = s.shares(shares[:0], k)
		for e, share := range shares {
			if to := g.Blocks[k].Succs[e].To; int(place[to]) > i { // no way back
				often[to] += often[k] * share
			}
		}
	}
	for k := range often {
		often[k] = max(often[k], leastGuess)
	}
	return often
}

// shares adds those of the ways that leave block k, by edge, to an empty list.
func (s *Guess) shares(list []float64, k int32) []float64 {
	b := &s.g.Blocks[k]
	for _, e := range b.Succs {
		share := 1.0
		switch {
		case e.Kind == Unwind, s.rarity[e.To] > s.rarity[k]:
			share = rare
		case s.nest.leaves(k, e.To):
			share = 1.0 / lapsGuessed
		}
		list = append(list, share)
	}
	if len(list) == 2 && b.Succs[0].Kind == Fall && b.Succs[1].Kind == Taken {
		list[1] *= s.odds(k, b.Succs[0].To, b.Succs[1].To)
	}
	sum := 0.0
	for _, share := range list {
		sum += share
	}
	for i := range list {
		list[i] /= sum
	}
	return list
}

// How many times as often a conditional jump is taken as not, by guess, if all else is equal.
// Such guesses are those of Ball, Larus, "Branch prediction for free", PLDI 1993, and of Wu,
// Larus, "Static branch frequency and program profile analysis", MICRO 1994; the numbers were
// fitted to 130,000 jumps of 15 programs of Debian, by counts of their blocks.
const (
	oddsBack  = 0.8  // it leads back, whether or not it is a loop's
	oddsApart = 0.4  // nothing else goes on at its target: the compiler has put that out of the way
	oddsFar   = 0.6  // it leads over more than farBlocks
	oddsMany  = 0.6  // others lead there, too: manyWays in all
	oddsCall  = 0.5  // its target calls, and what is behind it does not
	oddsStay  = 1.5  // the other way round
	oddsRound = 0.65 // it leads around a return

	farBlocks = 4
	manyWays  = 4
)

// odds guesses that of the jump at the end of block k.
func (s *Guess) odds(k, fall, taken int32) float64 {
	g := s.g
	odds := 1.0
	switch {
	case taken <= k:
		odds *= oddsBack
	case !s.isFallenInto(taken):
		odds *= oddsApart
	case taken-fall > farBlocks:
		odds *= oddsFar
	}
	if len(s.preds.of(taken)) >= manyWays {
		odds *= oddsMany
	}
	to, on := &g.Blocks[taken], &g.Blocks[fall]
	switch calls := g.Last(to).Calls(); {
	case calls == g.Last(on).Calls():
	case calls:
		odds *= oddsCall
	default:
		odds *= oddsStay
	}
	if on.Leaves&(ByReturn|ByTail) != 0 && to.Leaves&(ByReturn|ByTail) == 0 {
		odds *= oddsRound
	}
	if b := &g.Blocks[k]; b.End-b.First > 1 {
		odds *= conditionOdds(&g.Insts[b.End-2], &g.Insts[b.End-1])
	}
	return odds
}

// isFallenInto reports whether the block in front of another goes on there.
func (s *Guess) isFallenInto(k int32) bool {
	if k == 0 {
		return false
	}
	for _, e := range s.g.Blocks[k-1].Succs {
		if e.To == k && (e.Kind == Fall || e.Kind == Return) {
			return true
		}
	}
	return false
}

// Conditions of jumps; each odd one is the opposite of the even one in front of it.
const (
	conditionBE = 6
	conditionE  = 4
	conditionS  = 8
	conditionLE = 14
)

// conditionOdds is what a comparison in front of a conditional jump tells: numbers are rarely
// negative, pointers rarely nil, other things often 0, and rarely a certain number.
func conditionOdds(compare, jump *Inst) float64 {
	odds := 1.0
	condition := jump.Cond() &^ 1
	switch c := comparisonOf(compare); {
	case c == unknownComparison:
	case condition == conditionS:
		odds = 0.25
	case condition == conditionE && c == withNil:
		odds = 0.65
	case condition == conditionE && c == withZero:
		odds = 1.5
	case condition == conditionE && jump.Cond() == conditionE:
		odds = 0.5
	case condition == conditionLE && c != withNumber:
		odds = 0.55
	case (condition == conditionLE || condition == conditionBE) && c == withNumber:
		odds = 1.8
	}
	if jump.Cond() != condition {
		return 1 / odds
	}
	return odds
}

// comparison is what something is compared with.
type comparison uint8

const (
	unknownComparison comparison = iota
	withNil                      // a register of 64 bits with 0
	withZero                     // anything else, or some of its bits
	withNumber                   // another number
)

func comparisonOf(in *Inst) comparison {
	if in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy {
		return unknownComparison
	}
	const opTestByte, opTest, opTestALNumber, opTestNumber = 0x84, 0x85, 0xa8, 0xa9
	const opGroup3Byte, opGroup3, opCompareAL, opCompareEAX = 0xf6, 0xf7, 0x3c, 0x3d
	const opGroup1Byte, opGroup1, opGroup1Short = 0x80, 0x81, 0x83
	const isTest, isCompare = 0, 7
	same := in.ModRM >= 0xc0 && in.ModRM>>3&7 == in.ModRM&7
	number := withNumber
	if in.ImmSize == 1 && in.Imm8 == 0 {
		number = withZero
	}
	switch which := in.ModRM >> 3 & 7; in.Op {
	case opTest:
		if same && in.Rex&x86.RexW != 0 {
			return withNil
		}
		return withZero
	case opTestByte, opTestALNumber, opTestNumber:
		return withZero
	case opGroup3Byte, opGroup3:
		if which == isTest {
			return withZero
		}
	case opCompareAL, opCompareEAX:
		return number
	case opGroup1Byte, opGroup1, opGroup1Short:
		if which == isCompare {
			return number
		}
	}
	return unknownComparison
}

// isEnd reports whether nothing goes on behind a block: it calls what does not come back,
// or is an instruction that faults.
func (b *Block) isEnd() bool {
	return len(b.Succs) == 0 && b.Leaves&^(ByCall|ByTrap) == 0
}

// leaves reports whether the way from a block to another leaves a loop.
func (n *Nest) leaves(from, to int32) bool {
	if n.Inner[from] < 0 {
		return false
	}
	for l := n.Inner[to]; l >= 0; l = int32(n.Loops[l].Parent) {
		if l == n.Inner[from] {
			return false
		}
	}
	return true
}

// Share guesses which part of block from's runs goes on at block to.
func (s *Guess) Share(from, to int32) (share float64) {
	var few [2]float64 // what most blocks have
	for i, part := range s.shares(few[:0], from) {
		if s.g.Blocks[from].Succs[i].To == to {
			share += part
		}
	}
	return share
}
