package patcher

import (
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestSites: each direct call of a counted function is listed once, and has a counter of its
// own, behind those of functions, where it is led to a stub of its own, which goes on at the
// callee's stub, or where it runs in its caller's stub: then it goes on at the callee's entry.
// Others have none.
func TestSites(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"rows":      func(*Request) {},
		"shared":    func(q *Request) { q.Shared = true },
		"threshold": func(q *Request) { q.Options.Threshold = must(symname.ParseThresholds("1000")) },
		"kept":      func(q *Request) { q.Keep = true },
	} {
		r := open(t)
		q := r.everything()
		q.Options.On[setting.Edges] = true
		change(q)
		p := must(New(q, r))
		all := allOf(p)
		check(t, name, r, p)
		led := map[uint64]uint64{} // where calls are led
		for _, c := range changesOf(t, name, p) {
			if c.call {
				led[c.at-1] = jumpTarget(t, append([]byte{0xe9}, c.new...), c.at-1)
			}
		}
		used, most := map[uint32]bool{}, uint32(0)
		for _, f := range all.functions {
			if f.Counted() {
				used[f.Counter], most = true, max(most, f.Counter)
			}
		}
		if all.counters.First != most+1 || all.blocks != nil {
			t.Errorf("%s: sites have counters from %d on, functions up to %d", name, all.counters.First, most)
		}
		counted, moved, seen := 0, 0, map[[2]uint64]bool{}
		for _, s := range all.sites {
			caller, callee := &all.functions[s.Caller], &all.functions[s.Callee]
			o := &all.objects[caller.Object]
			if caller.Object != callee.Object || !callee.Counted() || seen[[2]uint64{uint64(caller.Object), s.Address}] {
				t.Errorf("%s: %+v of %s to %s", name, s, caller.Name, callee.Name)
			}
			seen[[2]uint64{uint64(caller.Object), s.Address}] = true
			to, isLed := led[o.Bias+s.Address]
			if s.Counter == layout.NoCounter {
				if isLed {
					t.Errorf("%s: %+v is led", name, s)
				}
				continue
			}
			counted++
			goesOn := o.Arena + uint64(callee.Stub)
			if !isLed {
				moved++
				to, goesOn = o.Arena+uint64(s.Stub), o.Bias+callee.Address
			}
			a := &all.arenas[slices.IndexFunc(all.arenas, func(a Arena) bool { return a.At == o.Arena })]
			at := uint64(s.Stub + s.Count)
			if got := jumpTarget(t, all.stubs[a.Offset+at:][:5], a.At+at); got != goesOn {
				t.Errorf("%s: %+v goes on at %#x, not %#x", name, s, got, goesOn)
			}
			if to != o.Arena+uint64(s.Stub) || to%16 != 0 || used[s.Counter] || s.Counter-all.counters.First >= all.counters.Count || s.Count == 0 {
				t.Errorf("%s: %+v is led to %#x", name, s, to)
			}
			used[s.Counter] = true
		}
		if counted-moved != len(led) || moved < 10 || counted < 100 || counted < len(all.sites)/2 {
			t.Errorf("%s: %d of %d sites are counted, %d calls are led", name, counted, len(all.sites), len(led))
		}
		stubs := slices.Collect(p.SiteStubs())
		if i := slices.IndexFunc(stubs, func(s Stub) bool { return s.Name == "" || s.Len < 9 || uint64(s.At)%16 != 0 }); i >= 0 || len(stubs) != counted {
			t.Errorf("%s: %d stubs of %d sites, %d: %+v", name, len(stubs), counted, i, stubs[max(i, 0)])
		}
		t.Logf("%s: %d of %d sites, %d in stubs", name, counted, len(all.sites), moved)
	}
}

// TestSitesNone: what leads no calls has no sites; nor have those that blocks tell of.
func TestSitesNone(t *testing.T) {
	for name, change := range map[string]func(*recordedTarget, *Request){
		"kept calls": func(_ *recordedTarget, q *Request) { q.Options.On[setting.KeepCalls] = true },
		"translator": func(_ *recordedTarget, q *Request) { q.Translator = true },
		"debugged":   func(r *recordedTarget, _ *Request) { r.debugged = true },
		"blocks":     func(_ *recordedTarget, q *Request) { q.Options.On[setting.Blocks] = true },
		"not asked":  func(_ *recordedTarget, q *Request) { q.Options.On[setting.Edges] = false },
	} {
		r := open(t)
		q := r.everything()
		q.Options.On[setting.Edges] = true
		change(r, q)
		p := must(New(q, r))
		if all := allOf(p); len(all.sites) > 0 {
			t.Errorf("%s: %d sites", name, len(all.sites))
		}
		check(t, name, r, p)
	}
}

// TestSitesNoRoom: where the reserve is too small for sites functions are counted all the same.
func TestSitesNoRoom(t *testing.T) {
	plan := func(sites bool, room uint64) (counted, bySite int, p *Plan) {
		r := open(t)
		q := r.request("program", "libc.so.6", "ld-linux-x86-64.so.2")
		q.Options.Objects = must(symname.ParseObjects("all"))
		q.Options.On[setting.Edges] = sites
		if room > 0 {
			q.ReserveSize = room
		}
		p = must(New(q, r))
		all := allOf(p)
		check(t, "no room", r, p)
		for _, f := range all.functions {
			if f.Counted() {
				counted++
			}
		}
		for _, s := range all.sites {
			if s.Counter != layout.NoCounter {
				bySite++
			}
		}
		return counted, bySite, p
	}
	want, _, _ := plan(false, 0)
	_, most, all := plan(true, 0)
	for room := all.used + 16*pageSize; ; room -= pageSize { // from some size on there are fewer sites, and not fewer counts
		counted, bySite, _ := plan(true, room)
		if counted < want || most == 0 {
			t.Fatalf("%d functions are counted, not %d, and %d sites", counted, want, bySite)
		}
		if bySite < most {
			return
		}
	}
}
