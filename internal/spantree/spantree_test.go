package spantree

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRandom: walks over random graphs are counted on the edges that are in no tree, and
// all others come out as they were taken.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(12)
		var edges []Edge
		outs := make([][]int32, n)
		for e := range int32(n + r.IntN(3*n)) {
			from, to := int32(r.IntN(n+1))-1, int32(r.IntN(n+1))-1
			if from == Outside && to == Outside {
				to = 0
			}
			edges = append(edges, Edge{from, to})
			if from != Outside {
				outs[from] = append(outs[from], e)
			}
		}
		for k := range outs { // each can be left
			edges = append(edges, Edge{int32(k), Outside})
			outs[k] = append(outs[k], int32(len(edges)-1))
		}
		taken := make([]int64, len(edges))
		for range 50 {
			in := r.IntN(len(edges))
			if edges[in].From != Outside {
				continue
			}
			for e := int32(in); ; {
				taken[e]++
				k := edges[e].To
				if k == Outside {
					break
				}
				e = outs[k][r.IntN(len(outs[k]))]
			}
		}
		order := make([]int32, len(edges))
		for i, v := range r.Perm(len(edges)) {
			order[i] = int32(v)
		}
		known := Tree(n, edges, order)
		counts := slices.Clone(taken)
		counted := 0
		for i := range known {
			if known[i] = !known[i]; known[i] {
				counted++
			} else {
				counts[i] = -99
			}
		}
		if want := len(edges) - n; counted != want {
			t.Fatalf("%d of %d edges are counted, not %d: %v", counted, len(edges), want, edges)
		}
		if !Solve(n, edges, known, counts) || !slices.Equal(counts, taken) {
			t.Fatalf("%v: %d, not %d", edges, counts, taken)
		}
	}
}

// TestUnsolved: what the counts do not say is no number.
func TestUnsolved(t *testing.T) {
	for _, edges := range [][]Edge{
		{{0, 1}, {1, 0}},
		{{0, 0}},
		{{Outside, 0}, {0, Outside}},
	} {
		if Solve(2, edges, make([]bool, len(edges)), make([]int64, len(edges))) {
			t.Errorf("%v", edges)
		}
	}
	if known := []bool{true, false}; !Solve(1, []Edge{{Outside, 0}, {0, Outside}}, known, []int64{3, 0}) {
		t.Error("not solved")
	}
}
