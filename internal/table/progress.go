package table

import (
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Progress follows the blocks of a program that runs. Numbers are not of one moment, so a
// thread that is in the middle of a function may be taken to have gone on; what has run by the
// end has run more often at some time.
type Progress struct {
	Executed uint64 // instructions, as by Block.Executed; it may have been more before

	table    *Table
	solver   solver
	parts    []part
	graphs   []*graph // of those that have run
	owners   []uint64 // counters, and parts that have them in the lower half
	counts   []uint64 // by counter
	before   []uint64
	most     []uint64 // by block: its runs
	executed []uint64 // by part
}

// expected is how many blocks there are at most mostly.
const expected = 1 << 20

// Progress begins to follow the table's blocks, those that it has by now: see Grown.
func (t *Table) Progress() (*Progress, error) {
	p := &Progress{table: t}
	f := &Flow{Blocks: make([]Block, 0, min(t.Geometry.Blocks.Count, expected)), Ways: make([]Way, 0, min(t.Geometry.Ways.Count, expected))}
	if !t.HasBlocks() {
		return p, nil
	}
	for _, read := range []func(*Table) error{f.readBlocks, f.readWays} {
		if err := read(t); err != nil {
			return nil, err
		}
	}
	p.counts, p.before, p.most = make([]uint64, t.Counters), make([]uint64, t.Counters), make([]uint64, len(f.Blocks))
	p.solver = solver{Flow: f, counts: p.counts, calls: make([]uint64, len(t.Functions))}
	for p.solver.blocks < len(f.Blocks) {
		one, _ := p.solver.next()
		p.own(one)
	}
	slices.Sort(p.owners) // so that counters are looked at in the order in which they lie
	p.graphs, p.executed = make([]*graph, len(p.parts)), make([]uint64, len(p.parts))
	return p, nil
}

// GoOn goes on from what was followed before in the same table, where all keeps its number.
func (p *Progress) GoOn(before *Progress) {
	p.Executed = before.Executed
	copy(p.before, before.before)
	copy(p.most, before.most)
	copy(p.executed, before.executed)
}

// own notes the counters of a part.
func (p *Progress) own(one part) {
	add := func(counter uint32) {
		if counter < uint32(len(p.counts)) {
			p.owners = append(p.owners, uint64(counter)<<32|uint64(len(p.parts)))
		}
	}
	add(p.table.Functions[one.function].Counter)
	for i := range p.solver.Blocks[one.blocks:one.endBlocks] {
		add(p.solver.Blocks[one.blocks+i].Counter)
	}
	for i := range p.solver.Ways[one.ways:one.endWays] {
		add(p.solver.Ways[one.ways+i].Counter)
	}
	p.parts = append(p.parts, one)
}

// Grown reports whether the program has loaded objects since, whose blocks are not followed.
func (p *Progress) Grown() bool {
	now, err := p.table.U32(layout.HdrGeneration)
	return err == nil && now != p.table.Generation
}

// Next reads the counts, and calls ran with each block that has run more often than ever
// before. It is an error where the counts do not say.
func (p *Progress) Next(ran func(*Block)) error {
	if len(p.parts) == 0 {
		return nil
	}
	clear(p.counts)
	if err := p.table.addCounters(0, p.counts); err != nil {
		return err
	}
	var changed []uint32
	for _, o := range p.owners {
		if counter := o >> 32; p.counts[counter] != p.before[counter] {
			changed = append(changed, uint32(o))
		}
	}
	slices.Sort(changed)
	for _, i := range slices.Compact(changed) {
		if err := p.solve(i, ran); err != nil {
			return err
		}
	}
	copy(p.before, p.counts)
	return nil
}

// solve works out a part.
func (p *Progress) solve(i uint32, ran func(*Block)) error {
	one := p.parts[i]
	if counter := p.table.Functions[one.function].Counter; counter < uint32(len(p.counts)) {
		p.solver.calls[one.function] = p.counts[counter]
	}
	if p.graphs[i] == nil {
		p.solver.blocks, p.solver.ways = one.blocks, one.ways
		again, edges := p.solver.next()
		g, err := p.solver.graph(again, edges)
		if err != nil {
			return err
		}
		p.graphs[i] = g
	}
	p.solver.solve(one, p.graphs[i])
	executed := uint64(0)
	for k := one.blocks; k < one.endBlocks; k++ {
		b := &p.solver.Blocks[k]
		if b.Runs > p.most[k] {
			p.most[k] = b.Runs
			ran(b)
		}
		executed += b.Executed()
	}
	p.Executed += executed - p.executed[i]
	p.executed[i] = executed
	return nil
}
