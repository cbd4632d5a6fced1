package flow

import "slices"

// Loop is a natural loop: the blocks from which its header is reached again without
// leaving it, and which cannot be reached but by the header (Aho, Lam, Sethi, Ullman,
// Compilers, 9.6).
type Loop struct {
	Header int32
	Blocks []int32 // by number, the header among them
	Back   []int32 // from which an edge leads back to the header
	Parent int     // number of the loop around it, -1 if there is none
	Depth  int     // 1 for the outermost
}

// Nest is the loops of a graph, and which of them each block is in.
type Nest struct {
	Loops []Loop  // those of an outer loop before those in it
	Whole bool    // there are no other circles, such as are entered at several blocks
	Inner []int32 // by block: number of the innermost loop that it is in, -1 if in none
	order []int32 // blocks that can be reached, in reverse postorder
}

// Order is the blocks that can be reached, in reverse postorder: each is behind all that come to
// it without going round.
func (n *Nest) Order() []int32 { return n.order }

// Loops finds the natural loops; loops with the same header are one.
func (g *Graph) Loops() *Nest {
	preds := g.preds()
	d := g.dominators(&preds)
	n := &Nest{Whole: true, Inner: make([]int32, len(g.Blocks)), order: d.order}
	back := map[int32][]int32{}
	for _, k := range d.order {
		for _, e := range g.Blocks[k].Succs {
			switch {
			case d.dominates(e.To, k):
				back[e.To] = append(back[e.To], k)
			case d.number[e.To] <= d.number[k]:
				n.Whole = false
			}
		}
	}
	for k := range n.Inner {
		n.Inner[k] = -1
	}
	if len(back) == 0 {
		return n
	}
	for _, k := range d.order {
		if tails := back[k]; tails != nil {
			slices.Sort(tails)
			n.Loops = append(n.Loops, Loop{Header: k, Blocks: around(&preds, k, tails), Back: slices.Compact(tails), Parent: -1})
		}
	}
	nest(n.Loops)
	for i := range n.Loops {
		for _, k := range n.Loops[i].Blocks {
			if in := n.Inner[k]; in < 0 || n.Loops[in].Depth < n.Loops[i].Depth {
				n.Inner[k] = int32(i)
			}
		}
	}
	return n
}

