package patcher

import (
	"bytes"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen/entry"
)

// Objects that are loaded later (libdynprof/resident/plans/late.c).

// locate finds the address range of each object: the run of mappings of one
// file around its dynamic section, which the shim tells in its place.
func locate(listed []target.Loaded, maps []procmaps.Mapping) []target.Loaded {
	all := slices.Clone(listed)
	for i := range all {
		o := &all[i]
		at := o.Span.Low
		for k := range maps {
			if at < maps[k].Start || at >= maps[k].End || maps[k].Inode == 0 {
				continue
			}
			first, last := k, k
			for first > 0 && sameFile(&maps[first-1], &maps[k]) && maps[first-1].End == maps[first].Start {
				first--
			}
			for last+1 < len(maps) && sameFile(&maps[last+1], &maps[k]) && maps[last].End == maps[last+1].Start {
				last++
			}
			o.Span = place.Span{Low: maps[first].Start, High: maps[last].End}
		}
	}
	return all
}

func sameFile(a, b *procmaps.Mapping) bool { return a.Inode == b.Inode && a.Path == b.Path }

// base is where the numbers of functions, counters, blocks, loops and instructions start: behind those
// of the table that is there.
type base struct {
	counters  uint32
	blocks    uint32
	loops     uint32
	functions int
	objects   int
	codes     uint32          // numbers of instructions that are given away
	table     *build.Appender // nil at the start
}

func (p *Plan) openBase() error {
	p.base = &base{}
	if !p.Late {
		return nil
	}
	t, err := p.Table()
	if err == nil {
		p.base = &base{t.Counters, t.Blocks.Count, t.Loops.Count, int(t.Functions.Count), int(t.Objects.Count), 0, t}
		if p.how.tells {
			p.base.codes, err = t.Codes()
		}
	}
	return err
}

// fit leaves those of the objects that the table has room for: one that is too large
// takes no other with it. Where there is none for its blocks, or call sites, an object is counted by call.
// Of the rest only the kernel sites are patched.
func (p *Plan) fit() {
	if p.base.table == nil {
		p.fitting = p.all
		return
	}
	room := p.base.table.Left()
	for i, o := range p.all {
		if !p.takeRoom(&room, o) {
			if o.cached != nil {
				o.cached = nil
				p.planObject(o)
			}
			p.Miss(i, p.left(o))
			o.plans, o.survey, o.bySite = nil, nil, false
			continue
		}
		p.fitting = append(p.fitting, o)
		if o.selected && o.reason != ledger.ReasonNone {
			p.Miss(i, o.reason) // the table has it, and nothing of it is counted
		}
	}
}

// takeRoom takes room of the table for an object, at least for its calls. It reports false,
// and takes nothing, if there is none.
func (p *Plan) takeRoom(room *build.Room, o *object) bool {
	entry, blocks := o.entry(), o.roomOfBlocks()
	if room.Take(&entry, o.measured, blocks) {
		return true
	}
	if blocks == (build.Room{}) {
		return false
	}
	p.countByCall(o)
	return room.Take(&entry, o.measured, build.Room{})
}

// left is why an object that the table has no room for is not counted.
func (p *Plan) left(o *object) ledger.Reason {
	switch {
	case p.how.shared || !o.gs:
		return ledger.ReasonNoMemory
	case o.unseen():
		return ledger.ReasonUnseen
	}
	return ledger.ReasonUsesGS
}

// measured yields the functions as far as they take room.
func (o *object) measured(yield func(*layout.Function) bool) {
	if o.cached != nil {
		o.cachedFunctions(0, yield)
		return
	}
	var t layout.Function // one for all
	for i := range o.plans {
		f := &o.code.Functions[i]
		t.Name, t.Aliases, t.Counter = f.Name, f.Aliases, layout.NoCounter
		if o.plans[i].Counted() {
			t.Counter = 0
		}
		if !yield(&t) {
			return
		}
	}
}

var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// findHook looks at the dynamic linker's function at run address brk, if it is
// this object's: a bare ret, which a jump can replace if padding follows it.
func (o *object) findHook(brk uint64) {
	at := brk - o.bias
	if brk == 0 || brk < o.span.Low || brk >= o.span.High || o.code == nil {
		return
	}
	code := o.code.Code(at)
	const window, opRet = 5, 0xc3
	if bytes.HasPrefix(code, endbr64) { // built with -fcf-protection
		at, code = at+uint64(len(endbr64)), code[len(endbr64):]
	}
	if len(code) < 16 || code[0] != opRet {
		return
	}
	var in x86.Inst
	for n := 1; n < window; n += int(in.Len) {
		if x86.Decode(code[n:], &in) != nil || in.Kind != x86.Nop {
			return
		}
	}
	o.hook = at
}

// dropHook leaves the function that the hook replaces out of the ledger's
// counted ones: it is ours now.
func (o *object) dropHook() {
	if o.hook == 0 {
		return
	}
	for i := range o.plans {
		if p := &o.plans[i]; p.Counted() && p.Start == o.hook {
			o.plans[i] = entry.Refuse(i, ledger.ReasonTrampoline)
		}
	}
}
