package selftime

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

const arena = 0x555555000000

// demo is a table whose executable has an arena, of main's stub, add's and one that is larger
// than a table says, and a library that was closed again.
func demo(t *testing.T) *table.Table {
	t.Helper()
	spec := tabletest.Spec()
	spec.Objects[0].Arena = arena
	for i, stub := range []struct {
		at   uint32
		size uint16
	}{{0x100, 0x40}, {0x140, 0x10}, {0x200, 1<<16 - 1}} {
		spec.Functions[i].Stub, spec.Functions[i].StubSize = stub.at, stub.size
	}
	late := spec.Objects[1]
	late.Path, late.Flags = "/usr/lib/late.so", layout.ObjSelected|layout.ObjLate
	spec.Objects = append(spec.Objects, late, layout.Object{
		Path: "/usr/lib/libdynprof.so", Low: 0x7ffff5000000, High: 0x7ffff5010000, Bias: 0x7ffff5000000,
	})
	last := spec.Functions[5]
	last.Object, last.Name, last.Counter = 3, "late", layout.NoCounter
	spec.Functions = append(spec.Functions, last)
	live := tabletest.Create(t, "demo.dynprof", spec)
	return tabletest.Open(t, live.Path)
}

// TestFind: what each kind of place is.
func TestFind(t *testing.T) {
	tab := demo(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := readObject(self)
	if own == nil {
		t.Fatal("this program cannot be read")
	}
	a := newAttributor(tab, files{})
	in := func(path string) *sampling.Mapping {
		return &sampling.Mapping{Start: 0x7ffff7000000, End: 0x7ffff7010000, Path: path}
	}
	const program, library, libc = 0x555555554000, 0x7ffff7000000, 0x7ffff6000000
	text := own.Segments[slices.IndexFunc(own.Segments, func(s elfscan.Segment) bool { return s.Flags&1 != 0 })]
	f := own.function(own.Entry)
	if f == nil {
		t.Fatal("nothing is at this program's entry")
	}
	for _, row := range []struct {
		name string
		at   sampling.Place
		want string
	}{
		{"a function's first byte", sampling.Place{Address: program + 0x1139}, "ledger 0 /opt/demo/demo 0x1139"},
		{"and its last", sampling.Place{Address: program + 0x1139 + 35}, "ledger 0 /opt/demo/demo 0x1139"},
		{"between functions", sampling.Place{Address: program + 0x1139 + 36}, "none /opt/demo/demo"},
		{"in front of all", sampling.Place{Address: program + 1}, "none /opt/demo/demo"},
		{"not counted", sampling.Place{Address: program + 0x11d1}, "ledger 3 /opt/demo/demo 0x11d0"},
		{"a library", sampling.Place{Address: library + 0x2010, In: in("/usr/lib/libdemo.so.1")}, "ledger 5 /usr/lib/libdemo.so.1 0x2000"},
		{"what came when it was closed", sampling.Place{Address: library + 0x2010, In: in("/usr/lib/late.so")}, "ledger 7 /usr/lib/late.so 0x2000"},
		{"and then code of none", sampling.Place{Address: library + 0x2010, In: in("//anon")}, "none [anonymous]"},
		{"of no functions, and no file", sampling.Place{Address: libc + 0x100}, "none /usr/lib/libc.so.6"},
		{"a stub", sampling.Place{Address: arena + 0x100}, "ledger 0 /opt/demo/demo 0x1139"},
		{"its end", sampling.Place{Address: arena + 0x13f}, "ledger 0 /opt/demo/demo 0x1139"},
		{"a moved body", sampling.Place{Address: arena + 0x145}, "ledger 1 /opt/demo/demo 0x1160"},
		{"a large copy", sampling.Place{Address: arena + 0x20200}, "ledger 2 /opt/demo/demo 0x1170"},
		{"between stubs", sampling.Place{Address: arena + 0x180}, "own"},
		{"the common part", sampling.Place{Address: arena + 8}, "own"},
		{"the library itself", sampling.Place{Address: 0x7ffff5000010}, "own"},
		{"the reserve", sampling.Place{Address: 0x1000, In: in("/dev/zero (deleted)")}, "own"},
		{"nothing", sampling.Place{Address: 0x1000}, "none [unknown]"},
		{"the kernel's page", sampling.Place{Address: 0x7ffff7000010, In: &sampling.Mapping{Start: 0x7ffff7000000, End: 0x7ffff7001000, Path: "[vdso]"}}, "none [vdso]"},
		{"a file", sampling.Place{Address: 0x10000 + own.Entry - text.Addr, In: &sampling.Mapping{Start: 0x10000, End: 1 << 40, Offset: text.Offset, Path: self, Inode: own.inode}},
			fmt.Sprintf("beside %s %#x %s", self, f.Addr, f.Name)},
		{"another of its name", sampling.Place{Address: 0x10000, In: &sampling.Mapping{Start: 0x10000, End: 1 << 40, Offset: text.Offset, Path: self, Inode: own.inode + 1}}, "none " + self},
		{"one that is gone", sampling.Place{Address: 0x10000, In: &sampling.Mapping{Start: 0x10000, End: 0x20000, Path: "/no/such"}}, "none /no/such"},
	} {
		r, isOwn := a.find(row.at)
		got := fmt.Sprintf("ledger %d %s %#x", r.number, r.object, r.address)
		switch {
		case isOwn:
			got = "own"
		case r.number < 0 && r.size == 0:
			got = "none " + r.object
		case r.number < 0:
			got = fmt.Sprintf("beside %s %#x %s", r.object, r.address, r.name)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestAdd: an arena's instruction counts for what it stands for.
func TestAdd(t *testing.T) {
	a := newAttributor(demo(t), files{})
	a.add(sampling.Place{Address: arena + 0x100}, &sampling.Spot{Samples: 5, Looked: true, Origin: &sampling.Place{Address: 0x555555554000 + 0x1160}})
	a.add(sampling.Place{Address: 0x555555554000 + 0x1164}, &sampling.Spot{Samples: 2, Looked: true})
	a.add(sampling.Place{Address: arena + 0x145}, &sampling.Spot{Samples: 4})            // a moved body of a process that is gone
	a.add(sampling.Place{Address: 0x555555554000 + 0x1162}, &sampling.Spot{Samples: 10}) // an island, maybe another's
	a.add(sampling.Place{Address: 0x555555554000 + 0x1160}, &sampling.Spot{Samples: 20})
	a.add(sampling.Place{Address: 0x555555554000 + 0x1139}, &sampling.Spot{Samples: 3, Own: true})
	want := []cputime.Function{{Number: 1, Object: "/opt/demo/demo", Address: 0x1160, Samples: 41}}
	if got := a.list(); a.own != 3 || a.guessed != 14 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %d own, %d guessed", got, a.own, a.guessed)
	}
}

// TestShare: a table is of what its process executed last before it was made; what has none
// goes with whoever executed it.
func TestShare(t *testing.T) {
	image := func(pid uint32, began uint64, by *sampling.Image) *sampling.Image {
		return &sampling.Image{Pid: pid, Began: began, Parent: by}
	}
	entry := func(pid uint32, made uint64) *find.Entry {
		return &find.Entry{Header: layout.Header{Identity: layout.Identity{Pid: pid, Monotonic: made}}}
	}
	sh := image(1, 10, nil)
	app := image(1, 20, sh) // in its place
	child := image(2, 30, app)
	grandchild := image(3, 40, child)
	stranger := image(4, 50, nil)
	all := []*sampling.Image{sh, app, child, grandchild, stranger}
	first, second, third := entry(1, 12), entry(1, 22), entry(3, 42)
	got := share(all, []*find.Entry{second, third, first, entry(9, 100)})
	want := map[*find.Entry]*images{first: {counted: sh}, second: {counted: app, others: []*sampling.Image{child}}, third: {counted: grandchild}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
