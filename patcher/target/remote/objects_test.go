package remote

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// fake is the memory of a process with a program and a library.
type fake struct {
	b    []byte
	auxv Auxv
	maps []procmaps.Mapping
}

const (
	base    = 0x10000
	phdrs   = base + 0x40
	dynamic = base + 0x400
	rdebug  = base + 0x800
	maps1   = base + 0x900 // link maps
	maps2   = base + 0x940
	maps3   = base + 0x980
	names   = base + 0xa00
	library = base + 0x4000
	vdso    = base + 0x8000
	end     = base + 0x9000
)

func (f *fake) ReadAt(b []byte, at int64) (int, error) {
	if at < base || at+int64(len(b)) > end {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, f.b[at-base:]), nil
}

func (f *fake) words(at uint64, all ...uint64) {
	for i, v := range all {
		binary.LittleEndian.PutUint64(f.b[at-base+uint64(8*i):], v)
	}
}

func (f *fake) header(at uint64, kind elf.ProgType, flags elf.ProgFlag, vaddr, size uint64) {
	f.words(at, uint64(kind)|uint64(flags)<<32, 0, vaddr, 0, size, size, 0)
}

func newFake() *fake {
	f := &fake{b: make([]byte, end-base), auxv: Auxv{AtPhdr: phdrs, AtPhent: 56, AtPhnum: 4, AtSysinfo: vdso}}
	f.header(phdrs, elf.PT_PHDR, elf.PF_R, 0x40, 4*56)
	f.header(phdrs+56, elf.PT_INTERP, elf.PF_R, 0x300, 8)
	f.header(phdrs+2*56, elf.PT_LOAD, elf.PF_R|elf.PF_X, 0, 0x2100)
	f.header(phdrs+3*56, elf.PT_DYNAMIC, elf.PF_R, 0x400, 48)
	f.words(dynamic, uint64(elf.DT_NEEDED), 1, uint64(elf.DT_DEBUG), rdebug, 0, 0)
	f.words(rdebug, 1, maps1, library+0x123, 0, library, 0)
	f.words(maps1, base, names, dynamic, maps2)
	f.words(maps2, vdso, names, vdso, maps3)
	f.words(maps3, library, names+1, library+0x200, 0)
	copy(f.b[names-base:], "\x00/lib/libx.so\x00")
	copy(f.b[library-base:], elf.ELFMAG)
	f.words(library+32, 0x40)
	binary.LittleEndian.PutUint16(f.b[library-base+54:], 56)
	binary.LittleEndian.PutUint16(f.b[library-base+56:], 1)
	f.header(library+0x40, elf.PT_LOAD, elf.PF_R|elf.PF_X, 0, 0x1800)
	f.maps = []procmaps.Mapping{
		{Start: base, End: base + 0x3000, Inode: 1, Path: "/bin/x"},
		{Start: library, End: library + 0x100, Inode: 2, Path: "/lib/libx.so"},
		{Start: library + 0x100, End: library + 0x2000, Offset: 0x100, Inode: 2, Path: "/lib/libx.so"},
	}
	return f
}

func TestFindLinker(t *testing.T) {
	f := newFake()
	begun, err := Begun(f, f.auxv, f.maps)
	if err != nil || begun.Static || len(begun.Tails) != 1 {
		t.Errorf("%+v, %v", begun, err)
	}
	l, err := FindLinker(f, f.auxv, f.maps)
	if err != nil {
		t.Fatal(err)
	}
	if l.RDebug != rdebug || l.Hook != library+0x123 || len(l.Objects) != 2 {
		t.Fatalf("%+v", l)
	}
	if o := l.Objects[0]; o.Name != "" || o.Bias != base || o.Span != (place.Span{Low: base, High: base + 0x2100}) {
		t.Errorf("%+v", o)
	}
	if o := l.Objects[1]; o.Name != "/lib/libx.so" || o.Bias != library || o.Span != (place.Span{Low: library, High: library + 0x1800}) {
		t.Errorf("%+v", o)
	}
	want := []place.Span{{Low: library + 0x1800, High: library + 0x2000}, {Low: base + 0x2100, High: base + 0x3000}}
	if len(l.Tails) != 2 || l.Tails[0] != want[0] || l.Tails[1] != want[1] {
		t.Errorf("%#x", l.Tails)
	}
}

