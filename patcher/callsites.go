package patcher

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Direct calls that are counted by site: each leads to a stub of its own, which counts and
// goes on at the callee's (docs/stubs.md, "Direct calls"). The stubs are behind those of the
// object's functions. All sites get counters, behind those of functions; which of them can
// be led is known when the patches are.

// A call that runs in a stub, in a window or a body that was moved whole, leads to the stub
// of its site from there. That goes on at the callee's entry, as the call would: it is not
// among what is taken back where the program changes the callee's text.

// callSite is a direct call of a counted function.
type callSite struct {
	survey.Call
	stub       uint32 // offset of its stub in the arena; 0: it has none
	count      uint8  // bytes of the count there
	keepsFlags bool   // as its callee
	moved      bool   // it runs in its caller's stub, and leads there
	led        bool   // it leads there from the text
}

// countsCalls reports whether calls are counted by site. With blocks callers are known by
// these.
func (r *Request) countsCalls() bool {
	return r.Options.On[setting.Edges] && !r.Options.On[setting.Blocks]
}

// CountsCalls reports whether the table tells which calls are led, and so is for after Patch.
func (p *Plan) CountsCalls() bool { return p.how.sites }

// layCalls lists the calls of counted functions, and finds places for stubs in the arena,
// from one on. It returns where these end.
func (o *object) layCalls(at int) int {
	if o.direct = o.direct[:0]; !o.bySite {
		return at
	}
	if o.direct == nil {
		o.direct = make([]callSite, 0, o.sitesAtMost())
	}
	seen := map[uint64]bool{} // by address of those that a function inside another may have, too
	for c, sure := range o.survey.NotedCalls() {
		if !sure {
			seen[c.At] = false
		}
	}
	for c, sure := range o.survey.NotedCalls() {
		callee, from := &o.plans[c.To], &o.plans[c.From]
		listed, doubtful := seen[c.At]
		if !callee.Counted() || listed {
			continue
		}
		if doubtful {
			seen[c.At] = true
		}
		if o.survey.Owner(int(c.From)) == int(c.To) && o.survey.IsTail(c) {
			continue // a loop of a cold part's
		}
		s := callSite{Call: c, keepsFlags: callee.Has(entry.KeepsFlags), moved: from.Counted() && from.Holds(c.At)}
		if sure && (!s.moved || o.leadsDirectly(c)) { // by a slot of the PLT it may come to another one day
			at = align(at, emit.Alignment)
			s.stub = uint32(at)
			at += emit.CallSiteSize(s.keepsFlags)
		}
		o.direct = append(o.direct, s)
	}
	return at
}

// leadsDirectly reports whether a call's displacement is that of its callee's entry.
func (o *object) leadsDirectly(c survey.Call) bool {
	disp := binary.LittleEndian.Uint32(o.code.Code(c.At + 1))
	return disp == uint32(o.code.Functions[c.To].Addr-c.At-survey.CallSize)
}

// movedSites are those of the calls that run in the stub of function i of an arena.
func (a *arena) movedSites(o *object, i int) (list []emit.Site) {
	from, _ := slices.BinarySearchFunc(o.direct, int32(i), func(c callSite, i int32) int { return cmp.Compare(c.From, i) })
	for ; from < len(o.direct) && int(o.direct[from].From) == i; from++ {
		if c := &o.direct[from]; c.moved && c.stub != 0 && a.reachesCallee(o, c) {
			list = append(list, emit.Site{Addr: c.At, To: x86.RunAddr(a.at).Add(int(c.stub))})
		}
	}
	return list
}

// reachesCallee reports whether the stub of a site can jump to its callee's entry.
func (a *arena) reachesCallee(o *object, c *callSite) bool {
	end := int(c.stub) + emit.CallSiteSize(c.keepsFlags)
	for _, at := range []int{int(c.stub), end} {
		if d := int64(o.code.Run(o.code.Functions[c.To].Addr)) - int64(x86.RunAddr(a.at).Add(at)); d != int64(int32(d)) {
			return false
		}
	}
	return true
}

// sitesAtMost is how many sites there are at most.
func (o *object) sitesAtMost() (n int) {
	for range o.survey.NotedCalls() {
		n++
	}
	return n
}

// dropCalls has the calls of the arena's object with most sites not counted by these. It
// reports false if there are none.
func (a *arena) dropCalls() bool {
	largest := (*object)(nil)
	for _, o := range a.objects {
		if o.bySite && len(o.direct) > 0 && (largest == nil || len(o.direct) > len(largest.direct)) {
			largest = o
		}
	}
	if largest == nil {
		return false
	}
	largest.bySite, largest.byCall = false, true
	return true
}

