package test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// What is counted of trips, as docs/blocks.md has it, by the arrivals at a program's
// instructions.

// frame is a call of a function, as far as the oracle follows it.
type frame struct {
	sp   uint64 // where its return address is
	last uint32 // the block that it was in last
}

// execution is that of a loop which is counted.
type execution struct {
	sp, trips uint64
	lost      bool // another was entered meanwhile: it is not counted any more
}

// follower follows a program through its blocks.
type follower struct {
	blocks []table.Block
	loops  []table.Loop
	in     []map[uint32]bool // by loop: its blocks
	heads  map[uint32]int    // by block: the loop that it is the header of
	frames []frame
	runs   []map[uint64]*execution // by loop and stack pointer
	said   []table.Histogram       // by loop
}

const noBlock = ^uint32(0)

func newFollower(flow *table.Flow) *follower {
	f := &follower{blocks: flow.Blocks, loops: flow.Loops, heads: map[uint32]int{}, said: make([]table.Histogram, len(flow.Loops))}
	f.frames = []frame{{^uint64(0), noBlock}}
	for i := range flow.Loops {
		f.in, f.runs = append(f.in, map[uint32]bool{}), append(f.runs, map[uint64]*execution{})
		f.heads[flow.Loops[i].Header] = i
	}
	for k := range flow.Blocks {
		for l := flow.Blocks[k].Loop; l != layout.NoLoop; l = flow.Loops[l].Parent {
			f.in[l][uint32(k)] = true
		}
	}
	return f
}

// arrive notes that a block begins. Called says that the instruction before was a call.
func (f *follower) arrive(block uint32, sp uint64, called bool) {
	if called {
		f.frames = append(f.frames, frame{sp, noBlock})
	}
	for f.frames[len(f.frames)-1].sp < sp {
		f.frames = f.frames[:len(f.frames)-1]
	}
	top := &f.frames[len(f.frames)-1]
	last := top.last
	top.last = block
	function := f.blocks[block].Function
	if last != noBlock && f.blocks[last].Function == function {
		for l := f.blocks[last].Loop; l != layout.NoLoop; l = f.loops[l].Parent {
			if !f.in[l][block] {
				f.end(int(l), sp)
			}
		}
	}
	l, head := f.heads[block]
	if !head {
		return
	}
	if last != noBlock && f.blocks[last].Function == function && f.in[l][last] && !(called && last == block) {
		if e := f.runs[l][sp]; e != nil {
			e.trips++
		}
		return
	}
	for _, e := range f.runs[l] {
		e.lost = true
	}
	f.runs[l][sp] = &execution{sp: sp, trips: 1}
}

// end notes that a loop is left.
func (f *follower) end(l int, sp uint64) {
	e := f.runs[l][sp]
	delete(f.runs[l], sp)
	if e == nil || e.lost {
		return
	}
	h := &f.said[l]
	h.Executions++
	h.Buckets[table.BucketOf(e.trips)]++
	h.Most = max(h.Most, e.trips)
	if h.Least == 0 || e.trips < h.Least {
		h.Least = e.trips
	}
}

// agreeTrips fails unless the executions of all loops that have ended had the trips that the
// oracle says. It returns how many loops those are.
func (p *random) agreeTrips(t *testing.T, path string, came []arrival, symbols *symbolTable) (compared uint64) {
	t.Helper()
	tab, flow := flowOf(t, path)
	var mine []uint32 // blocks of the program, by address
	for k := range flow.Blocks {
		if f := &tab.Functions[flow.Blocks[k].Function]; tab.Objects[f.Object].Path == p.program {
			mine = append(mine, uint32(k))
		}
	}
	slices.SortFunc(mine, func(a, b uint32) int { return cmp.Compare(flow.Blocks[a].Address, flow.Blocks[b].Address) })
	f := newFollower(flow)
	last := arrival{}
	for _, a := range came {
		k, is := slices.BinarySearchFunc(mine, a.pc, func(k uint32, pc uint64) int { return cmp.Compare(flow.Blocks[k].Address, pc) })
		if is && a.pc != last.pc { // else an instruction that goes on by itself
			f.arrive(mine[k], a.sp, symbols.isCall(last.pc) && a.pc != last.pc+p.length(symbols, last.pc))
		}
		last = a
	}
	for i := range flow.Loops {
		l := &flow.Loops[i]
		fn := &tab.Functions[l.Function]
		if l.Histogram == nil || tab.Objects[fn.Object].Path != p.program || slices.Contains(randomCRT, fn.Name) && fn.Name != "main" {
			continue
		}
		if got, want := *l.Histogram, f.said[i]; got != want {
			t.Errorf("%s: the loop at %#x: %+v, the oracle says %+v; entered %d times", fn.Name, flow.Blocks[l.Header].Address, got, want, l.Entries)
		}
		if l.Iterations > 0 {
			compared++
		}
	}
	return compared
}

// length is that of an instruction of the program.
func (p *random) length(symbols *symbolTable, pc uint64) uint64 {
	var in x86.Inst
	if at := pc - symbols.text.Addr; at >= uint64(len(symbols.code)) || x86.Decode(symbols.code[at:], &in) != nil {
		return 0
	}
	return uint64(in.Len)
}