// TestFindLinkerHostile: whatever is in the memory of a process is an error, and no end of it.
func TestFindLinkerHostile(t *testing.T) {
	for name, row := range map[string]struct {
		change func(f *fake)
		want   string
	}{
		"no dynamic":      {func(f *fake) { f.header(phdrs+3*56, elf.PT_NOTE, elf.PF_R, 0, 0) }, "DT_DEBUG"},
		"unknown":         {func(f *fake) { f.header(phdrs, elf.PT_NOTE, elf.PF_R, 0, 0); f.maps = nil }, "do not say where they are"},
		"loads":           {func(f *fake) { f.words(rdebug+24, 1) }, ErrLoading.Error()},
		"has just begun":  {func(f *fake) { f.words(dynamic+24, 0) }, ErrLoading.Error()},
		"no debug":        {func(f *fake) { f.words(dynamic+16, 0) }, "DT_DEBUG"},
		"circle":          {func(f *fake) { f.words(maps3+24, maps2) }, "no end"},
		"namespaces":      {func(f *fake) { f.words(rdebug, 2); f.words(rdebug+40, rdebug) }, "no end"},
		"headers":         {func(f *fake) { f.auxv[AtPhent] = 1 << 40 }, "not understood"},
		"many headers":    {func(f *fake) { f.auxv[AtPhnum] = 1 << 40 }, "too many"},
		"nowhere":         {func(f *fake) { f.words(maps3+16, 0x1000) }, "memory of no file"},
		"no name":         {func(f *fake) { f.words(maps3+8, 0x1000) }, "cannot be read"},
		"not the program": {func(f *fake) { f.words(maps1, 0x1000) }, "does not begin with the program"},
		"no list":         {func(f *fake) { f.words(rdebug+8, 0) }, "does not begin with the program"},
		"wild":            {func(f *fake) { f.words(dynamic+24, 1<<63) }, "cannot be read"},
	} {
		f := newFake()
		row.change(f)
		_, err := FindLinker(f, f.auxv, f.maps)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "nowhere" && !errors.Is(err, ErrLoading) {
			t.Errorf("a library that came meanwhile is not waited for: %v", err)
		}
	}
	if _, err := FindLinker(newFake(), Auxv{}, nil); err == nil {
		t.Error("no vector is no error")
	}
}

// TestStatic: without a dynamic linker the headers tell where the program lies, and mappings
// what else has code.
func TestStatic(t *testing.T) {
	f := newFake()
	f.header(phdrs, elf.PT_NOTE, elf.PF_R, 0, 0)
	f.header(phdrs+56, elf.PT_NOTE, elf.PF_R, 0, 0)
	f.words(vdso+40, 0x200, 0, 2<<32|64<<16)
	f.maps[2].Prot = procmaps.ProtRead | procmaps.ProtExec
	f.maps = append(f.maps, procmaps.Mapping{Start: vdso, End: vdso + 0x1000, Path: "[vdso]"})
	l, err := FindLinker(f, f.auxv, f.maps)
	if err != nil {
		t.Fatal(err)
	}
	want := []target.Loaded{
		{Bias: base, Span: place.Span{Low: base, High: base + 0x2100}},
		{Name: "/lib/libx.so", Bias: library, Span: place.Span{Low: library, High: library + 0x1800}},
	}
	tails := []place.Span{{Low: base + 0x2100, High: base + 0x3000}, {Low: library + 0x1800, High: library + 0x2000}, {Low: vdso + 0x280, High: vdso + 0x1000}}
	if !l.Static || l.RDebug != 0 || l.Hook != 0 || !slices.Equal(l.Objects, want) || !slices.Equal(l.Tails, tails) {
		t.Errorf("%+v", *l)
	}
	f.maps[2].Prot = procmaps.ProtRead // a file that the program reads
	if l, err = FindLinker(f, f.auxv, f.maps); err != nil || !slices.Equal(l.Objects, want[:1]) {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestParseAuxv(t *testing.T) {
	b := make([]byte, 40)
	b[0], b[8] = AtPhdr, 7
	if a := ParseAuxv(b); a[AtPhdr] != 7 || len(a) != 1 {
		t.Errorf("%v", a)
	}
}

// TestGrowth: what is below libraries, where the kernel maps next, counts as mapped, and so
// does what will be ours.
func TestGrowth(t *testing.T) {
	const gb = 1 << 30
	maps := []procmaps.Mapping{{Start: gb, End: gb + 1}, {Start: 10 * gb, End: 11 * gb}, {Start: 12 * gb, End: 13 * gb}}
	got := withGrowth(maps)
	want := []procmaps.Mapping{maps[0], {Start: 10*gb - gb/2, End: 10 * gb}, maps[1], maps[2]}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for at, taken := range map[uint64]bool{gb - 1: false, gb: true, gb + 1: false, 10*gb - 1: false, 11*gb - 1: true, 11 * gb: false} {
		if IsTaken(maps, at, at+1) != taken {
			t.Errorf("%#x", at)
		}
	}
}
