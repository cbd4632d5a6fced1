package patcher

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/target"
)

// What later starts shall find (cached.go). Stubs, origins and changes are made once
// more, in memory of the planner's own, as if the object's were the first counters: with
// an agent the program runs by now, and may pause its own. What depends on the
// process is found by making the stubs twice, for other counters and other entries: who
// writes stubs need not know of it.

// ToCache yields the plans that may be kept, each with the identity of its object's file.
// It is for after Patch, whose results it leaves as they are.
func (p *Plan) ToCache() iter.Seq2[target.Identity, *plancache.Plan] {
	return func(yield func(target.Identity, *plancache.Plan) bool) {
		for _, o := range p.all {
			if !p.caches || !o.mayKeep() || o.has[o.slot] {
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
	if o.cached != nil || o.id == nil || o.err != nil || o.code == nil || o.reason != ledger.ReasonNone || o.taken || o.gs || o.oldBirths() || len(o.signals) > 0 {
		return false
	}
	known := !o.code.Go && len(o.code.Fixed) == 0 && (o.scan == nil || !o.scan.TextRel)
	return known && !o.hasWritten() && (o.arena == nil || len(o.arena.objects) == 1)
}

var errNotKept = errors.New("a word of a stub depends on what is not known")

func (p *Plan) cacheOf(o *object) (*plancache.Plan, error) {
	head, ok := o.head()
	if !ok {
		return nil, errNotKept
	}
	e := o.entry()
	c := &plancache.Plan{
		Key: p.keyOf(o, o.slot), Path: []byte(o.path), File: o.file(head), Hook: o.hook, Counters: o.numbered,
		Flags: e.Flags &^ layout.ObjMain, Code: e.Code, Untold: e.Untold, Reason: uint32(e.Reason), Creator: []byte(p.Creator),
	}
	c.BuildID, _ = hex.DecodeString(e.BuildID)
	c.Low, c.High = o.mapped()
	if o.arena != nil {
		if err := p.cacheArena(o, c); err != nil {
			return nil, err
		}
	}
	first := *o // with counters from 0 on
	first.counters, first.first = o.countersFrom(0), 0
	p.functions(&first, 0, func(f *layout.Function) bool { c.Add(f); return true })
	c.End()
	return c, nil
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

// entryOf is what stands for an entry of the process: no address, and another one there.
func entryOf(kind uint32, other bool) uint64 {
	if other {
		return 0x5a<<56 | uint64(kind)<<8 | 1
	}
	return 0x5a<<56 | uint64(kind)<<8
}

// cacheArena puts what the arena holds into c, and what leads there. An executable that
// is not position-independent lies where it lies.
func (p *Plan) cacheArena(o *object, c *plancache.Plan) error {
	a, err := p.again(o, false)
	if err != nil {
		return err
	}
	b, err := p.again(o, true)
	if err != nil {
		return err
	}
	c.Arena, c.ArenaSize, c.Cold, c.Keeps = a.at-o.bias, a.size, uint64(a.cold), uint64(a.keeps)
	c.Stubs = a.buf
	if !c.AddFixups(o.bias, &plancache.Elsewhere{Stubs: b.buf, Up: up, Entry: entryOf}) {
		return errNotKept
	}
	var all []byte
	at := a.appendOrigins(&all)
	part := func(from, size uint64) []byte { return all[from:][:size] }
	c.Records, c.Lengths, c.ByText = part(at.Records, at.Count*plancache.RecordEntrySize), part(at.Lengths, at.LengthsSize), part(at.ByText, 4*at.Count)
	c.Islands = part(at.Islands, at.IslandsCount*plancache.IslandEntrySize)
	for l := c.Islands; len(l) > 0; l = l[8:] {
		binary.LittleEndian.PutUint64(l, binary.LittleEndian.Uint64(l)-o.bias)
	}
	a.objects[0].cacheChanges(c)
	return nil
}

// again is the arena of o in memory of its own, with counters from 0 on; or, for other,
// from 1 on, with other entries, and further up.
func (p *Plan) again(o *object, other bool) (*arena, error) {
	a, c, q, r, code := *o.arena, *o, *p, *p.Request, *o.code
	if other {
		c.first = 1
		if !code.Absolute {
			a.at, code.Bias = a.at+up, code.Bias+up
		}
	} else {
		c.first = 0
	}
	c.counters = o.countersFrom(c.first)
	c.plans, c.stubs, c.code, c.groups, c.arena = slices.Clone(o.plans), slices.Clone(o.stubs), &code, 0, &a
	for i := range c.plans {
		if c.plans[i].Counted() {
			c.stubs[i].At = c.stubs[i].At.Add(-int(o.arena.at)) // from the arena's start
		}
	}
	entry := func(kind uint32) uint64 { return entryOf(kind, other) }
	r.Entries = Entries{Cold: entry(plancache.FixSlow), Keep: entry(plancache.FixKeeper), Site: entry(plancache.FixSite), Changed: entry(plancache.FixChanged)}
	q.Request = &r
	a.objects, a.buf, a.code = []*object{&c}, make([]byte, a.size), nil
	return &a, a.fill(&q)
}

// cacheChanges puts the texts and their changes into c.
func (o *object) cacheChanges(c *plancache.Plan) {
	all := o.appendPatches(make([]patch.Patch, 0, o.patchesAtMost()))
	patch.Sort(all)
	room := make([]patch.Call, 0, o.callsAtMost())
	for _, m := range o.exec {
		n, _ := slices.BinarySearchFunc(all, m.End, func(p patch.Patch, end uint64) int {
			if uint64(p.At) < end {
				return -1
			}
			return 1
		})
		if n == 0 {
			continue
		}
		t := patchedText{object: o, patches: all[:n]}
		var changes patch.Undos
		changes.Note(x86.RunAddr(m.Start), t.patches, t.leadCalls(room, &text{Mapping: m}))
		c.Texts = append(c.Texts, plancache.Text{
			Start: m.Start - o.bias, Size: m.End - m.Start, Offset: m.Offset, Prot: uint32(m.Prot),
			Listed: uint32(len(changes.List)), Patches: uint32(len(changes.Overwritten)), Leds: uint32(len(changes.Leds)),
		})
		c.Listed, c.Patches, c.Leds = append(c.Listed, mem.Bytes(changes.List)...), append(c.Patches, mem.Bytes(changes.Overwritten)...), append(c.Leds, mem.Bytes(changes.Leds)...)
		all = all[n:]
	}
}
