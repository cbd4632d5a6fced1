package elfscan

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
)

// TestEntries checks each entry of the assembly fixture: names, sizes, the
// source, and what is excluded.
func TestEntries(t *testing.T) {
	const cold, start, signal, trampoline = ledger.ReasonColdPart, ledger.ReasonStart, ledger.ReasonSignalReturn, ledger.ReasonTrampoline
	symtab := []Function{
		{Addr: 0x00, Size: 3, Name: "_start", Excluded: start, HasFDE: true},
		{Addr: 0x10, Size: 6, Name: "short_global", Aliases: []string{"longer_global", "_a", "w", "l"}, HasFDE: true},
		{Addr: 0x20, Size: 5, Name: "outer", HasFDE: true},
		{Addr: 0x22, Size: 3, Name: "inner"},
		{Addr: 0x30, Size: 5, Name: "split", HasFDE: true},
		{Addr: 0x32, Size: 3, Source: ledger.SourceEhFrame, Excluded: cold, HasFDE: true},
		{Addr: 0x40, Size: 16, Name: "bare"},
		{Addr: 0x50, Size: 8, Source: ledger.SourceEhFrame, Excluded: signal, HasFDE: true},
		{Addr: 0x51, Size: 7, Name: "__restore_rt", Excluded: signal},
		{Addr: 0x60, Size: 1, Name: "_dl_runtime_resolve_fxsave", Excluded: trampoline, HasFDE: true},
		{Addr: 0x70, Size: 6, Source: ledger.SourceEhFrame, HasFDE: true},
	}
	frames := []Function{
		{Addr: 0x00, Size: 3, Excluded: start, HasFDE: true},
		{Addr: 0x10, Size: 6, HasFDE: true},
		{Addr: 0x20, Size: 5, HasFDE: true},
		{Addr: 0x30, Size: 2, HasFDE: true},
		{Addr: 0x32, Size: 3, HasFDE: true},
		{Addr: 0x50, Size: 8, Excluded: signal, HasFDE: true},
		{Addr: 0x60, Size: 1, Excluded: cold, HasFDE: true},
		{Addr: 0x70, Size: 6, HasFDE: true},
	}
	dynamic := []Function{
		{Addr: 0x00, Size: 3, Name: "_start", Excluded: start, HasFDE: true},
		{Addr: 0x10, Size: 6, Name: "short_global", Aliases: []string{"longer_global", "_a", "w"}, HasFDE: true},
		{Addr: 0x20, Size: 5, Name: "outer", HasFDE: true},
		{Addr: 0x22, Size: 3, Name: "inner"},
		{Addr: 0x30, Size: 5, Name: "split", HasFDE: true},
		{Addr: 0x32, Size: 3, Source: ledger.SourceEhFrame, Excluded: cold, HasFDE: true},
		{Addr: 0x40, Size: 16, Name: "bare"},
		{Addr: 0x50, Size: 8, Source: ledger.SourceEhFrame, Excluded: signal, HasFDE: true},
		{Addr: 0x60, Size: 1, Source: ledger.SourceEhFrame, Excluded: cold, HasFDE: true},
		{Addr: 0x70, Size: 6, Source: ledger.SourceEhFrame, HasFDE: true},
	}
	asm := fixture(t, "asm gc")
	for _, row := range []struct {
		name   string
		image  image
		source ledger.Source // of those that have none
		want   []Function
	}{
		{"with symbols", asm, ledger.SourceSymtab, symtab},
		{"stripped", stripped(t, asm), ledger.SourceEhFrame, frames},
		{"stripped library", stripped(t, fixture(t, "asm library")), ledger.SourceDynsym, dynamic},
		{"stripped library without section headers", headless(fixture(t, "asm library")), ledger.SourceDynsym, dynamic},
		{"without .eh_frame_hdr", fixture(t, "asm no eh hdr"), ledger.SourceSymtab, symtab},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.image.scan(t).Functions
			if unused := slices.IndexFunc(got, func(fn Function) bool { return fn.Addr&0xff == 0x76 }); unused >= 0 {
				got = slices.Delete(got, unused, unused+1) // kept without --gc-sections
			}
			want := slices.Clone(row.want)
			for i := range want {
				want[i].Addr += got[0].Addr &^ 0xff
				if want[i].Source == ledger.SourceNone {
					want[i].Source = row.source
				}
			}
			diffFunctions(t, got, want)
		})
	}
}

