package patcher

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/target"
)

// keptPlans are the files of a cache, by what they are looked for.
type keptPlans map[string][]byte

func (k keptPlans) Load(id target.Identity, key []byte) []byte {
	return k[fmt.Sprint(id, string(key))]
}

// keep is what a start leaves for others.
func (k keptPlans) keep(p *Plan) {
	for id, c := range p.ToCache() {
		k[fmt.Sprint(id, string(c.Key))] = c.Encode()
	}
}

// Identity implements target.Identified.
func (f recordedFile) Identity() (target.Identity, error) {
	sum := fnv.New64a()
	sum.Write(f.bytes)
	return target.Identity{Inode: f.inode, Size: uint64(len(f.bytes)), Mtime: sum.Sum64(), Ctime: 1}, nil
}

// planned is all that a target is told by a plan.
type planned struct {
	arenas    []Arena
	texts     []Text
	stubs     []byte // and what stands beside them: origins, changes
	objects   []layout.Object
	functions []layout.Function
	names     []Stub
	blocks    []layout.Block
	ways      []layout.Way
	loops     []layout.Loop
	sites     []layout.Site
	counters  layout.BlockCounters
}

func allOf(p *Plan) (all planned) {
	p.Patch()
	all.arenas, all.texts, all.stubs = p.Arenas(), p.Texts(), p.reserve[:p.used]
	spec := p.Ledger()
	for _, o := range spec.Objects {
		o.Flags &^= layout.ObjCached
		all.objects = append(all.objects, o)
	}
	for f := range spec.Stream {
		all.functions = append(all.functions, *f)
		all.functions[len(all.functions)-1].Aliases = slices.Clone(f.Aliases)
	}
	all.names = append(slices.Collect(p.Stubs()), slices.Collect(p.SiteStubs())...)
	if spec.Blocks != nil {
		all.blocks, all.ways, all.loops = valuesOf(spec.Blocks.Each), valuesOf(spec.Blocks.Ways), valuesOf(spec.Blocks.Loops)
		all.counters = spec.Blocks.Counters
	}
	if spec.Sites != nil {
		all.sites, all.counters = valuesOf(spec.Sites.Each), spec.Sites.Counters
	}
	return all
}

// valuesOf are what a sequence yields pointers to, which may be one.
func valuesOf[T any](list iter.Seq[*T]) (all []T) {
	for v := range list {
		all = append(all, *v)
	}
	return all
}

// cachedObjects are those whose plans come from the cache.
func cachedObjects(p *Plan) (n int) {
	for _, o := range p.all {
		if o.cached != nil {
			n++
		}
	}
	return n
}

// TestCached: with the plans of an earlier start everything is as without them: of the
// same objects, and of others in which the numbers are others; with other entries.
func TestCached(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"all":        func(*Request) {},
		"default":    func(q *Request) { q.Options.Objects = nil },
		"threshold":  func(q *Request) { q.Options.Threshold = must(symname.ParseThresholds("1000")) },
		"kept calls": func(q *Request) { q.Options.On[setting.KeepCalls] = true },
		"kept":       func(q *Request) { q.Keep = true },
		"blocks":     func(q *Request) { q.Options.On[setting.Blocks] = true },
		"sites":      func(q *Request) { q.Options.On[setting.Edges] = true },
		"edges":      func(q *Request) { q.Options.On[setting.Blocks], q.Options.On[setting.Edges] = true, true },
		"trips": func(q *Request) {
			q.Options.On[setting.Blocks], q.Options.On[setting.Edges], q.Options.On[setting.Trips] = true, true, true
		},
	} {
		kept := keptPlans{}
		plan := func(cache Cache, by uint64, more ...string) *Plan {
			r := open(t)
			r.move(by)
			q := r.request(append(append([]string{"program"}, more...), "ld-linux-x86-64.so.2")...)
			q.Options.Objects = must(symname.ParseObjects("all"))
			q.Cache, q.Planner = cache, []byte("this one")
			change(q)
			p, err := New(q, r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return p
		}
		first := plan(kept, 0, "libc.so.6", "liblate.so")
		cold := allOf(first)
		kept.keep(first)
		if len(kept) != len(first.all) {
			t.Errorf("%s: %d of %d plans are kept", name, len(kept), len(first.all))
		}
		for by, more := range [][]string{{"libc.so.6", "liblate.so"}, {"liblate.so", "libc.so.6"}} {
			by := uint64(by) * 5 << 30
			warm, cold := plan(kept, by, more...), plan(keptPlans{}, by, more...)
			want, got := allOf(cold), allOf(warm)
			if n := cachedObjects(warm); n != len(kept) {
				t.Errorf("%s: %d of %d plans are used", name, n, len(kept))
			}
			compare(t, name, &got, &want)
		}
		if got := allOf(plan(kept, 0, "libc.so.6", "liblate.so")); !reflect.DeepEqual(got, cold) {
			compare(t, name, &got, &cold)
		}
	}
}

