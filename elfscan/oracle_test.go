package elfscan

import (
	"bufio"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
)

// eachImage runs a test for every fixture that can be scanned and every real
// file.
func eachImage(t *testing.T, test func(*testing.T, image)) {
	for _, name := range slices.Sorted(maps.Keys(builds)) {
		if name == "object file" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := fixture(t, name)
			test(t, m)
			t.Run("stripped", func(t *testing.T) { test(t, stripped(t, m)) })
		})
	}
	eachReal(t, test)
}

// TestFramesAgainstReadelf compares the FDEs with those that readelf sees.
func TestFramesAgainstReadelf(t *testing.T) {
	line := regexp.MustCompile(`FDE cie=\w+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
	eachImage(t, func(t *testing.T, m image) {
		f, err := open(m.r, m.size)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []span
		for _, g := range line.FindAllStringSubmatch(run(t, "readelf", "-wNf", m.path), -1) {
			s := span{parseHex(t, g[1]), parseHex(t, g[2])}
			if s.lo != s.hi && f.text.has(s.lo) {
				want = append(want, s)
			}
		}
		found, _ := f.frames()
		for _, d := range found {
			lo := f.textLow + uint64(d.addr)
			got = append(got, span{lo, lo + uint64(d.size)})
		}
		if len(want) == 0 || len(f.problems) > 0 {
			t.Fatalf("%d FDEs, problems %v", len(want), f.problems)
		}
		slices.SortFunc(want, func(a, b span) int { return int(a.lo) - int(b.lo) })
		if !slices.Equal(got, want) {
			t.Errorf("%d FDEs, readelf has %d", len(got), len(want))
		}
	})
}

// TestSymbolsAgainstReadelf demands that each function symbol has an entry
// that bears its name, and that each name stands where readelf says.
func TestSymbolsAgainstReadelf(t *testing.T) {
	eachImage(t, func(t *testing.T, m image) {
		o := m.scan(t)
		want := readelfSymbols(t, m.path, o)
		got := map[uint64][]string{}
		for _, fn := range o.Functions {
			if fn.Name == "" {
				if fn.Source != ledger.SourceEhFrame || len(fn.Aliases) > 0 {
					t.Errorf("unnamed %v", fn)
				}
				continue
			}
			names := append([]string{fn.Name}, fn.Aliases...)
			for i, name := range names {
				names[i], _, _ = strings.Cut(name, "@")
			}
			slices.Sort(names)
			got[fn.Addr] = slices.Compact(names)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d named addresses, readelf has %d", len(got), len(want))
			reportDifference(t, got, want)
		}
	})
}

// readelfSymbols returns the names of each address, without versions.
func readelfSymbols(t *testing.T, path string, o *Object) map[uint64][]string {
	t.Helper()
	out := map[uint64][]string{}
	lines := bufio.NewScanner(strings.NewReader(run(t, "readelf", "-Ws", path)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// Num: Value Size Type Bind Vis [Other] Ndx Name
		// lld does not mark its files as GNU's.
		p := strings.Fields(strings.Replace(lines.Text(), "<OS specific>: 10", "IFUNC", 1))
		if len(p) < 8 || p[3] != "FUNC" && p[3] != "IFUNC" || p[6] == "UND" || p[6] == "ABS" {
			continue
		}
		addr := parseHex(t, p[1])
		if !slices.ContainsFunc(o.Segments, func(s Segment) bool {
			return s.Flags&elf.PF_X != 0 && addr >= s.Addr && addr-s.Addr < s.FileSize
		}) {
			continue
		}
		name, _, _ := strings.Cut(p[7], "@")
		if !slices.Contains(out[addr], name) {
			out[addr] = append(out[addr], name)
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

func reportDifference(t *testing.T, got, want map[uint64][]string) {
	n := 0
	for addr := range want {
		if n < 5 && !slices.Equal(got[addr], want[addr]) {
			t.Errorf("%#x: %q, want %q", addr, got[addr], want[addr])
			n++
		}
	}
}

// TestDynamicAgainstNm demands that each exported function stands where nm
// says.
func TestDynamicAgainstNm(t *testing.T) {
	eachReal(t, func(t *testing.T, m image) {
		o := m.scan(t)
		symbols := dynamicSymbols(t, m)
		n := 0
		for _, line := range strings.Split(run(t, "nm", "-D", "--defined-only", m.path), "\n") {
			p := strings.Fields(line)
			if len(p) != 3 || !strings.Contains("TWi", p[1]) {
				continue
			}
			addr := parseHex(t, p[0])
			name, _, _ := strings.Cut(p[2], "@")
			if !slices.ContainsFunc(symbols[addr], isFunction) {
				continue // to nm, all that lies in .text is T
			}
			fn := findFunction(o.Functions, addr)
			if fn == nil || fn.Name != name && !slices.Contains(fn.Aliases, name) {
				t.Errorf("%s: %v", line, fn)
			}
			n++
		}
		t.Logf("%d exported functions", n)
	})
}

// dynamicSymbols returns the dynamic symbols of each address by debug/elf.
func dynamicSymbols(t *testing.T, m image) map[uint64][]elf.Symbol {
	t.Helper()
	out := map[uint64][]elf.Symbol{}
	f, err := elf.NewFile(m.r)
	if err != nil {
		t.Fatal(err)
	}
	syms, _ := f.DynamicSymbols() // fails without .dynsym
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF {
			out[s.Value] = append(out[s.Value], s)
		}
	}
	return out
}

func isFunction(s elf.Symbol) bool {
	return elf.ST_TYPE(s.Info) == elf.STT_FUNC || elf.ST_TYPE(s.Info) == elf.STT_GNU_IFUNC
}

// TestRelocationsAgainstReadelf compares CodePointers and IFuncs with the
// relocations that readelf lists.
func TestRelocationsAgainstReadelf(t *testing.T) {
	symbolic := []string{"R_X86_64_64", "R_X86_64_GLOB_DAT", "R_X86_64_JUMP_SLOT"}
	eachImage(t, func(t *testing.T, m image) {
		o := m.scan(t)
		f, err := elf.NewFile(m.r)
		if err != nil {
			t.Fatal(err)
		}
		want, resolvers := map[uint64]bool{}, 0
		syms, _ := f.DynamicSymbols() // fails without .dynsym
		for _, s := range syms {      // exported labels count, too
			if elf.ST_TYPE(s.Info) == elf.STT_NOTYPE && s.Section != elf.SHN_UNDEF {
				want[s.Value] = true
			}
		}
		for _, line := range strings.Split(run(t, "readelf", "-rW", m.path), "\n") {
			p := strings.Fields(line)
			switch {
			case len(p) == 1 && len(p[0]) == 16: // RELR: the address of a word
				want[word(t, f, parseHex(t, p[0]))] = true
			case len(p) == 4 && (p[2] == "R_X86_64_RELATIVE" || p[2] == "R_X86_64_IRELATIVE"):
				want[parseHex(t, p[3])] = true
				if p[2] == "R_X86_64_IRELATIVE" {
					resolvers++
				}
			case len(p) > 4 && slices.Contains(symbolic, p[2]):
				sym := syms[parseHex(t, p[1])>>32-1]
				addend := uint64(0)
				if p[2] == "R_X86_64_64" {
					addend = parseHex(t, p[len(p)-1])
				}
				if sym.Section != elf.SHN_UNDEF {
					want[sym.Value+addend] = true
				}
			}
		}
		for addr := range want {
			if !inText(o, addr) {
				delete(want, addr)
			}
		}
		if !slices.Equal(o.CodePointers, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%d code pointers, readelf has %d", len(o.CodePointers), len(want))
		}
		slots := 0
		for _, i := range o.IFuncs {
			if i.Slot != 0 {
				slots++
			}
			if fn := findFunction(o.Functions, i.Resolver); fn == nil || !fn.IFuncResolver {
				t.Errorf("resolver of %+v: %v", i, fn)
			}
		}
		if slots != resolvers {
			t.Errorf("%d IRELATIVE, readelf has %d", slots, resolvers)
		}
		t.Logf("%d code pointers, %d ifuncs", len(o.CodePointers), len(o.IFuncs))
	})
}

func inText(o *Object, addr uint64) bool {
	for _, s := range o.Segments {
		if s.Flags&elf.PF_X != 0 && addr >= s.Addr && addr-s.Addr < s.FileSize {
			return addr >= s.Addr+headerSize || s.Offset != 0
		}
	}
	return false
}

// word reads the word at addr by debug/elf.
func word(t *testing.T, f *elf.File, addr uint64) uint64 {
	t.Helper()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr+8 <= p.Vaddr+p.Filesz {
			var b [8]byte
			if _, err := p.ReadAt(b[:], int64(addr-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
			return le.Uint64(b[:])
		}
	}
	t.Fatalf("nothing is mapped at %#x", addr)
	return 0
}

// TestHeadersAgainstDebugELF compares what an object tells of itself.
func TestHeadersAgainstDebugELF(t *testing.T) {
	buildID := regexp.MustCompile(`Build ID: ([0-9a-f]+)`)
	eachImage(t, func(t *testing.T, m image) {
		o := m.scan(t)
		f, err := elf.NewFile(m.r)
		if err != nil {
			t.Fatal(err)
		}
		needed, _ := f.ImportedLibraries() // fails without .dynamic
		soname, _ := f.DynString(elf.DT_SONAME)
		id := ""
		if g := buildID.FindStringSubmatch(run(t, "readelf", "-nW", m.path)); g != nil {
			id = g[1]
		}
		got := []any{o.Type, o.Entry, o.Dynamic, o.Needed, o.Soname, o.Interp, hex.EncodeToString(o.BuildID), o.SectionHeaders}
		want := []any{f.Type, f.Entry, prog(f, elf.PT_DYNAMIC) != nil, needed, strings.Join(soname, ""), interpOf(f), id, true}
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Errorf("%s, want %s", g, w)
		}
	})
}

func prog(f *elf.File, typ elf.ProgType) *elf.Prog {
	for _, p := range f.Progs {
		if p.Type == typ {
			return p
		}
	}
	return nil
}

func interpOf(f *elf.File) string {
	p := prog(f, elf.PT_INTERP)
	if p == nil {
		return ""
	}
	b := make([]byte, p.Filesz-1)
	if _, err := p.ReadAt(b, 0); err != nil {
		return err.Error()
	}
	return string(b)
}

func parseHex(t testing.TB, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
