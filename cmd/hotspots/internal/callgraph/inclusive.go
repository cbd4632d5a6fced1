package callgraph

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Inclusive is what a function has executed itself and what it has had others execute.
type Inclusive struct {
	Function     int // number in Functions
	Own          uint64
	Instructions float64 // with what it called
	Exact        bool    // nothing was shared out, and nothing that it called is missing
	Cycle        int     // so many functions call each other in a circle that it is in: Instructions are those of all of them; 0: none
}

// Inclusive works out what each function whose blocks are counted has executed with all
// that it called, the most first. A function that several have called is shared out among
// these by their calls, as if each call took as long (Graham, Kessler, McKusick, "gprof: a
// call graph execution profiler", SIGPLAN 1982); functions that call each other in a circle
// are one. Of calls that are not known, and of functions whose blocks are not counted,
// nothing is in it.
func (g *Graph) Inclusive() []Inclusive {
	c := &condensed{Graph: g, out: make([][]int, len(g.Functions)), circle: make([]int, len(g.Functions)), open: make([]bool, len(g.Functions))}
	for n := range g.Functions {
		c.open[n] = g.Functions[n].Partly
	}
	for i := range g.Edges {
		switch e := &g.Edges[i]; {
		case e.Caller == None:
		case e.Kind == AtMost, e.Kind == Unknown, g.Functions[e.Callee].Own == nil:
			c.open[e.Caller] = true
		default:
			c.out[e.Caller] = append(c.out[e.Caller], i)
		}
	}
	c.find()
	c.addUp()
	var all []Inclusive
	for n := range g.Functions {
		f := &g.Functions[n]
		if f.Own == nil {
			continue
		}
		k := c.circle[n]
		one := Inclusive{Function: n, Own: *f.Own, Instructions: c.total[k], Exact: c.exact[k]}
		if size := len(c.circles[k]); size > 1 {
			one.Cycle = size
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Inclusive) int {
		return cmp.Or(cmp.Compare(b.Instructions, a.Instructions), cmp.Compare(b.Own, a.Own), g.Functions[a.Function].compare(g.Functions[b.Function].Place))
	})
	return all
}

// condensed is a graph whose circles are one node each.
type condensed struct {
	*Graph
	out     [][]int // by function: its edges with both ends, numbers in Edges
	open    []bool  // by function: it has called what is not known, or not counted
	circle  []int   // by function: the number of its circle, that of one mostly
	circles [][]int // functions; all that one calls come before it
	total   []float64
	exact   []bool
}

// find finds the circles (Tarjan, "Depth-first search and linear graph algorithms", SIAM J.
// Comput. 1972), with a stack of its own: a chain of calls may be long.
func (c *condensed) find() {
	type visit struct{ function, next int }
	number, low := make([]int, len(c.Functions)), make([]int, len(c.Functions)) // from 1 on
	var stack []int
	var visits []visit
	held := make([]bool, len(c.Functions))
	count := 0
	begin := func(f int) {
		count++
		number[f], low[f], held[f] = count, count, true
		stack, visits = append(stack, f), append(visits, visit{f, 0})
	}
	for root := range c.Functions {
		if number[root] == 0 {
			begin(root)
		}
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			f := v.function
			if v.next < len(c.out[f]) {
				to := c.Edges[c.out[f][v.next]].Callee
				v.next++
				if number[to] == 0 {
					begin(to)
				} else if held[to] {
					low[f] = min(low[f], number[to])
				}
				continue
			}
			if visits = visits[:len(visits)-1]; len(visits) > 0 {
				up := visits[len(visits)-1].function
				low[up] = min(low[up], low[f])
			}
			if low[f] != number[f] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != f {
				at--
			}
			for _, member := range stack[at:] {
				c.circle[member], held[member] = len(c.circles), false
			}
			c.circles = append(c.circles, slices.Clone(stack[at:]))
			stack = stack[:at]
		}
	}
}

// addUp works out the totals, of what is called first.
func (c *condensed) addUp() {
	c.total, c.exact = make([]float64, len(c.circles)), make([]bool, len(c.circles))
	entered := make([]float64, len(c.circles)) // calls from outside
	for k, members := range c.circles {
		c.exact[k] = true
		taken := map[int]float64{} // by circle that is called
		for _, f := range members {
			if own := c.Functions[f].Own; own != nil {
				c.total[k] += float64(*own)
			}
			entered[k] += float64(c.Functions[f].Calls)
			c.exact[k] = c.exact[k] && !c.open[f]
			for _, i := range c.out[f] {
				e := &c.Edges[i]
				if to := c.circle[e.Callee]; to == k {
					entered[k] -= float64(e.Calls)
				} else {
					taken[to] += float64(e.Calls)
				}
			}
		}
		for _, to := range slices.Sorted(maps.Keys(taken)) {
			calls := taken[to]
			if entered[to] > 0 {
				c.total[k] += c.total[to] * math.Min(1, calls/entered[to])
			}
			c.exact[k] = c.exact[k] && c.exact[to] && calls == entered[to]
		}
	}
}
