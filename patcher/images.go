package patcher

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/target"
)

// What later starts shall find (cached.go). Origins and changes are in the reserve; stubs
// are copied before the target goes on: it may pause its own. What in them depends on
// the process is found by making them once more, for other counters, other entries and
// another place: who writes stubs need not know of it.

// keepStubs copies those that may be kept, but for what is too large already without the rest.
func (p *Plan) keepStubs() {
	for _, o := range p.all {
		if !p.caches || o.cached != nil || o.arena == nil || len(o.arena.objects) != 1 {
			continue
		}
		if most := p.MostKept; most > 0 && len(o.arena.buf) > most {
			p.tooLarge = append(p.tooLarge, o.path)
			continue
		}
		o.arena.image = slices.Clone(o.arena.buf)
	}
}

// TooLarge are the paths of objects of which no plan is made that is kept, as it would have more
// bytes than Request.MostKept.
func (p *Plan) TooLarge() []string { return p.tooLarge }

// ToCache yields the plans that may be kept, each with the identity of its object's file.
// It is for after Patch, whose results it leaves as they are.
func (p *Plan) ToCache() iter.Seq2[target.Identity, *plancache.Plan] {
	return func(yield func(target.Identity, *plancache.Plan) bool) {
		for _, o := range p.all {
			if !p.caches || !o.mayKeep() || o.has[o.slot] || o.main && p.heapEnd != 0 { // where the heap was is another place each time
				continue
			}
			if c, err := p.cacheOf(o); err == nil && !yield(*o.id, c) {
				return
			}
		}
	}
}

// mayKeep reports whether the plan of o would be the same in all processes. A Go
// program's depends on libc's sites (KnownFaults).
func (o *object) mayKeep() bool {
	if o.cached != nil || o.id == nil || o.err != nil || o.code == nil || o.reason != ledger.ReasonNone || o.taken || o.byCall || o.gs || o.oldBirths() || len(o.signals) > 0 {
		return false
	}
	known := !o.code.Go && len(o.code.Fixed) == len(o.transfers) && // nothing else stays by what others have done
		(o.scan == nil || !o.scan.TextRel)
	return known && !o.hasWritten() && (o.arena == nil || o.arena.image != nil)
}

var errNotKept = errors.New("a word of a stub depends on what is not known")

func (p *Plan) cacheOf(o *object) (*plancache.Plan, error) {
	head, ok := o.head()
	if !ok {
		return nil, errNotKept
	}
	if err := o.sum(); err != nil {
		return nil, err
	}
	e := o.entry()
	c := &plancache.Plan{
		Key: p.keyOf(o, o.slot), Path: []byte(o.path), File: o.file(head), Hook: o.hook, Counters: o.numbered,
		Flags: e.Flags &^ layout.ObjMain, Code: e.Code, Untold: e.Untold, Reason: uint32(e.Reason), Creator: []byte(p.Creator),
		BlockCounters: o.countersOfBlocks(), Sets: o.setsOfSlots(),
	}
	c.BuildID, _ = hex.DecodeString(e.BuildID)
	c.Low, c.High = o.mapped()
	if o.arena != nil {
		if err := p.cacheArena(o, c); err != nil {
			return nil, err
		}
	}
	const name = 32 // bytes, mostly
	c.Functions, c.Strings = make([]byte, 0, len(o.plans)*layout.FnEntrySize), make([]byte, 0, len(o.plans)*name)
	first := *o // with counters from 0 on
	first.counters, first.first = o.countersFrom(0), 0
	p.functions(&first, 0, func(f *layout.Function) bool { c.Add(f); return true })
	c.End()
	o.cacheBlocks(c)
	o.cacheSites(c)
	return c, nil
}

// cacheBlocks puts blocks, ways and loops into c, with numbers from 0 on.
func (o *object) cacheBlocks(c *plancache.Plan) {
	if o.copies != nil {
		blocks, ways, loops := 0, 0, 0
		for i := range o.copies.units {
			u := &o.copies.units[i]
			blocks, ways, loops = blocks+len(u.blocks), ways+len(u.ways), loops+len(u.loops)
		}
		c.Grow(blocks, ways, loops)
	}
	o.blocked(&firsts{}, func(f blocked) bool {
		for b := range f.blocks {
			f.shiftBlock(&b)
			c.AddBlock(&b)
		}
		for w := range f.ways {
			f.shiftWay(&w)
			c.AddWay(&w)
		}
		for l := range f.loops {
			f.shiftLoop(&l)
			c.AddLoop(&l)
		}
		return true
	})
}

// countersFrom are the counters of o as if the first were another.
func (o *object) countersFrom(first uint32) []uint32 {
	all := slices.Clone(o.counters)
	for i := range all {
		if o.plans[i].Counted() {
			all[i] += first - o.first
		}
	}
	return all
}

// up is how much further up an object lies when its stubs are made a second time.
const up = 0x123000