func compare(t *testing.T, name string, got, want *planned) {
	t.Helper()
	for _, row := range []struct {
		what      string
		got, want any
	}{
		{"arenas", got.arenas, want.arenas}, {"texts", got.texts, want.texts}, {"objects", got.objects, want.objects},
		{"functions", got.functions, want.functions}, {"names", got.names, want.names},
		{"blocks", got.blocks, want.blocks}, {"ways", got.ways, want.ways}, {"loops", got.loops, want.loops}, {"sites", got.sites, want.sites}, {"counters of blocks", got.counters, want.counters},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: the %s differ:\n%.1000v\n%.1000v", name, row.what, fmt.Sprintf("%+v", row.got), fmt.Sprintf("%+v", row.want))
		}
	}
	const zero = "\x00" // what was taken for changes and is not used
	if !bytes.Equal(bytes.TrimRight(got.stubs, zero), bytes.TrimRight(want.stubs, zero)) {
		t.Errorf("%s: the stubs differ", name)
	}
}

// TestCachedNot: plans that were made for something else, or of another file, are not
// used, nor are damaged ones; and none is kept that depends on more than its object.
func TestCachedNot(t *testing.T) {
	kept := keptPlans{}
	r := open(t)
	q := r.everything()
	q.Cache, q.Planner = kept, []byte("this one")
	first := must(New(q, r))
	first.Patch()
	kept.keep(first)
	for name, change := range map[string]func(*recordedTarget, *Request){
		"another planner":   func(_ *recordedTarget, q *Request) { q.Planner = []byte("another one") },
		"kept calls":        func(_ *recordedTarget, q *Request) { q.Options.On[setting.KeepCalls] = true },
		"blocks":            func(_ *recordedTarget, q *Request) { q.Options.On[setting.Blocks] = true },
		"edges":             func(_ *recordedTarget, q *Request) { q.Options.On[setting.Edges] = true },
		"trips":             func(_ *recordedTarget, q *Request) { q.Options.On[setting.Trips] = true },
		"threshold":         func(_ *recordedTarget, q *Request) { q.Options.Threshold = must(symname.ParseThresholds("5")) },
		"threshold by name": func(_ *recordedTarget, q *Request) { q.Options.Threshold = must(symname.ParseThresholds("a=5")) },
		"only":              func(_ *recordedTarget, q *Request) { q.Options.Only = must(symname.ParseNames("^l", nil)) },
		"skip":              func(_ *recordedTarget, q *Request) { q.Options.Skip = must(symname.ParseNames("^l", nil)) },
		"traps":             func(_ *recordedTarget, q *Request) { q.Options.On[setting.AllowTraps] = true },
		"lock":              func(_ *recordedTarget, q *Request) { q.Options.On[setting.Lock] = true },
		"shared":            func(_ *recordedTarget, q *Request) { q.Shared = true },
		"translator":        func(_ *recordedTarget, q *Request) { q.Translator = true },
		"debugged":          func(r *recordedTarget, _ *Request) { r.debugged = true },
		"one uses GS":       func(r *recordedTarget, q *Request) { q.Objects = append(q.Objects, r.loaded["libgs.so"]) },
		"no cache":          func(_ *recordedTarget, q *Request) { q.Cache = nil },
		"other inodes":      func(r *recordedTarget, _ *Request) { r.inodes++ },
		"damaged": func(_ *recordedTarget, q *Request) {
			broken := keptPlans{}
			for k, b := range kept {
				broken[k] = slices.Clone(b)
				broken[k][len(b)/2]++
			}
			q.Cache = broken
		},
		"of another object": func(_ *recordedTarget, q *Request) { q.Cache = anyPlan(kept) },
		"text was written": func(r *recordedTarget, q *Request) {
			for _, m := range r.maps {
				r.written = append(r.written, m.Start)
			}
		},
	} {
		r := open(t)
		q := r.everything()
		q.Cache, q.Planner = kept, []byte("this one")
		change(r, q)
		p, err := New(q, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := cachedObjects(p); n > 0 {
			t.Errorf("%s: %d plans are used", name, n)
		}
		p.Patch()
		check(t, name, r, p)
	}
}

// anyPlan is a cache that has one plan for everybody.
type anyPlan keptPlans

func (a anyPlan) Load(target.Identity, []byte) []byte {
	for _, b := range a {
		p, err := plancache.Decode(b)
		if err != nil {
			panic(err)
		}
		p.File.Inode = 1
		return p.Encode()
	}
	return nil
}

// TestCachedSlots: where a library's first slot is taken it gets the next, and finds that
// plan again, whether the first is free then or not. Where all are taken its plan is for
// where there was room.
func TestCachedSlots(t *testing.T) {
	r := open(t)
	free := must(New(r.everything(), r))
	i := slices.IndexFunc(free.all, func(o *object) bool { return !o.main && o.needsArena() })
	path, low := free.all[i].path, free.all[i].span.Low
	start := func(kept keptPlans, taken ...procmaps.Mapping) *object {
		r := open(t)
		r.maps = append(r.maps, taken...)
		slices.SortFunc(r.maps, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
		q := r.everything()
		q.Cache, q.Planner = kept, []byte("this one")
		p := must(New(q, r))
		p.Patch()
		kept.keep(p)
		check(t, "slots", r, p)
		return p.all[slices.IndexFunc(p.all, func(o *object) bool { return o.path == path })]
	}
	at := func(o *object) procmaps.Mapping {
		return procmaps.Mapping{Start: o.arena.at, End: o.arena.at + pageSize}
	}
	first := start(keptPlans{})
	kept := keptPlans{}
	second := start(kept, at(first))
	if first.slot != 0 || second.slot != 1 || second.cached != nil {
		t.Fatalf("slots %d and %d", first.slot, second.slot)
	}
	for _, taken := range [][]procmaps.Mapping{{at(first)}, nil} {
		if o := start(kept, taken...); o.cached == nil || o.arena.at != second.arena.at {
			t.Errorf("%d slots taken: at %#x, not %#x", len(taken), o.arena.at, second.arena.at)
		}
	}
	all := procmaps.Mapping{Start: low - 2<<30, End: low - 512<<20}
	if last := start(kept, all); last.slot != slots || last.cached != nil {
		t.Errorf("with all slots taken: %d", last.slot)
	}
	if o := start(kept, all); o.cached == nil {
		t.Error("it is planned again where all slots are taken")
	}
}

// TestCachedPlace: where something is in an arena's place the object is planned.
func TestCachedPlace(t *testing.T) {
	kept := keptPlans{}
	for round := range 2 {
		r := open(t)
		q := r.everything()
		q.Cache = kept
		p := must(New(q, r))
		p.Patch()
		if round == 0 {
			kept.keep(p)
			continue
		}
		for _, o := range p.all {
			if o.arena == nil || o.cached == nil {
				continue
			}
			r := open(t)
			r.maps = append(r.maps, procmaps.Mapping{Start: o.arena.at, End: o.arena.at + pageSize})
			slices.SortFunc(r.maps, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
			q := r.everything()
			q.Cache = kept
			again := must(New(q, r))
			again.Patch()
			check(t, "taken", r, again)
			if n := cachedObjects(again); n != len(kept)-1 {
				t.Errorf("%s: its place is taken, and %d of %d plans are used", o.path, n, len(kept))
			}
		}
	}
}

// TestCachedTooLarge: what is larger than plans may be is not made a second time for one; it is
// told, and the others are kept.
func TestCachedTooLarge(t *testing.T) {
	plan := func(most int) (*Plan, keptPlans) {
		kept := keptPlans{}
		r := open(t)
		q := r.everything()
		q.Cache, q.Planner, q.MostKept = kept, []byte("this one"), most
		p, err := New(q, r)
		if err != nil {
			t.Fatal(err)
		}
		p.Patch()
		kept.keep(p)
		return p, kept
	}
	p, all := plan(0)
	if len(p.TooLarge()) > 0 || len(all) == 0 {
		t.Fatalf("without a limit %d plans are kept, not those of %q", len(all), p.TooLarge())
	}
	most, largest := 0, ""
	for _, o := range p.all {
		if o.arena != nil && len(o.arena.buf) > most {
			most, largest = len(o.arena.buf), o.path
		}
	}
	if p, but := plan(most - 1); !slices.Equal(p.TooLarge(), []string{largest}) || len(but) != len(all)-1 {
		t.Errorf("%d of %d plans are kept, not those of %q; %s alone is too large", len(but), len(all), p.TooLarge(), largest)
	}
}
