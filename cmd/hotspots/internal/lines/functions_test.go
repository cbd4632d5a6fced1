package lines

import (
	"debug/elf"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
)

// entries are the addresses of functions by their names.
func entries(t testing.TB, path string) map[string]uint64 {
	t.Helper()
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	symbols, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			all[s.Name] = s.Value
		}
	}
	return all
}

// TestFunctions: lines of entries and names of what was inlined are told, whatever version of
// DWARF and compiler made them; of damaged files nothing but errors.
func TestFunctions(t *testing.T) {
	for _, flags := range [][]string{{"-g", "-O2"}, {"-gdwarf-4", "-O2"}, {"-g", "-O2", "-flto"}, {"-g", "-O0"}, {"-O2"}} {
		o := program(t, flags...)
		at := entries(t, o.Path)
		f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if flags[0] == "-O2" {
			if f != nil {
				t.Error("lines without debug information")
			}
			continue
		}
		known, err := f.Functions([]uint64{at["main"], at["f"], 1})
		if err != nil || len(known) != 2 {
			t.Fatalf("%v: %v, %v", flags, known, err)
		}
		inlined := []string{"twice"}
		if flags[1] == "-O0" {
			inlined = nil
		}
		one := known[at["f"]]
		if filepath.Base(one.File) != "p.c" || one.Line != 7 && one.Line != 8 || !slices.Equal(one.Inlined, inlined) {
			t.Errorf("%v: %+v", flags, one)
		}
		damaged(f, slices.Collect(maps.Values(at)))
	}
}

// damaged reads a file with bytes that are others.
func damaged(f *File, at []uint64) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		one := &File{Path: f.Path, sections: maps.Clone(f.sections), shared: maps.Clone(f.shared)}
		for _, sections := range []map[string][]byte{one.sections, one.shared} {
			for _, name := range []string{"info", "abbrev", "ranges", "rnglists", "line"} {
				if b := slices.Clone(sections[name]); len(b) > 0 {
					b[random.IntN(len(b))] = byte(random.Uint32())
					sections[name] = b
				}
			}
		}
		one.Functions(at)
	}
}

// TestNoEnd: a unit that ends within an entry's number is read, and not for ever.
func TestNoEnd(t *testing.T) {
	unit := "\x11\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08" + "\x01" + "\x00\x10\x00\x00\x00\x00\x00\x00" + "\x20" + "\x80"
	unit = string(rune(len(unit)-4)) + unit[1:]
	f := &File{sections: map[string][]byte{
		"info":   []byte(unit),
		"abbrev": []byte("\x01\x11\x01" + "\x11\x01" + "\x12\x0b" + "\x00\x00" + "\x00"), // DW_TAG_compile_unit, low_pc, high_pc
	}}
	if all, err := f.Functions([]uint64{0x1000}); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func FuzzFunctions(f *testing.F) {
	f.Add([]byte("\x0c\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01\x00\x00\x00\x00"), []byte("\x01\x11\x01\x00\x00\x00"), []byte{}, uint64(0x1000))
	f.Fuzz(func(_ *testing.T, info, abbrev, ranges []byte, at uint64) {
		one := &File{sections: map[string][]byte{"info": info, "abbrev": abbrev, "ranges": ranges}}
		one.Functions([]uint64{at, at + 1})
	})
}