// entry is an entry of the process.
func (e *Entries) of(kind uint32) uint64 {
	switch kind {
	case plancache.FixSlow:
		return e.Cold
	case plancache.FixKeeper:
		return e.Keep
	case plancache.FixSite:
		return e.Site
	case plancache.FixRecord:
		return e.Record
	case plancache.FixTransfer:
		return e.Transfer
	}
	return e.Changed
}

// cacheArena puts what the arena holds into c, and what leads there. An executable that
// is not position-independent lies where it lies.
func (p *Plan) cacheArena(o *object, c *plancache.Plan) error {
	a := o.arena
	other, err := p.elsewhere(o)
	if err != nil {
		return err
	}
	c.Arena, c.ArenaSize, c.Cold, c.Keeps = a.at-o.bias, a.size, uint64(a.cold), uint64(a.keeps)
	c.Stubs = a.image
	if !c.AddFixups(o.bias, &plancache.Elsewhere{Stubs: other.buf, Up: up, First: o.first, FirstOfBlocks: o.firstOfBlocks, Codes: o.codes.First, Entry: p.Entries.of}) {
		return errNotKept
	}
	part := func(at, size uint64) []byte { return p.bytesOf(p.originPages, at)[:size] }
	c.Records, c.Lengths, c.ByText = part(a.origins.Records, a.origins.Count*plancache.RecordEntrySize), part(a.origins.Lengths, a.origins.LengthsSize), part(a.origins.ByText, 4*a.origins.Count)
	c.Islands = slices.Clone(part(a.origins.Islands, a.origins.IslandsCount*plancache.IslandEntrySize))
	for l := c.Islands; len(l) > 0; l = l[8:] {
		binary.LittleEndian.PutUint64(l, binary.LittleEndian.Uint64(l)-o.bias)
	}
	p.cacheChanges(o, c)
	return nil
}

// bytesOf is what stands in data pages from a run address on.
func (p *Plan) bytesOf(pages *arena, at uint64) []byte {
	return p.reserve[pages.offset:][:pages.size][at-pages.at:]
}

// elsewhere is the arena of o in memory of its own, as plancache.Elsewhere says.
func (p *Plan) elsewhere(o *object) (*arena, error) {
	a, c, q, r, code := *o.arena, *o, *p, *p.Request, *o.code
	c.first++
	c.firstOfBlocks += plancache.ElsewhereBlocks
	c.codes.First += plancache.ElsewhereCodes
	further := uint64(up)
	if code.Absolute {
		further = 0
	}
	a.at, code.Bias = a.at+further, code.Bias+further
	c.copies = o.copies.again(a.image, further)
	c.counters = o.countersFrom(c.first)
	c.plans, c.stubs, c.code, c.groups, c.arena = slices.Clone(o.plans), slices.Clone(o.stubs), &code, 0, &a
	for i := range c.plans {
		if c.plans[i].Counted() {
			c.stubs[i].At = c.stubs[i].At.Add(-int(o.arena.at)) // from the arena's start
		}
	}
	e := &p.Entries
	r.Entries = Entries{Cold: ^e.Cold, Keep: ^e.Keep, Site: ^e.Site, Changed: ^e.Changed, Record: ^e.Record, Transfer: ^e.Transfer}
	q.Request = &r
	a.objects, a.buf, a.code = []*object{&c}, make([]byte, a.size), nil
	return &a, a.fill(&q)
}

// cacheChanges puts the texts and their changes into c, as they are in the undos.
func (p *Plan) cacheChanges(o *object, c *plancache.Plan) {
	if p.undone == 0 {
		return
	}
	texts := mem.Values[patch.UndoText](p.undos.buf)[:p.undone]
	for _, m := range o.exec {
		i, found := slices.BinarySearchFunc(texts, m.Start, func(t patch.UndoText, start uint64) int { return cmp.Compare(t.Start, start) })
		if !found {
			continue
		}
		t := &texts[i]
		in := patch.Undos{List: mem.Values[patch.Listed](p.bytesOf(p.undos.pages, t.List))[:t.Count]}
		patches, leds := in.Counts()
		in.Overwritten = mem.Values[patch.Overwritten](p.bytesOf(p.undos.pages, t.Overwritten))[:patches]
		in.Leds = mem.Values[patch.Led](p.bytesOf(p.undos.pages, t.Leds))[:leds]
		changes := patch.Undos{List: make([]patch.Listed, 0, t.Count), Overwritten: make([]patch.Overwritten, 0, patches), Leds: make([]patch.Led, 0, leds)}
		(-o.groups).Add(&changes, &in)
		c.Texts = append(c.Texts, plancache.Text{
			Start: m.Start - o.bias, Size: m.End - m.Start, Offset: m.Offset, Prot: uint32(m.Prot),
			Listed: t.Count, Patches: uint32(patches), Leds: uint32(leds),
		})
		c.Listed, c.Patches, c.Leds = append(c.Listed, mem.Bytes(changes.List)...), append(c.Patches, mem.Bytes(changes.Overwritten)...), append(c.Leds, mem.Bytes(changes.Leds)...)
	}
}