// emitCalls writes the stubs of the call sites of object k, whose functions have theirs.
func (a *arena) emitCalls(k int) {
	o := a.objects[k]
	const grain = 4096
	parts := make([]emit.Origins, len(o.direct)/grain+1)
	parallel.Ranges(len(o.direct), grain, 0, func(_, first, end int) {
		part := &parts[first/grain]
		part.Base = x86.RunAddr(a.at)
		part.Records = make([]byte, 0, (end-first)*emit.OriginSize)
		e := emit.Emitter{Origins: part}
		for i := first; i < end; i++ {
			c := &o.direct[i]
			if c.moved && !a.reachesCallee(o, c) {
				c.stub = 0
			}
			if c.stub == 0 || !c.moved && !o.plans[c.To].Counted() {
				continue
			}
			counter := o.firstOfBlocks + uint32(i)
			s := emit.CallSite{
				Callee: o.survey.Start(int(c.To)), KeepsFlags: c.keepsFlags, To: o.stubs[c.To].At,
				Counter: int32(layout.RowCounters + 8*counter), Shared: a.view.counter(counter),
			}
			if c.moved {
				s.To = o.code.Run(o.code.Functions[c.To].Addr)
			}
			size := emit.CallSiteSize(s.KeepsFlags)
			n, err := e.EmitCallSite(o.code, &s, a.buf[c.stub:][:size], x86.RunAddr(a.at).Add(int(c.stub)))
			if err != nil {
				panic("BUG: " + err.Error())
			}
			c.count = uint8(n)
		}
	})
	a.code = append(a.code, parts...)
}

// callsAhead finds the sites of calls in the order in which the survey has these.
type callsAhead struct{ list []callSite }

// of is the site of the call that comes next, if it has a stub.
func (a *callsAhead) of(c survey.Call) *callSite {
	if len(a.list) == 0 || a.list[0].Call != c {
		return nil // its callee was not counted
	}
	s := &a.list[0]
	if a.list = a.list[1:]; s.stub == 0 {
		return nil
	}
	return s
}

// sites yields the call sites of counted functions, by object, function and address.
func (p *Plan) sites() iter.Seq[*layout.Site] {
	return func(yield func(*layout.Site) bool) {
		for _, o := range p.fitting {
			for s := range o.sitesFrom(uint32(o.groups), o.firstOfBlocks) {
				if !yield(&s) {
					return
				}
			}
		}
	}
}

// sitesFrom yields those of an object whose first function, and first counter of a site, have
// these numbers.
func (o *object) sitesFrom(function, counter uint32) iter.Seq[layout.Site] {
	return func(yield func(layout.Site) bool) {
		if o.cached != nil {
			for s := range o.cached.EachSite() {
				s.Caller, s.Callee, s.Counter = function+s.Caller, function+s.Callee, shifted(counter, s.Counter)
				if !yield(s) {
					return
				}
			}
			return
		}
		for i := range o.direct {
			c := &o.direct[i]
			if !o.plans[c.To].Counted() {
				continue
			}
			s := layout.Site{Address: c.At, Caller: function + uint32(o.survey.Owner(int(c.From))), Callee: function + uint32(c.To), Counter: layout.NoCounter}
			if c.led || c.moved && c.stub != 0 && o.plans[c.From].Counted() {
				s.Counter, s.Stub, s.Count = counter+uint32(i), c.stub, uint32(c.count)
			}
			if o.survey.IsTail(c.Call) {
				s.Flags |= layout.SiteTail
			}
			if !yield(s) {
				return
			}
		}
	}
}

// SiteStubs yields the stubs of the call sites that are counted, after Patch, each with the
// name of its callee.
func (p *Plan) SiteStubs() iter.Seq[Stub] {
	return func(yield func(Stub) bool) {
		for _, o := range p.all {
			var names []string // of a cached plan's functions, which are read in order
			if o.cached != nil && len(o.cached.Sites) > 0 {
				for _, f := range o.cached.Each(mem.String) {
					names = append(names, symname.Display(f.Name, o.path, f.Address, true))
				}
			}
			for s := range o.sitesFrom(0, 0) {
				if s.Counter == layout.NoCounter {
					continue
				}
				name := ""
				if o.cached != nil {
					name = names[s.Callee]
				} else {
					name = o.displayed(int(s.Callee))
				}
				if !yield(Stub{x86.RunAddr(o.arena.at + uint64(s.Stub)), s.Count + emit.JumpSize, name}) {
					return
				}
			}
		}
	}
}

// cacheSites puts the call sites into c, with numbers from 0 on.
func (o *object) cacheSites(c *plancache.Plan) {
	c.GrowSites(len(o.direct))
	for s := range o.sitesFrom(0, 0) {
		c.AddSite(&s)
	}
}
