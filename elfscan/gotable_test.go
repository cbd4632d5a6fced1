package elfscan

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/ledger"
)

// goFunc is a function of a file that goFile makes: how long it is, and how far
// away the next one. The size of a function of C the table does not tell.
type goFunc struct {
	name       string
	code, room uint64
}

var goFuncs = []goFunc{
	{"main.a", 10, 16}, {"main.(*T).b[go.shape.int]", 300, 304}, {"main.cold", 16, 16},
	{"x_cgo_init.cold", 0, 32}, {"memeqbody", 1, 16},
}

var goMagics = map[string]uint32{"Go 1.2": goMagic12, "Go 1.16": goMagic116, "Go 1.18": goMagic118, "Go 1.20": goMagic120}

// goTableBytes is a table in the format of a magic: header, entries, records,
// names, tables of PCs.
func goTableBytes(magic uint32, text uint64, funcs []goFunc) []byte {
	old, offsets := magic == goMagic12, 40
	number := func(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }
	width, base := 8, text
	if magic == goMagic118 || magic == goMagic120 {
		number = func(b []byte, v uint64) []byte { return le.AppendUint32(b, uint32(v)) }
		width, base, offsets = 4, 0, 48
	}
	if old {
		offsets = -8
	}
	pairsAt := 24 + offsets
	recordsAt := pairsAt + width*(2*len(funcs)+1)
	namesAt := recordsAt + len(funcs)*(width+44)
	pcsAt := namesAt + 1
	for _, f := range funcs {
		pcsAt += len(f.name) + 1
	}
	from := func(at int) int { // what offsets count from
		if old {
			return 0
		}
		return at
	}
	b := le.AppendUint64(nil, uint64(magic)|goMagicTail<<32)
	b = le.AppendUint64(b, uint64(len(funcs)))
	if !old {
		b = le.AppendUint64(b, 1) // files
		b = append(b, make([]byte, offsets-40)...)
		for _, at := range []int{namesAt, 0, 0, pcsAt, pairsAt} {
			b = le.AppendUint64(b, uint64(at))
		}
	}
	var records []byte
	names, pcs, pc := []byte{0}, []byte{0}, base
	for i, f := range funcs {
		b = number(number(b, pc), uint64(recordsAt-from(pairsAt)+i*(width+44)))
		records = le.AppendUint32(number(records, pc), uint32(namesAt-from(namesAt)+len(names)))
		names = append(append(names, f.name...), 0)
		pcsp := uint32(0)
		if f.code > 0 { // one row of its first bytes, of value 0; one of the rest
			pcsp = uint32(pcsAt - from(pcsAt) + len(pcs))
			pcs = append(pcs, 0, 1)
			if f.code > 1 {
				pcs = binary.AppendUvarint(append(pcs, 16), f.code-1)
			}
			pcs = append(pcs, 0)
		}
		records = le.AppendUint32(append(records, make([]byte, 8)...), pcsp)
		records = append(records, make([]byte, 28)...)
		pc += f.room
	}
	return slices.Concat(number(b, pc), records, names, pcs)
}

// goFile is a file without sections, with a table and what points at it.
func goFile(table []byte, text, high uint64) []byte {
	return hostile(0, goContent(table, text, high, false))
}

// goContent has the text in front, a note, what the runtime knows of the object, and
// the table; relocated: what the runtime knows is left to relocations, and there are
// sections.
func goContent(table []byte, text, high uint64, relocated bool) func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
	return func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		const noteAt, moduleAt, relaAt, dynamicAt, tableAt = 768, 1024, 1280, 1536, 2048
		b := make([]byte, tableAt-off)
		note := append([]byte{4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0}, "Go\x00\x00abcd"...)
		copy(b[noteAt-off:], note)
		const data, relative = 1 << 20, 8 // where the module is mapped
		for i, word := range [][2]uint64{{0, tableAt}, {goModuleLow, text}, {goModuleHigh, high}, {goModuleText, text}} {
			if !relocated {
				le.PutUint64(b[moduleAt-off+word[0]:], word[1])
				continue
			}
			for k, v := range []uint64{data + moduleAt + word[0], relative, word[1]} {
				le.PutUint64(b[relaAt-off+uint64(relaSize*i+8*k):], v)
			}
		}
		for i, v := range []uint64{uint64(elf.DT_RELA), relaAt, uint64(elf.DT_RELASZ), 4 * relaSize} {
			le.PutUint64(b[dynamicAt-off+uint64(8*i):], v)
		}
		b = append(b, table...)
		var sections []elf.Section64
		if relocated {
			sections = []elf.Section64{{}, strtab(off, 1)}
		}
		return b, sections, []elf.Prog64{
			textSegment(off + uint64(len(b))),
			{Type: uint32(elf.PT_DYNAMIC), Off: dynamicAt, Vaddr: dynamicAt, Filesz: 48, Memsz: 48},
			{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: moduleAt, Vaddr: data + moduleAt, Filesz: goModuleSize, Memsz: goModuleSize},
			{Type: uint32(elf.PT_NOTE), Off: noteAt, Vaddr: noteAt, Filesz: uint64(len(note)), Memsz: uint64(len(note)), Align: 4},
		}
	}
}

const goText = 448 // where the functions of a goFile are

