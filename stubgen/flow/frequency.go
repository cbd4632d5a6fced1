package flow

// Shares of the ways that leave a block, by guess: loops go round lapsGuessed times, and what
// throws or does not come back is rare (Ball, Larus, "Branch prediction for free", PLDI
// 1993, has where such guesses come from).
const (
	lapsGuessed = 8
	rare        = 1.0 / 256
	leastGuess  = 1e-9 // so that what nothing is known to lead to counts for something, too
)

// Frequency guesses how often each block runs when the unit is called once.
func (g *Graph) Frequency(n *Nest) []float64 {
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
		shares = g.shares(shares[:0], n, k)
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
func (g *Graph) shares(list []float64, n *Nest, k int32) []float64 {
	sum := 0.0
	for _, e := range g.Blocks[k].Succs {
		share := 1.0
		switch {
		case e.Kind == Unwind, g.Blocks[e.To].isEnd():
			share = rare
		case n.leaves(k, e.To):
			share = 1.0 / lapsGuessed
		}
		list = append(list, share)
		sum += share
	}
	for i := range list {
		list[i] /= sum
	}
	return list
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
func (g *Graph) Share(n *Nest, from, to int32) (share float64) {
	var few [2]float64 // what most blocks have
	for i, s := range g.shares(few[:0], n, from) {
		if g.Blocks[from].Succs[i].To == to {
			share += s
		}
	}
	return share
}
