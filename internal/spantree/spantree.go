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
	s := &solver{edges: edges, known: known, counts: counts, sums: make([]node, n)}
	for i, e := range edges {
		if e.From == e.To {
			if !known[i] {
				return false // what comes is what leaves, whatever it is
			}
			continue
		}
		s.add(e.From, int32(i), -1)
		s.add(e.To, int32(i), 1)
	}
	for k := range s.sums {
		s.settle(int32(k))
	}
	return s.left() == 0
}

// node is what is known of a node.
type node struct {
	sum     int64 // what is known to come, less what is known to leave
	unknown int32 // edges
	xor     int32 // of their numbers: of a single one, which it is
}

type solver struct {
	edges  []Edge
	known  []bool
	counts []int64
	sums   []node
}

// add notes edge e at a node: sign is 1 where it comes in.
func (s *solver) add(k, e int32, sign int64) {
	if k == Outside {
		return
	}
	if s.known[e] {
		s.sums[k].sum += sign * s.counts[e]
		return
	}
	s.sums[k].unknown++
	s.sums[k].xor ^= e
}

// settle works out the only unknown edge of node k, and goes on at its other end.
func (s *solver) settle(k int32) {
	for k != Outside && s.sums[k].unknown == 1 {
		at := &s.sums[k]
		e := at.xor
		out := s.edges[e].From == k
		if s.counts[e] = at.sum; !out {
			s.counts[e] = -at.sum
		}
		s.known[e] = true
		at.unknown, at.xor, at.sum = 0, 0, 0
		next, sign := s.edges[e].From, int64(-1)
		if out {
			next, sign = s.edges[e].To, 1
		}
		if next != Outside {
			to := &s.sums[next]
			to.unknown--
			to.xor ^= e
			to.sum += sign * s.counts[e]
		}
		k = next
	}
}

func (s *solver) left() (n int) {
	for _, known := range s.known {
		if !known {
			n++
		}
	}
	return n
}