// goSeeds are small files with Go tables: one of each format, and one as linkers
// make it of an object that is position-independent.
func goSeeds() map[string][]byte {
	files := map[string][]byte{}
	for name, magic := range goMagics {
		files[name] = goFile(goTableBytes(magic, goText, goFuncs), goText, goText+384)
	}
	files["Go PIE"] = hostile(2, goContent(goTableBytes(goMagic118, goText, goFuncs), goText, goText+384, true))
	return files
}

// TestGoTable reads a table of each format.
func TestGoTable(t *testing.T) {
	for name, b := range goSeeds() {
		t.Run(name, func(t *testing.T) {
			o, err := scan(bytes.NewReader(b), int64(len(b)))
			if err != nil || len(o.Problems) > 0 || !o.Go {
				t.Fatal(err, o)
			}
			addr := uint64(goText)
			for i, f := range goFuncs {
				want := Function{Addr: addr, Size: f.code, Name: f.name, Source: ledger.SourceGopclntab}
				if f.code == 0 { // only of such a one the name tells what it is
					want.Size, want.Guessed, want.Excluded = f.room, true, ledger.ReasonColdPart
				}
				if i >= len(o.Functions) || fmt.Sprint(o.Functions[i]) != fmt.Sprint(want) {
					t.Fatalf("%+v, not %+v", o.Functions, want)
				}
				addr += f.room
			}
		})
	}
}

// TestGoTableUnsure: where nothing says where entries count from, or something
// else than the table does, there are no functions, but a problem.
func TestGoTableUnsure(t *testing.T) {
	table := goTableBytes(goMagic120, goText, goFuncs)
	for name, b := range map[string][]byte{
		"end":      goFile(table, goText, goText+385),
		"text":     goFile(table, goText+1<<30, goText+384),
		"backward": goFile(goTableBytes(goMagic120, goText, append([]goFunc{{"x", 1, math.MaxUint32 - 15}}, goFuncs...)), goText, goText+384),
	} {
		o, err := scan(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(o.Functions) > 0 || len(o.Problems) != 1 {
			t.Errorf("%s: %v %+v", name, err, o)
		}
	}
}

// goBuild builds a Go program that a C linker links.
func goBuild(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "../test/testdata/golang/main.go")...)
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=", "GOWORK=off")
	if msg, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	return path
}

// TestGoTableOracle compares real tables with what Go's own package reads of them,
// first this test's.
func TestGoTableOracle(t *testing.T) {
	type program struct {
		name string
		file func(t *testing.T) string
	}
	for _, row := range lane.Some([]program{
		{"self", func(t *testing.T) string { return os.Args[0] }},
		{"podman", func(t *testing.T) string { return "/usr/bin/podman" }},
		{"pie", func(t *testing.T) string { return goBuild(t, "-buildmode=pie", "-ldflags=-s -w") }},
	}, 0) {
		t.Run(row.name, func(t *testing.T) {
			m := realImage(t, row.file(t))
			o := m.scan(t)
			compareGoTable(t, o, goFunctions(t, m, o))
			noSections := make([]byte, m.size)
			if _, err := m.r.ReadAt(noSections, 0); err != nil {
				t.Fatal(err)
			}
			clear(noSections[40:48])
			clear(noSections[58:64])
			bare, err := scan(bytes.NewReader(noSections), m.size)
			if err != nil {
				t.Fatal(err)
			}
			compareGoTable(t, bare, goFunctions(t, m, o))
		})
	}
}

// goFunctions are the functions of a file as debug/gosym reads them.
func goFunctions(t *testing.T, m image, o *Object) []gosym.Func {
	t.Helper()
	file, err := elf.NewFile(m.r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(o.Functions, func(f Function) bool { return f.Source == ledger.SourceGopclntab })
	if i < 0 {
		t.Skip("has symbols")
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, o.Functions[i].Addr))
	if err != nil {
		t.Fatal(err)
	}
	return table.Funcs
}

func compareGoTable(t *testing.T, o *Object, want []gosym.Func) {
	t.Helper()
	const padding = 64 // is less
	got := map[uint64]*Function{}
	for i := range o.Functions {
		got[o.Functions[i].Addr] = &o.Functions[i]
	}
	shift, wrong := want[0].Entry, 0
	for i := range o.Functions {
		if o.Functions[i].Source == ledger.SourceGopclntab {
			shift -= o.Functions[i].Addr
			break
		}
	}
	for _, w := range want {
		f := got[w.Entry-shift]
		fits := f != nil && (f.Guessed || f.Addr+f.Size <= w.End-shift && f.Addr+f.Size+padding > w.End-shift)
		if !fits || f.Source == ledger.SourceGopclntab && f.Name != w.Name {
			if wrong++; wrong < 10 {
				t.Errorf("%x %s: %+v", w.Entry, w.Name, f)
			}
		}
	}
	if len(want) < 1000 || wrong > 0 {
		t.Errorf("%d functions, %d wrong", len(want), wrong)
	}
}

// FuzzGoTable scans files with any bytes for a table.
func FuzzGoTable(f *testing.F) {
	for _, magic := range goMagics {
		f.Add(goTableBytes(magic, goText, goFuncs))
	}
	f.Add([]byte(strings.Repeat("\xf1\xff\xff\xff\x00\x00\x01\x08", 100)))
	f.Fuzz(func(t *testing.T, table []byte) {
		checkScan(t, goFile(table, goText, goText+384))
		text := table[:min(8, len(table))] // where the module says that entries count from
		if len(text) == 8 {
			checkScan(t, goFile(table[8:], le.Uint64(text), le.Uint64(text)+384))
		}
	})
}