// diffFunctions compares functions one by one.
func diffFunctions(t *testing.T, got, want []Function) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d functions, want %d", len(got), len(want))
	}
	differences := 0
	for i := range min(len(got), len(want)) {
		if g, w := got[i].String(), want[i].String(); g != w && differences < 5 {
			t.Errorf("got  %s\nwant %s", g, w)
			differences++
		}
	}
}

// TestCompiled checks what only a compiler makes: parts, indirect functions,
// aliases and landing pads, for each way to build the same source.
func TestCompiled(t *testing.T) {
	for _, name := range []string{"c", "c no-pie", "c static", "c static-pie", "c library", "c relr", "c cet", "c one segment", "c gold", "c lld"} {
		t.Run(name, func(t *testing.T) {
			o := fixture(t, name).scan(t)
			names := byName(o)
			for name, reason := range map[string]ledger.Reason{
				"sum": 0, "leaf": 0, "fast": 0, "slow": 0, "strong_name": 0, "resolve": 0, "local": 0,
				"sum.cold": ledger.ReasonColdPart, "leaf.cold": ledger.ReasonColdPart,
				"_init": ledger.ReasonInitFini, "_fini": ledger.ReasonInitFini, "_start": ledger.ReasonStart,
			} {
				if name == "_start" && o.Soname != "" {
					continue // a library has none
				}
				if fn := names[name]; fn == nil || fn.Excluded != reason || fn.Size == 0 {
					t.Errorf("%s: %v, want reason %q", name, fn, reason)
				}
			}
			resolver := names["resolve"]
			if !resolver.IFuncResolver || resolver.Name != "resolve" || !slices.Contains(resolver.Aliases, "chosen") {
				t.Errorf("resolver: %v", resolver)
			}
			if !slices.ContainsFunc(o.IFuncs, func(f IFunc) bool { return f.Resolver == resolver.Addr }) {
				t.Errorf("resolver %#x is not in %+v", resolver.Addr, o.IFuncs)
			}
			alias := names["weak_name"]
			if alias.Name != "strong_name" || !slices.Equal(alias.Aliases, []string{"_under_name", "weak_name"}) {
				t.Errorf("aliases: %v", alias)
			}
			if o.Type == elf.ET_DYN { // position independent: relocations tell pointers
				for _, name := range []string{"leaf", "local"} {
					if _, ok := slices.BinarySearch(o.CodePointers, names[name].Addr); !ok {
						t.Errorf("%s at %#x is not among the code pointers %#x", name, names[name].Addr, o.CodePointers)
					}
				}
			}
		})
	}
	for _, name := range []string{"c++", "c++ static", "c++ clang"} {
		t.Run(name, func(t *testing.T) {
			for name, fn := range byName(fixture(t, name).scan(t)) {
				if strings.HasPrefix(name, "_Z5total") && !fn.LSDA || name == "_ZNK6Square4areaEv" && fn.LSDA {
					t.Errorf("%s: %v", name, fn)
				}
			}
		})
	}
}

