package patcher

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// TestLate: objects that come later get numbers behind those of the table, and room
// that is held for them; one that may use GS ends the counting.
func TestLate(t *testing.T) {
	r := open(t)
	q := r.request("program", "libc.so.6", "ld-linux-x86-64.so.2")
	start := must(New(q, r))
	start.Patch()
	path := filepath.Join(t.TempDir(), "table")
	f, err := build.Create(path, start.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	late := func(r *recordedTarget, names ...string) *Request {
		q := r.request(names...)
		q.Late = true
		for i := range q.Objects {
			q.Objects[i].Span = target.Loaded{}.Span
			q.Objects[i].Span.Low = q.Objects[i].Bias
		}
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		return q
	}
	r = open(t)
	q = late(r, "liblate.so")
	p, err := New(q, r)
	if err != nil {
		t.Fatal(err)
	}
	p.Patch()
	check(t, "late", r, p)
	spec := p.Ledger()
	if len(spec.Objects) != 1 || spec.Objects[0].Flags&layout.ObjLate == 0 || spec.Objects[0].Low != r.loaded["liblate.so"].Span.Low {
		t.Errorf("%+v", spec.Objects)
	}
	first := uint32(0)
	for f := range start.Ledger().Stream {
		if f.Counter != layout.NoCounter {
			first++
		}
	}
	for f := range spec.Stream {
		if f.Object != uint16(len(start.all)) || f.Counter != layout.NoCounter && f.Counter < first {
			t.Errorf("%+v", f)
		}
	}

	r = open(t)
	q = late(r, "libgs.so", "liblate.so")
	stopped := false
	q.Stop = func() { stopped = true }
	p, err = New(q, r)
	if err != nil {
		t.Fatal(err)
	}
	for f := range p.Ledger().Stream {
		if f.Counter != layout.NoCounter {
			t.Errorf("%s is counted beside what uses GS", f.Name)
		}
	}
	if !stopped {
		t.Error("nobody was told that GS is taken")
	}

	r = open(t)
	q = late(r, "liblate.so")
	q.Table = func() (*build.Appender, error) { return nil, errors.New("no table") }
	if _, err := New(q, r); err == nil || err.Error() != "no table" {
		t.Error(err)
	}

	r = open(t)
	q = late(r, "liblate.so") // without program headers it takes the maps
	copy(r.View(r.loaded["liblate.so"].Bias, 64)[54:], []byte{0xff, 0xff})
	q.Miss = func(int, ledger.Reason) {} // nor is it the file's
	if _, err := New(q, r); err != nil {
		t.Error(err)
	}
}

// tableOf is a new table, open.
func tableOf(t *testing.T, spec *build.Spec) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	f, err := build.Create(path, spec)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestLateBlocks: blocks of what comes later have numbers behind those of the table; where it
// has no room for these the object is counted by call, and what comes with it is not.
func TestLateBlocks(t *testing.T) {
	counted := 0
	for _, full := range []int64{0, layout.HdrBlocks, layout.HdrWays} {
		r := open(t)
		q := r.request("program", "libc.so.6", "ld-linux-x86-64.so.2")
		q.Options.On[setting.Blocks] = true
		start := must(New(q, r))
		start.Patch()
		file := tableOf(t, start.Ledger())
		before := must(build.OpenAppend(file))
		if full != 0 { // as many as there are
			count := make([]byte, 4)
			must(file.ReadAt(count, full+layout.SecCount))
			must(file.WriteAt(count, full+layout.SecCapacity))
		}
		r = open(t)
		q = r.request("liblate.so")
		q.Options.On[setting.Blocks], q.Late = true, true
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		q.Miss = func(i int, why ledger.Reason) { t.Errorf("object %d is missed: %v", i, why) }
		p := must(New(q, r))
		p.Patch()
		check(t, "late", r, p)
		spec := p.Ledger()
		functions, blocks := 0, 0
		for f := range spec.Stream {
			if f.Counted() {
				functions++
			}
		}
		for b := range spec.Blocks.Each {
			blocks++
			if b.Function < before.Functions.Count || b.Counter < before.Counters || b.After < before.Blocks.Count || b.Loop < before.Loops.Count {
				t.Errorf("%+v", b)
			}
		}
		byCall := spec.Objects[0].Flags&layout.ObjByCall != 0
		if full == 0 {
			counted = functions
		}
		if functions == 0 || functions != counted || byCall != (full != 0) || (blocks > 0) == byCall {
			t.Errorf("%#x: %d of %d functions, %d blocks, by call: %t", full, functions, counted, blocks, byCall)
		}
		if err := must(build.OpenAppend(file)).Add(spec); err != nil {
			t.Error(err)
		}
	}
}

// TestLateSites: call sites of what comes later have numbers behind those of the table, planned
// or from a plan; where it has no room for these the object's calls are counted by function, and
// it says so.
func TestLateSites(t *testing.T) {
	for name, change := range map[string]func(*Request, *os.File){
		"room":   func(*Request, *os.File) {},
		"shared": func(q *Request, _ *os.File) { q.Shared = true },
		"full": func(_ *Request, file *os.File) {
			count := make([]byte, 4)
			must(file.ReadAt(count, layout.HdrSites+layout.SecCount))
			must(file.WriteAt(count, layout.HdrSites+layout.SecCapacity))
		},
	} {
		kept := keptPlans{}
		var first planned
		for _, start := range []string{"cold", "warm"} {
			r := open(t)
			q := r.request("libc.so.6", "ld-linux-x86-64.so.2")
			q.Options.On[setting.Edges] = true
			begins := must(New(q, r))
			begins.Patch()
			file := tableOf(t, begins.Ledger())
			r = open(t)
			q = r.request("program") // as if it came later: it has calls
			q.Options.On[setting.Edges], q.Late = true, true
			q.Cache, q.Planner = kept, []byte("this one")
			q.Miss = func(i int, why ledger.Reason) { t.Errorf("object %d is missed: %v", i, why) }
			change(q, file)
			before := must(build.OpenAppend(file))
			q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
			p := must(New(q, r))
			p.Patch()
			check(t, name, r, p)
			all := allOf(p)
			counted, most := 0, uint32(0)
			for _, f := range all.functions {
				if f.Counted() {
					counted, most = counted+1, max(most, f.Counter)
				}
			}
			sites := 0
			for _, s := range all.sites {
				if s.Caller < before.Functions.Count || s.Callee < before.Functions.Count || s.Counter <= most {
					t.Errorf("%s, %s: %+v", name, start, s)
				}
				if s.Counter != layout.NoCounter {
					sites++
				}
			}
			byCall := all.objects[0].Flags&layout.ObjByCall != 0
			if counted == 0 || byCall != (name == "full") || (sites > 0) == byCall {
				t.Errorf("%s, %s: %d functions, %d sites, by call: %t", name, start, counted, sites, byCall)
			}
			if err := must(build.OpenAppend(file)).Add(p.Ledger()); err != nil {
				t.Errorf("%s, %s: %v", name, start, err)
			}
			if start == "cold" {
				first = all
				kept.keep(p)
				continue
			}
			if wants := map[string]int{"room": 1}[name]; cachedObjects(p) != wants || !reflect.DeepEqual(all.functions, first.functions) || !reflect.DeepEqual(all.sites, first.sites) {
				t.Errorf("%s: %d plans are used, %d sites, %d before", name, cachedObjects(p), len(all.sites), len(first.sites))
			}
		}
	}
}

// TestLateCached: what comes later is kept, too, and planned from that; what then takes GS,
// or finds no room in the table, is left as if it were planned anew.
func TestLateCached(t *testing.T) {
	kept := keptPlans{}
	late := func(spare bool, names ...string) (*Plan, map[int]ledger.Reason) {
		r := open(t)
		start := must(New(r.request("program", "libc.so.6", "ld-linux-x86-64.so.2"), r))
		spec := start.Ledger()
		spec.NoSpare = !spare
		file := tableOf(t, spec)
		missed := map[int]ledger.Reason{}
		q := r.request(names...)
		q.Late, q.Cache, q.Planner = true, kept, []byte("this one")
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		q.Stop = func() {}
		q.Miss = func(i int, why ledger.Reason) { missed[i] = why }
		p, err := New(q, r)
		if err != nil {
			t.Fatal(err)
		}
		p.Patch()
		return p, missed
	}
	first, _ := late(true, "liblate.so")
	check(t, "planned", open(t), first)
	if n := cachedObjects(first); n != 0 {
		t.Fatalf("%d plans are used, and there are none", n)
	}
	kept.keep(first)
	if len(kept) != 1 {
		t.Fatalf("%d plans are kept", len(kept))
	}
	again, _ := late(true, "liblate.so")
	if n := cachedObjects(again); n != 1 {
		t.Errorf("%d plans are used", n)
	}
	if a, b := allOf(first), allOf(again); !reflect.DeepEqual(a.functions, b.functions) || !reflect.DeepEqual(a.objects, b.objects) || a.arenas[0].At != b.arenas[0].At {
		t.Errorf("%+v, %+v", a.objects, b.objects)
	}

	gs, _ := late(true, "libgs.so", "liblate.so")
	for f := range gs.Ledger().Stream {
		if f.Counter != layout.NoCounter {
			t.Errorf("%s is counted beside what uses GS", f.Name)
		}
	}
	full, missed := late(false, "liblate.so")
	if missed[0] != ledger.ReasonNoMemory || len(full.Ledger().Objects) != 0 || cachedObjects(full) != 0 {
		t.Errorf("in a full table: %v, %+v", missed, full.Ledger().Objects)
	}
}

// TestLateNoRoom: what the table has no room for is missed, and named.
func TestLateNoRoom(t *testing.T) {
	for _, row := range []struct {
		name   string
		shared bool
		why    ledger.Reason
	}{
		{"liblate.so", false, ledger.ReasonNoMemory},
		{"libgs.so", false, ledger.ReasonUsesGS},
		{"libgs.so", true, ledger.ReasonNoMemory},
	} {
		r := open(t)
		start := must(New(r.request("program", "ld-linux-x86-64.so.2"), r))
		spec := start.Ledger()
		spec.NoSpare = true
		file := tableOf(t, spec)
		q := r.request(row.name)
		q.Late, q.Shared = true, row.shared
		q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
		q.Stop = func() {}
		missed := ledger.ReasonNone
		q.Miss = func(i int, why ledger.Reason) { missed = why }
		p, err := New(q, r)
		if err != nil {
			t.Fatal(err)
		}
		if missed != row.why || len(p.Ledger().Objects) != 0 {
			t.Errorf("%+v: missed for %s, %d objects", row, missed, len(p.Ledger().Objects))
		}
	}
}

// TestLateNoFile: what can be read neither from a file nor from memory is missed, and named,
// although the table has it.
func TestLateNoFile(t *testing.T) {
	r := open(t)
	file := tableOf(t, must(New(r.request("program", "ld-linux-x86-64.so.2"), r)).Ledger())
	delete(r.files, "/recorded/liblate.so")
	const class, none = 4, 0
	r.View(r.loaded["liblate.so"].Bias, class+1)[class] = none
	q := r.request("liblate.so")
	q.Late = true
	q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
	missed := ledger.ReasonNone
	q.Miss = func(i int, why ledger.Reason) { missed = why }
	objects := must(New(q, r)).Ledger().Objects
	if missed != ledger.ReasonNoFile || len(objects) != 1 || objects[0].Reason != ledger.ReasonNoFile {
		t.Errorf("missed for %s; %+v", missed, objects)
	}
}

// TestLateCopies: what of an object lies in memory that is no file's, or apart from the
// rest, is seen with plans as it is without, and none is kept; an object that lies nowhere is
// named.
func TestLateCopies(t *testing.T) {
	const library = "/recorded/liblate.so"
	for name, change := range map[string]func(*procmaps.Mapping){
		"all of it": func(m *procmaps.Mapping) { m.Inode, m.Path, m.Offset = 0, "", 0 },
		"code": func(m *procmaps.Mapping) {
			if m.Prot&procmaps.ProtExec != 0 {
				m.Inode, m.Path, m.Offset = 0, "", 0
			}
		},
		"data": func(m *procmaps.Mapping) {
			if m.Prot&procmaps.ProtExec == 0 {
				m.Inode, m.Path, m.Offset = 0, "", 0
			}
		},
		"no file": func(m *procmaps.Mapping) { m.Inode, m.Path, m.Offset = 0, "", 0 },
	} {
		plan := func(cache Cache) (*recordedTarget, *Plan) {
			r := open(t)
			start := must(New(r.request("program", "libc.so.6", "ld-linux-x86-64.so.2"), r))
			file := tableOf(t, start.Ledger())
			l := r.loaded["liblate.so"]
			for i := range r.maps {
				if r.maps[i].Path == library {
					change(&r.maps[i])
				}
			}
			if name == "no file" {
				delete(r.files, library)
			}
			q := r.request("liblate.so")
			q.Late, q.Cache, q.Planner = true, cache, []byte("this one")
			q.Objects[0].Span = place.Span{Low: l.Span.High - 8, High: l.Span.High - 8} // its data
			q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
			p, err := New(q, r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p.Patch()
			return r, p
		}
		kept := keptPlans{}
		r, with := plan(kept)
		check(t, name, r, with)
		kept.keep(with)
		_, without := plan(nil)
		a, b := allOf(with), allOf(without)
		if len(kept) != 0 || a.objects[0].Path != library || len(a.functions) == 0 || len(a.functions) != len(b.functions) {
			t.Errorf("%s: %d plans are kept; %+v, %d functions; %+v, %d functions", name, len(kept), a.objects, len(a.functions), b.objects, len(b.functions))
			continue
		}
		for i := range a.functions {
			if x, y := &a.functions[i], &b.functions[i]; x.Name != y.Name || x.Counter != y.Counter || x.Reason != y.Reason {
				t.Errorf("%s: %+v, without plans %+v", name, x, y)
			}
		}
	}

	r := open(t)
	file := tableOf(t, must(New(r.request("program", "ld-linux-x86-64.so.2"), r)).Ledger())
	q := r.request()
	q.Objects = []target.Loaded{{Name: "nowhere", Bias: 0x7000000, Span: place.Span{Low: 0x7001000, High: 0x7001000}}}
	q.Late = true
	q.Table = func() (*build.Appender, error) { return build.OpenAppend(file) }
	stopped, missed := false, ledger.ReasonNone
	q.Stop = func() { stopped = true }
	q.Miss = func(i int, why ledger.Reason) { missed = why }
	if p := must(New(q, r)); !stopped || p.Ledger().Objects[0].Path != "nowhere" || p.Ledger().Objects[0].Flags&layout.ObjUsesGS == 0 {
		t.Errorf("stopped: %t; %+v", stopped, p.Ledger().Objects)
	}
	if missed != ledger.ReasonNoFile {
		t.Errorf("missed for %q", missed)
	}
}

// TestClaim: segments lie where others did, of whose ends the rest stays; what is allowed
// stays as it is, and nothing where nothing is.
func TestClaim(t *testing.T) {
	maps := []procmaps.Mapping{
		{Start: 0x1000, End: 0x3000, Prot: 1, Offset: 0x5000, Inode: 7},
		{Start: 0x4000, End: 0x9000, Prot: 5, Offset: 0x2000, Inode: 8},
	}
	segments := []segment{
		{Mapping: procmaps.Mapping{Start: 0x2000, End: 0x6000, Prot: 7, Offset: 0x10000, Inode: 9}},
		{Mapping: procmaps.Mapping{Start: 0x6000, End: 0x7000, Inode: 9}},
	}
	want := []procmaps.Mapping{
		{Start: 0x1000, End: 0x2000, Prot: 1, Offset: 0x5000, Inode: 7},
		{Start: 0x2000, End: 0x3000, Prot: 1, Offset: 0x10000, Inode: 9},
		{Start: 0x3000, End: 0x4000, Offset: 0x11000, Inode: 9},
		{Start: 0x4000, End: 0x6000, Prot: 5, Offset: 0x12000, Inode: 9},
		{Start: 0x6000, End: 0x7000, Prot: 5, Inode: 9},
		{Start: 0x7000, End: 0x9000, Prot: 5, Offset: 0x5000, Inode: 8},
	}
	if got := claim(maps, segments); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}
