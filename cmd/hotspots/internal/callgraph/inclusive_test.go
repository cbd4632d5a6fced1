package callgraph

import "testing"

// graphOf makes a graph of functions that have executed own instructions and were called
// calls times; of those with 0 instructions blocks are not counted.
func graphOf(own, calls []uint64, edges ...Edge) *Graph {
	g := &Graph{Edges: edges}
	for i := range own {
		f := Function{Place: Place{Address: uint64(i)}, Calls: calls[i], Counted: true}
		if own[i] > 0 {
			f.Own = &own[i]
		}
		g.Functions = append(g.Functions, f)
	}
	return g
}

func TestInclusive(t *testing.T) {
	edge := func(from, to int, calls uint64, kind Kind) Edge {
		return Edge{Caller: from, Callee: to, Calls: calls, Kind: kind}
	}
	for _, row := range []struct {
		name  string
		graph *Graph
		want  []float64 // by function; -1: it is not there
		exact []bool
		cycle []int
	}{
		{"a chain", graphOf([]uint64{10, 20, 30}, []uint64{1, 2, 6}, edge(0, 1, 2, Call), edge(1, 2, 6, Tail)),
			[]float64{60, 50, 30}, []bool{true, true, true}, []int{0, 0, 0}},
		{"shared by calls", graphOf([]uint64{10, 20, 40}, []uint64{1, 1, 4}, edge(0, 1, 1, Call), edge(0, 2, 1, Call), edge(1, 2, 3, Call)),
			[]float64{10 + 50 + 10, 20 + 30, 40}, []bool{false, false, true}, []int{0, 0, 0}},
		{"called from elsewhere", graphOf([]uint64{10, 40}, []uint64{1, 4}, edge(0, 1, 1, Call), edge(None, 1, 3, Elsewhere)),
			[]float64{20, 40}, []bool{false, true}, []int{0, 0}},
		{"recursion", graphOf([]uint64{10, 90}, []uint64{1, 9}, edge(0, 1, 1, Call), edge(1, 1, 8, Call)),
			[]float64{100, 90}, []bool{true, true}, []int{0, 0}},
		{"a circle of two", graphOf([]uint64{10, 50, 40, 7}, []uint64{1, 5, 4, 2}, edge(0, 1, 1, Call), edge(1, 2, 4, Call), edge(2, 1, 4, Call), edge(2, 3, 2, Call)),
			[]float64{107, 97, 97, 7}, []bool{true, true, true, true}, []int{0, 2, 2, 0}},
		{"not all is known", graphOf([]uint64{10, 20, 30, 0}, []uint64{1, 1, 1, 5}, edge(0, 1, 1, Call), edge(1, None, 3, Unknown), edge(2, 3, 5, Call)),
			[]float64{30, 20, 30, -1}, []bool{false, false, false, false}, []int{0, 0, 0, 0}},
		{"at most", graphOf([]uint64{10, 20}, []uint64{1, 1}, edge(0, 1, 1, AtMost), edge(None, 1, 1, Elsewhere)),
			[]float64{10, 20}, []bool{false, true}, []int{0, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := map[int]Inclusive{}
			last := -1.0
			for _, one := range row.graph.Inclusive() {
				if got[one.Function] = one; last >= 0 && one.Instructions > last {
					t.Errorf("%+v is behind fewer instructions", one)
				}
				last = one.Instructions
			}
			for i, want := range row.want {
				one, there := got[i]
				if there != (want >= 0) || there && (one.Instructions != want || one.Exact != row.exact[i] || one.Cycle != row.cycle[i]) {
					t.Errorf("function %d: %+v, not %v, exact %t, in a circle of %d", i, one, want, row.exact[i], row.cycle[i])
				}
			}
		})
	}
}

// A chain of calls is followed without recursion of our own.
func TestInclusiveDeep(t *testing.T) {
	const functions = 100000
	own, calls := make([]uint64, functions), make([]uint64, functions)
	var edges []Edge
	for i := range own {
		own[i], calls[i] = 1, 1
		if i > 0 {
			edges = append(edges, Edge{Caller: i - 1, Callee: i, Calls: 1})
		}
	}
	if first := graphOf(own, calls, edges...).Inclusive()[0]; first.Instructions != functions || !first.Exact {
		t.Errorf("%+v", first)
	}
}