// TestHeadless demands that a file tells the same without section headers, but
// for .symtab. A static one has no dynamic section to say where relocations
// are, and one without .eh_frame_hdr then tells of no function at all.
func TestHeadless(t *testing.T) {
	eachImage(t, func(t *testing.T, m image) {
		whole, bare := m.scan(t), headless(m).scan(t)
		if slices.ContainsFunc(whole.Functions, func(fn Function) bool { return fn.Source == ledger.SourceSymtab }) {
			whole = symtabless(t, m).scan(t)
		}
		if bare.SectionHeaders || !whole.SectionHeaders {
			t.Errorf("section headers: %v and %v", bare.SectionHeaders, whole.SectionHeaders)
		}
		bare.SectionHeaders = true
		if !whole.Dynamic {
			whole.IFuncs, whole.CodePointers = nil, bare.CodePointers
			for i := range whole.Functions {
				whole.Functions[i].IFuncResolver = false
			}
		}
		if f, err := elf.NewFile(m.r); err != nil || prog(f, elf.PT_GNU_EH_FRAME) == nil {
			whole.Functions, whole.LandingPads = nil, nil
		}
		diffFunctions(t, bare.Functions, whole.Functions)
		if len(bare.Code) > 0 && bare.Code[0].Low < whole.Code[0].Low {
			t.Errorf("code at %#x, with section headers %#x", bare.Code, whole.Code)
		}
		bare.Functions, whole.Functions, bare.Code, whole.Code, whole.DataInText = nil, nil, nil, nil, nil // of code sections tell more
		if g, w := fmt.Sprintf("%+v", bare), fmt.Sprintf("%+v", whole); g != w {
			t.Errorf("got  %.300s\nwant %.300s", g, w)
		}
	})
}

// TestRefused checks the errors that a caller may tell apart.
func TestRefused(t *testing.T) {
	header := func(edit func([]byte)) image {
		b := make([]byte, headerSize)
		copy(b, "\x7fELF\x02\x01\x01")
		b[16], b[18] = 3, 62 // ET_DYN, EM_X86_64
		edit(b)
		return image{"header", strings.NewReader(string(b)), headerSize}
	}
	for _, row := range []struct {
		name  string
		image image
		want  error
	}{
		{"empty", image{"", strings.NewReader(""), 0}, ErrNotELF},
		{"script", image{"", strings.NewReader("#!/bin/sh\n"), 10}, ErrNotELF},
		{"magic only", image{"", strings.NewReader("\x7fELF"), 4}, ErrTruncated},
		{"half a header", image{"", strings.NewReader("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 30)), 37}, ErrTruncated},
		{"shorter than said", image{"", strings.NewReader("\x7fELF\x02\x01\x01"), 4096}, ErrTruncated},
		{"32-bit", header(func(b []byte) { b[4] = 1 }), ErrClass32},
		{"object file", fixture(t, "object file"), ErrType},
		{"core", header(func(b []byte) { b[16] = 4 }), ErrType},
		{"AArch64", header(func(b []byte) { b[18] = 183 }), ErrMachine},
		{"big-endian", header(func(b []byte) { b[5] = 2 }), ErrMachine},
		{"class 0", header(func(b []byte) { b[4] = 0 }), ErrMachine},
		{"program headers outside", header(func(b []byte) { b[32], b[54], b[56] = 64, progSize, 1 }), ErrTruncated},
		{"too many program headers", header(func(b []byte) { b[54], b[56], b[57] = progSize, 0xff, 0xff }), ErrTruncated},
		{"nothing but a header", header(func([]byte) {}), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			o, err := Scan(row.image.r, row.image.size)
			if !errors.Is(err, row.want) || (o == nil) != (err != nil) {
				t.Fatalf("got %v, %v, want %v", o, err, row.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
		})
	}
}

// TestReadError demands that the reader's own error comes through.
func TestReadError(t *testing.T) {
	want := errors.New("input/output error")
	if _, err := Scan(failingReader{want}, 4096); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

type failingReader struct{ error }

func (r failingReader) ReadAt([]byte, int64) (int, error) { return 0, r.error }

// TestPanic demands that a panic of the reader ends in an error.
func TestPanic(t *testing.T) {
	if o, err := Scan(nil, 4096); o != nil || !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v, %v", o, err)
	}
}
