// Package spantree says which ways of a flow graph need a counter, so that how often all
// were taken is known, and works the others out: what comes to a block leaves it, so the
// ways of a spanning tree need none (Knuth, Stevenson, "Optimal measurement points for
// program frequency counts", BIT 1973; Ball, Larus, "Optimally profiling and tracing
// programs", TOPLAS 1994).
package spantree

// Outside is the end of a way that comes from outside of the graph, or leads there. What
// comes and what leaves there need not be the same.
const Outside = -1

// Edge is a way from a node to another, or from or to Outside.
type Edge struct{ From, To int32 }

// Split is a graph in which blocks are counted, too: block k of n is the nodes 2k and
// 2k+1, with an edge of its own in between. The blocks' edges come first, then the ways.
func Split(n int, ways []Edge) []Edge {
	edges := make([]Edge, 0, n+len(ways))
	for k := range int32(n) {
		edges = append(edges, Edge{2 * k, 2*k + 1})
	}
	for _, e := range ways {
		if e.From != Outside {
			e.From = 2*e.From + 1
		}
		if e.To != Outside {
			e.To *= 2
		}
		edges = append(edges, e)
	}
	return edges
}

// Tree marks the edges of a spanning forest of n nodes and Outside. Edges are asked in
// the order given, so that those which are dear to count come first.
func Tree(n int, edges []Edge, order []int32) []bool {
	over := make([]int32, n+1) // of a set of nodes that are connected, a node nearer to the one that stands for it; Outside is the last
	for i := range over {
		over[i] = int32(i)
	}
	find := func(k int32) int32 {
		if k == Outside {
			k = int32(n)
		}
		for over[k] != k {
			over[k] = over[over[k]]
			k = over[k]
		}
		return k
	}
	tree := make([]bool, len(edges))
	for _, e := range order {
		if a, b := find(edges[e].From), find(edges[e].To); a != b {
			over[a], tree[e] = b, true
		}
	}
	return tree
}

// Solve works out the counts of the edges that are not known. It reports false where the
// others do not say so much. Counts of what goes on at the same time may be negative.
func Solve(n int, edges []Edge, known []bool, counts []int64) bool {
	o, ok := NewOrder(n, edges, known)
	if ok {
		o.Solve(counts)
	}
	return ok
}

// Order is the order in which the edges of a graph that are not known are worked out, for who does
// so more than once.
type Order struct {
	edges []Edge
	known []int32
	steps []step
	sums  []int64 // by node: what is known to come, less what is known to leave
}

// step works out an edge: the only one at a node that is not known by then.
type step struct{ edge, node int32 }

// NewOrder finds that of a graph of n nodes. It reports false where what is known does not say so much.
func NewOrder(n int, edges []Edge, known []bool) (*Order, bool) {
	f := &finder{Order: Order{edges: edges, sums: make([]int64, n)}, unknown: make([]unknown, n)}
	left := 0
	for i, e := range edges {
		switch {
		case e.From == e.To:
			if !known[i] {
				return nil, false // what comes is what leaves, whatever it is
			}
		case known[i]:
			f.known = append(f.known, int32(i))
		default:
			f.at(e.From, int32(i), 1)
			f.at(e.To, int32(i), 1)
			left++
		}
	}
	f.steps = make([]step, 0, left)
	for k := range f.unknown {
		f.settle(int32(k))
	}
	return &f.Order, len(f.steps) == left
}

// Solve works out the counts of the edges that are not known.
func (o *Order) Solve(counts []int64) {
	clear(o.sums)
	for _, e := range o.known {
		o.add(o.edges[e].From, -counts[e])
		o.add(o.edges[e].To, counts[e])
	}
	for _, s := range o.steps {
		if from, to := o.edges[s.edge].From, o.edges[s.edge].To; from == s.node {
			counts[s.edge] = o.sums[s.node]
			o.add(to, counts[s.edge])
		} else {
			counts[s.edge] = -o.sums[s.node]
			o.add(from, -counts[s.edge])
		}
	}
}

func (o *Order) add(node int32, n int64) {
	if node != Outside {
		o.sums[node] += n
	}
}

// unknown is what is not known at a node.
type unknown struct {
	edges int32
	xor   int32 // of their numbers: of a single one, which it is
}

type finder struct {
	Order
	unknown []unknown
}

// at notes that edge e at a node is not known, or is known by now.
func (f *finder) at(node, e, n int32) {
	if node != Outside {
		f.unknown[node].edges += n
		f.unknown[node].xor ^= e
	}
}

// settle works out the only unknown edge of a node, and goes on at its other end.
func (f *finder) settle(node int32) {
	for node != Outside && f.unknown[node].edges == 1 {
		e := f.unknown[node].xor
		f.steps = append(f.steps, step{e, node})
		from, to := f.edges[e].From, f.edges[e].To
		f.at(from, e, -1)
		f.at(to, e, -1)
		if node = to; f.steps[len(f.steps)-1].node == to {
			node = from
		}
	}
}