// around is the blocks that lead to the tails without passing the header, and it.
func around(preds *preds, header int32, tails []int32) []int32 {
	in := map[int32]bool{header: true}
	todo := slices.Clone(tails)
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !in[k] {
			in[k] = true
			todo = append(todo, preds.of(k)...)
		}
	}
	list := make([]int32, 0, len(in))
	for k := range in {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// nest says which loop is in which. Headers of outer loops come first: they dominate
// those of inner ones.
func nest(loops []Loop) {
	for i := range loops {
		for j := i - 1; j >= 0; j-- {
			if _, in := slices.BinarySearch(loops[j].Blocks, loops[i].Header); in && len(loops[j].Blocks) >= len(loops[i].Blocks) {
				if p := loops[i].Parent; p < 0 || len(loops[j].Blocks) < len(loops[p].Blocks) {
					loops[i].Parent = j
				}
			}
		}
		loops[i].Depth = 1
		if p := loops[i].Parent; p >= 0 {
			loops[i].Depth += loops[p].Depth
		}
	}
}

// preds are the blocks from which edges lead to each block.
type preds struct {
	list  []int32 // those of the first block, of the second, ...
	first []int32 // by block, and one more: where its own begin
}

func (p *preds) of(k int32) []int32 { return p.list[p.first[k]:p.first[k+1]] }

func (g *Graph) preds() preds {
	p := preds{first: make([]int32, len(g.Blocks)+2)}
	next := p.first[1:] // where the next of each block goes, once all are counted
	for k := range g.Blocks {
		for _, e := range g.Blocks[k].Succs {
			p.first[e.To+2]++
		}
	}
	for k := 2; k < len(p.first); k++ {
		p.first[k] += p.first[k-1]
	}
	p.list = make([]int32, p.first[len(p.first)-1])
	for k := range g.Blocks {
		for _, e := range g.Blocks[k].Succs {
			p.list[next[e.To]] = int32(k)
			next[e.To]++
		}
	}
	return p
}

// dominators are what Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm"
// (2001) computes. Over all blocks that control may come to from outside there is a
// root that is no block.
type dominators struct {
	order  []int32 // blocks that can be reached, in reverse postorder
	number []int32 // by block: its place in order, -1 if it cannot be reached
	over   []int32 // by block: its immediate dominator, -1 for the root
}

func (g *Graph) dominators(preds *preds) *dominators {
	d := &dominators{number: make([]int32, len(g.Blocks)), over: make([]int32, len(g.Blocks))}
	roots := g.roots()
	d.walk(g, roots)
	const unknown = -2
	for k := range d.over {
		d.over[k] = unknown
	}
	for _, k := range roots {
		d.over[k] = -1
	}
	isRoot := make([]bool, len(g.Blocks))
	for _, k := range roots {
		isRoot[k] = true
	}
	for changed := true; changed; {
		changed = false
		for _, k := range d.order {
			if isRoot[k] {
				continue
			}
			over := int32(unknown)
			for _, p := range preds.of(k) {
				if d.number[p] < 0 || d.over[p] == unknown {
					continue
				}
				if over == unknown {
					over = p
				} else {
					over = d.meet(over, p)
				}
			}
			if over != d.over[k] {
				d.over[k], changed = over, true
			}
		}
	}
	return d
}

// roots are the blocks that control may come to in a way that is no edge. To those in
// tables, and those whose address is taken, the unit's own indirect jumps lead, if it
// has any.
func (g *Graph) roots() (list []int32) {
	switches := Ways(ByTable)
	for k := range g.Blocks {
		if len(g.Blocks[k].Succs) > 0 && g.Blocks[k].Succs[0].Kind == Switch {
			switches |= ByPointer
		}
	}
	unwound := make([]bool, len(g.Blocks))
	for k := range g.Blocks {
		for _, e := range g.Blocks[k].Succs {
			unwound[e.To] = unwound[e.To] || e.Kind == Unwind
		}
	}
	for k := range g.Blocks {
		ways := g.Blocks[k].Entered &^ switches
		if unwound[k] {
			ways &^= ByUnwind
		}
		if ways != 0 {
			list = append(list, int32(k))
		}
	}
	return list
}

// walk numbers the blocks in reverse postorder, from the roots on.
func (d *dominators) walk(g *Graph, roots []int32) {
	for k := range d.number {
		d.number[k] = -1
	}
	type step struct {
		block int32
		edge  int
	}
	seen := make([]bool, len(g.Blocks))
	var post []int32
	for _, root := range slices.Backward(roots) {
		if seen[root] {
			continue
		}
		seen[root] = true
		stack := []step{{root, 0}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			succs := g.Blocks[top.block].Succs
			if top.edge == len(succs) {
				post = append(post, top.block)
				stack = stack[:len(stack)-1]
				continue
			}
			to := succs[top.edge].To
			top.edge++
			if !seen[to] {
				seen[to] = true
				stack = append(stack, step{to, 0})
			}
		}
	}
	slices.Reverse(post)
	d.order = post
	for i, k := range post {
		d.number[k] = int32(i)
	}
}

// meet is the nearest block that dominates both, -1 if only the root does.
func (d *dominators) meet(a, b int32) int32 {
	for a != b {
		if a < 0 || b < 0 {
			return -1
		}
		if d.number[a] > d.number[b] {
			a = d.over[a]
		} else {
			b = d.over[b]
		}
	}
	return a
}

// dominates reports whether all ways to block k pass block a.
func (d *dominators) dominates(a, k int32) bool {
	for ; k >= 0; k = d.over[k] {
		if k == a {
			return true
		}
	}
	return false
}
