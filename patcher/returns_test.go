package patcher

import (
	"bytes"
	"cmp"
	"debug/elf"
	"os"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen"
)

// add maps an object of this machine at an address.
func (r *recordedTarget) add(t *testing.T, path string, at uint64) target.Loaded {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := must(elf.NewFile(bytes.NewReader(data)))
	r.files[path] = data
	l := target.Loaded{Name: path, Bias: at, Span: place.Span{Low: at}}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		m := procmaps.Mapping{Start: at + p.Vaddr&^(pageSize-1), Offset: p.Off &^ (pageSize - 1), Dev: "fe:00", Inode: 4711, Path: path}
		for flag, prot := range map[elf.ProgFlag]procmaps.Prot{elf.PF_R: procmaps.ProtRead, elf.PF_W: procmaps.ProtWrite, elf.PF_X: procmaps.ProtExec} {
			if p.Flags&flag != 0 {
				m.Prot |= prot
			}
		}
		code := run{at: m.Start}
		for m.End = m.Start; m.End < at+p.Vaddr+p.Filesz; m.End += pageSize {
			code.bytes = append(code.bytes, pageOf(data, m.Offset+m.End-m.Start)...)
		}
		r.maps, r.runs = append(r.maps, m), append(r.runs, code)
		l.Span.High = m.End
	}
	slices.SortFunc(r.maps, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	r.loaded[path] = l
	return l
}

// TestReturns: what signal handlers of the distribution's C library return to is taken where that is
// asked for, and leads to what takes it; not so where unwinders know it by its bytes alone, as musl's.
func TestReturns(t *testing.T) {
	const entry = 0x70
	for _, row := range []struct {
		path  string
		asks  uint64
		taken bool
	}{
		{"/lib/x86_64-linux-gnu/libc.so.6", entry, true}, {"/lib/x86_64-linux-gnu/libc.so.6", 0, false}, {"/lib/x86_64-linux-musl/libc.so", entry, false},
	} {
		r := open(t)
		q := r.everything()
		last := len(q.Objects) - 1 // the linker
		libc := r.add(t, row.path, q.Objects[0].Bias&^(1<<21-1)+1<<30)
		q.Objects = slices.Insert(q.Objects, last, libc)
		q.Entries.Return = row.asks
		p := must(New(q, r))
		p.Patch()
		check(t, row.path, r, p)
		found := slices.DeleteFunc(p.Returns(), func(at uint64) bool { return at < libc.Span.Low || at >= libc.Span.High })
		code := []byte{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5} // mov $15,%rax; syscall
		if file := r.files[row.path]; !bytes.Contains(file, code) {
			t.Errorf("%s has none", row.path)
		}
		if (len(found) == 1) != row.taken || len(found) > 1 {
			t.Errorf("%s, %#x: %#x", row.path, row.asks, found)
		}
		for _, at := range found {
			if got := r.View(at, len(code)); !bytes.Equal(got, code) {
				t.Errorf("% x is what handlers return to", got)
			}
		}
		if led := slices.ContainsFunc(p.all, func(o *object) bool {
			return o.path == row.path && slices.ContainsFunc(o.sites, func(s stubgen.KernelSite) bool { return p.slowOf(o, &s) == entry })
		}); led != row.taken {
			t.Errorf("%s, %#x: it leads there: %t", row.path, row.asks, led)
		}
	}
}
