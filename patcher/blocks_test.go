package patcher

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/patch"
)

// TestBlocks: functions run as copies, each block has a counter of its own, behind those of
// functions, and all that was a copied body belongs to one of its patches.
func TestBlocks(t *testing.T) {
	for name, how := range map[string]struct{ shared, trips bool }{"rows": {}, "shared": {shared: true}, "trips": {trips: true}, "no trips": {shared: true, trips: true}} {
		r := open(t)
		q := r.request("program", "libc.so.6", "ld-linux-x86-64.so.2")
		q.Options.On[setting.Blocks], q.Options.On[setting.Trips], q.Shared = true, how.trips, how.shared
		p := must(New(q, r))
		p.Patch()
		check(t, name, r, p)
		spec := p.Ledger()
		functions := allOf(p).functions
		used := map[uint32]bool{}
		most := uint32(0)
		for _, f := range functions {
			if f.Counted() {
				used[f.Counter], most = true, max(most, f.Counter)
			}
		}
		if first := spec.Blocks.Counters.First; first != most+1 {
			t.Errorf("%s: blocks have counters from %d on, functions up to %d", name, first, most)
		}
		blocks := slices.Collect(func(yield func(layout.Block) bool) {
			spec.Blocks.Each(func(b *layout.Block) bool { return yield(*b) })
		})
		for i, b := range blocks {
			if b.Function >= uint32(len(functions)) || !functions[b.Function].Counted() || b.Instructions == 0 || b.Size == 0 || b.After != layout.NoBlock && b.After >= uint32(i) {
				t.Errorf("%s: block %d: %+v", name, i, b)
			}
		}
		called, copied := len(used), map[uint32]bool{}
		count := func(what any, function, counter uint32) {
			copied[function] = true
			if counter == layout.NoCounter {
				return
			}
			if used[counter] || counter-spec.Blocks.Counters.First >= spec.Blocks.Counters.Count {
				t.Errorf("%s: %+v of function %d has counter %d", name, what, function, counter)
			}
			used[counter] = true
		}
		for w := range spec.Blocks.Ways {
			end := w.From
			if end == layout.NoBlock {
				end = w.To
			}
			count(w, blocks[end].Function, w.Counter)
		}
		for _, b := range blocks {
			if b.Counter != layout.NoCounter && !copied[b.Function] {
				t.Errorf("%s: %+v has a counter, and no ways", name, b)
			}
			count(b, b.Function, b.Counter)
		}
		if how.trips = how.trips && !how.shared; how.trips != (spec.Flags&layout.FlagTrips != 0) {
			t.Errorf("%s: flags %#x", name, spec.Flags)
		}
		counted, others := 0, 0
		for l := range spec.Blocks.Loops {
			if l.Trips != 0 {
				counted++
			} else if others++; how.trips && l.Flags&(layout.LoopUntold|layout.LoopFlagsLive) == 0 {
				t.Errorf("%s: no reason why trips of %+v are not counted", name, l)
			}
			for k := uint32(0); l.Trips != 0 && k < layout.TrWords; k++ {
				count(l, blocks[l.Header].Function, l.Trips+k)
			}
			if l.Header >= uint32(len(blocks)) || blocks[l.Header].Loop == layout.NoLoop {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if len(used) != called+int(spec.Blocks.Counters.Count) {
			t.Errorf("%s: %d counters, of %d functions and %d of blocks", name, len(used), called, spec.Blocks.Counters.Count)
		}
		if how.trips != (counted > 0) {
			t.Errorf("%s: trips of %d loops are counted, of %d not", name, counted, others)
		}
		has := map[uint32]bool{}
		for _, b := range blocks {
			has[b.Function] = true
		}
		for i, f := range functions {
			if told := f.Blocks != ledger.ReasonNone; told != (f.Counted() && !has[uint32(i)]) {
				t.Errorf("%s: function %d at %#x, %s: %v whose blocks are not counted: %s", name, i, f.Address, f.Tactic, !has[uint32(i)], f.Blocks)
			}
		}
		if len(copied) < len(functions)/4 {
			t.Errorf("%s: %d of %d functions run as copies", name, len(copied), len(functions))
		}
		checkSpans(t, name, p)
	}
}

// checkSpans: the patches of a function that runs as a copy have all that it was among them.
func checkSpans(t *testing.T, name string, p *Plan) {
	t.Helper()
	for _, o := range p.all {
		if o.copies == nil {
			continue
		}
		list := o.appendPatches(nil)
		patch.Sort(list)
		for i := range o.copies.units {
			u := &o.copies.units[i]
			if !u.copy || !o.plans[i].Counted() {
				continue
			}
			for _, r := range o.copies.program.Units()[u.unit-1].Ranges {
				at := r.Low
				if start := o.plans[i].Start; start-r.Low < r.High-r.Low {
					at = start
				}
				for _, q := range list {
					if q.Group == uint32(o.groups)+uint32(i) && uint64(q.At)-o.bias == at {
						at += q.Moved.Bytes()
					}
				}
				if at < r.High {
					t.Errorf("%s: function %d: what is at %#x belongs to none of its patches", name, i, at)
				}
			}
		}
	}
}

// TestBlocksNoRoom: where the reserve is too small for copies functions are counted by call.
func TestBlocksNoRoom(t *testing.T) {
	plan := func(blocks bool, room uint64) (counted int, p *Plan) {
		r := open(t)
		q := r.request("program")
		q.Options.On[setting.Blocks] = blocks
		if room > 0 {
			q.ReserveSize = room
		}
		p = must(New(q, r))
		p.Patch()
		check(t, "no room", r, p)
		for f := range p.Ledger().Stream {
			if f.Counted() {
				counted++
			}
		}
		return counted, p
	}
	want, _ := plan(false, 0)
	_, all := plan(true, 0)
	most := all.blockCounters().Count
	for room := all.used + 16*pageSize; ; room -= pageSize { // from some size on there are fewer copies, and not fewer counts
		got, p := plan(true, room)
		if got < want || most == 0 {
			t.Fatalf("%d functions are counted, not %d, of %d blocks", got, want, most)
		}
		if p.blockCounters().Count < most {
			return
		}
	}
}
