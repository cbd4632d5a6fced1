package patcher

import (
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/x86"
)

// Arena is pages of the reserve that shall run at another address, and what lies in
// them (struct dp_arena of libdynprof/resident/base/ctl.h). Addresses are run addresses.
type Arena struct {
	At, Offset, Size     uint64
	Pointers             uint64 // bytes behind it that are each process's own
	Cold, Keeps          uint64 // offsets of its cold and keep blocks
	Origins              Origins
	Traps                uint64
	TrapsCount           int
	View                 uint64 // where it finds the counters of the shared row, if Size is not 0:
	ViewOffset, ViewSize uint64 // pages of the row
}

// Origins is where the target finds what an arena's code stands for: addresses, and
// the numbers of records and islands.
type Origins struct{ Records, Lengths, LengthsSize, ByText, Count, Islands, IslandsCount uint64 }

// Text is a run of pages with entries to patch.
type Text struct {
	Start, End uint64
	Arena      int // number of the one that the patches lead to
}

// Arenas are all arenas, those of data last.
func (p *Plan) Arenas() []Arena {
	all := make([]Arena, 0, len(p.arenas))
	for _, a := range p.arenas {
		all = append(all, Arena{
			At: a.at, Offset: a.offset, Size: a.size, Pointers: a.private, Cold: uint64(a.cold), Keeps: uint64(a.keeps), Origins: a.origins,
			Traps: a.at + uint64(a.traps), TrapsCount: a.trapsCount, View: a.view.at, ViewOffset: a.view.offset, ViewSize: a.view.size,
		})
	}
	return all
}

// Texts are the runs of pages to change, after Patch.
func (p *Plan) Texts() []Text {
	all := make([]Text, 0, len(p.texts))
	for i := range p.texts {
		t := &p.texts[i]
		all = append(all, Text{t.Start, t.End, slices.Index(p.arenas, t.arena)})
	}
	return all
}

// Undos is the run address of the list of texts with their changes, and its length,
// after Patch; 0 if there are none.
func (p *Plan) Undos() (at, count uint64) { return p.undosAt, p.undone }

// ChangedPages are the pages of 4,096 bytes on which changes begin or end, in the order of their
// addresses, after Patch: of a plan that was made now, from no cache.
func (p *Plan) ChangedPages() (all []uint64) {
	const page = 4096
	add := func(at uint64, size int) {
		all = append(all, at&^(page-1), (at+uint64(size)-1)&^(page-1))
	}
	for i := range p.changes {
		for j := range p.changes[i].patches {
			add(uint64(p.changes[i].patches[j].At), int(p.changes[i].patches[j].Len))
		}
		for _, c := range p.changes[i].calls {
			add(p.texts[i].Start+uint64(c.At), 4)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// HeapEnd is where brk(2) has to be before the arenas are mapped, 0 if the heap stays.
func (p *Plan) HeapEnd() uint64 { return p.heapEnd }

// NeedsTraps reports whether SIGTRAP has to be handled.
func (p *Plan) NeedsTraps() bool { return p.how.traps }

// Program is the path of the first object.
func (p *Plan) Program() string { return p.all[0].path }

// IsGo reports whether that holds a Go runtime.
func (p *Plan) IsGo() bool { return p.all[0].code != nil && p.all[0].code.Go }

// Stub is the code of one counted function: its run address, its bytes, and the
// function's name as shown.
type Stub struct {
	At   x86.RunAddr
	Len  uint32
	Name string
}

// Stubs yields those of all functions that are counted.
func (p *Plan) Stubs() iter.Seq[Stub] {
	return func(yield func(Stub) bool) {
		for _, o := range p.all {
			if o.cached != nil && !o.cachedStubs(yield) {
				return
			}
			for i := range o.plans {
				if o.plans[i].Counted() {
					f := &o.code.Functions[i]
					if !yield(Stub{o.stubs[i].At, o.stubs[i].Len, symname.Display(f.Name, o.path, f.Addr, true)}) {
						return
					}
				}
			}
		}
	}
}

// text is a run of pages with entries to patch, and the arena that the patches lead to.
type text struct {
	procmaps.Mapping
	arena *arena
}
