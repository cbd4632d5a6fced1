package patcher

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
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
