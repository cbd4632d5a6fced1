package elfscan

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
)

// seeds are the small files of testdata/seeds, and some with the tables of Go.
func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/seeds/*.elf")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no seeds: %v", err)
	}
	out := map[string][]byte{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = b
	}
	maps.Copy(out, goSeeds())
	return out
}

// checkScan scans hostile bytes, without the net that Scan has under it, and
// checks what a caller may rely on.
func checkScan(t *testing.T, b []byte) {
	t.Helper()
	o, err := scan(bytes.NewReader(b), int64(len(b)))
	if (o == nil) == (err == nil) {
		t.Fatalf("object %v and error %v", o, err)
	}
	if err != nil {
		return
	}
	for i, fn := range o.Functions {
		if i > 0 && o.Functions[i-1].Addr >= fn.Addr {
			t.Fatalf("out of order: %v, %v", o.Functions[i-1], fn)
		}
		if fn.Size == 0 || !slices.ContainsFunc(o.Segments, func(s Segment) bool {
			return s.Flags&elf.PF_X != 0 && s.Addr <= fn.Addr && fn.Addr-s.Addr < s.FileSize
		}) {
			t.Fatalf("not in the text: %v", fn)
		}
		if fn.Source == ledger.SourceNone || fn.Source == ledger.SourceEhFrame && (fn.Name != "" || !fn.HasFDE) {
			t.Fatalf("source: %v", fn)
		}
	}
	for i, p := range o.CodePointers {
		if i > 0 && o.CodePointers[i-1] >= p {
			t.Fatalf("code pointers out of order: %#x, %#x", o.CodePointers[i-1], p)
		}
	}
}

// TestLongSymbol: a function whose name is longer than is read has none.
func TestLongSymbol(t *testing.T) {
	for _, n := range []int{maxSymbolName - 1, maxSymbolName} {
		name, path := strings.Repeat("n", n), filepath.Join(t.TempDir(), "program")
		gcc := exec.Command("gcc", "-nostdlib", "-static", "-x", "assembler", "-o", path, "-")
		gcc.Stdin = strings.NewReader(".globl _start\n_start: ret\n.type " + name + ",@function\n" + name + ": ret\n.size " + name + ",1\n")
		if msg, err := gcc.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, msg)
		}
		o := openImage(t, path).scan(t)
		if want := name[:n*(maxSymbolName-n)]; len(o.Functions) != 1 || o.Functions[0].Name != want {
			t.Errorf("%d bytes: %d functions, %.20s", n, len(o.Functions), o.Functions[0].Name)
		}
	}
}

// FuzzScan scans any bytes.
func FuzzScan(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(checkScan)
}

// TestTruncated scans every beginning of the seeds.
func TestTruncated(t *testing.T) {
	for name, b := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			for n := range b {
				checkScan(t, b[:n])
			}
		})
	}
}

// TestDamaged scans seeds of which a few bytes are changed, mostly in the
// headers and tables, where it matters.
func TestDamaged(t *testing.T) {
	values := []byte{0, 1, 2, 0x7f, 0x80, 0xff}
	for name, b := range seeds(t) {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(len(b))))
			for range 3000 {
				damaged := bytes.Clone(b)
				for range 1 + random.IntN(4) {
					damaged[random.IntN(len(b))] = values[random.IntN(len(values))]
				}
				for range random.IntN(3) {
					damaged[random.IntN(min(len(b), 512))] = values[random.IntN(len(values))]
				}
				checkScan(t, damaged)
			}
		})
	}
}

// TestMemory builds files that ask for as much as they can, and bounds what a
// scan allocates by a multiple of their size.
func TestMemory(t *testing.T) {
	for _, row := range []struct {
		name string
		file []byte
	}{
		{"section names of half the file", longSectionNames(8000, 480<<10)},
		{"symbols that share a long name", longSymbolNames(20000, 480<<10)},
		{"static relocations named by all sections", overlappingRelocations(8000, 480<<10)},
		{"bitmaps of relative relocations", relrBitmaps(1 << 20)},
		{"sizes of sections beyond the file", hugeSections()},
	} {
		t.Run(row.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			checkScan(t, row.file)
			runtime.ReadMemStats(&after)
			used := after.TotalAlloc - before.TotalAlloc
			if limit := uint64(32*len(row.file) + 1<<20); used > limit {
				t.Errorf("%d bytes allocated for a file of %d", used, len(row.file))
			}
		})
	}
}

// hostile writes a header, sections and data that they point at. The data
// starts behind the section headers, at the offset that it is given.
func hostile(sections int, data func(off uint64) ([]byte, []elf.Section64, []elf.Prog64)) []byte {
	const progs = 4
	off := uint64(headerSize + progs*progSize + sections*sectionSize)
	content, headers, segments := data(off)
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: headerSize, Phentsize: progSize, Phnum: uint16(len(segments)),
		Ehsize: headerSize, Shentsize: sectionSize, Shnum: uint16(sections), Shstrndx: 1,
	}
	if sections > 0 {
		h.Shoff = headerSize + progs*progSize
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, le, v); err != nil {
			panic(err)
		}
	}
	put(h)
	put(append(segments, make([]elf.Prog64, progs-len(segments))...))
	put(append(headers, make([]elf.Section64, sections-len(headers))...))
	b.Write(content)
	return b.Bytes()
}

// textSegment maps the whole file as code.
func textSegment(size uint64) elf.Prog64 {
	return elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X | elf.PF_R), Filesz: size, Memsz: size}
}

func strtab(off, size uint64) elf.Section64 {
	return elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: off, Size: size}
}

func longSectionNames(n, length int) []byte {
	return hostile(n, func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		names := append(bytes.Repeat([]byte("a"), length), 0)
		sections := make([]elf.Section64, n) // all named by the whole table
		sections[1] = strtab(off, uint64(len(names)))
		return names, sections, nil
	})
}

func longSymbolNames(n, length int) []byte {
	return hostile(4, func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		b := append(bytes.Repeat([]byte("a"), length), 0)
		strs := strtab(off, uint64(len(b)))
		symbols := elf.Section64{Type: uint32(elf.SHT_SYMTAB), Off: off + uint64(len(b)), Size: uint64(n * symSize), Entsize: symSize, Link: 2}
		for i := range n {
			b = le.AppendUint32(b, uint32(i)) // no two names are equal, all are long
			b = append(b, byte(elf.STT_FUNC), 0, 1, 0)
			b = le.AppendUint64(b, 0x100+uint64(i%16))
			b = le.AppendUint64(b, 1)
		}
		return b, []elf.Section64{{}, strs, strs, symbols}, []elf.Prog64{textSegment(off + uint64(len(b)))}
	})
}

func overlappingRelocations(n, length int) []byte {
	return hostile(n, func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		b := make([]byte, length)
		for i := 0; i+relaSize <= length; i += relaSize {
			b[i+8] = byte(elf.R_X86_64_IRELATIVE)
			le.PutUint64(b[i+16:], uint64(0x100+i))
		}
		sections := make([]elf.Section64, n)
		for i := 2; i < n; i++ {
			sections[i] = elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_ALLOC), Addr: off, Size: uint64(length)}
		}
		sections[1] = strtab(off, 1)
		return b, sections, []elf.Prog64{textSegment(off + uint64(length))}
	})
}

// hugeSections has tables of 32 GB, and a search table of as many FDEs.
func hugeSections() []byte {
	const huge = 32 << 30
	return hostile(8, func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		b := append([]byte("\x00.eh_frame\x00\x01\x00\x04\x00"), bytes.Repeat([]byte{0xff, 0xff, 0xff, 7, 0, 0, 0, 0}, 2)...)
		strs, large := strtab(off, 11), strtab(off, huge)
		symbols := elf.Section64{Type: uint32(elf.SHT_SYMTAB), Off: off, Size: huge, Entsize: symSize, Link: 1}
		frames := elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: off, Size: huge}
		header := elf.Prog64{Type: uint32(elf.PT_GNU_EH_FRAME), Off: off + 11, Filesz: huge}
		dynamic := elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: off, Filesz: huge}
		return b, []elf.Section64{{}, strs, symbols, frames, large}, []elf.Prog64{textSegment(off), header, dynamic}
	})
}

func relrBitmaps(length int) []byte {
	return hostile(0, func(off uint64) ([]byte, []elf.Section64, []elf.Prog64) {
		b := bytes.Repeat([]byte{0xff}, length)
		le.PutUint64(b, 0) // relocate from address 0 on
		dynamic := []uint64{uint64(dtRelr), off, uint64(dtRelrSize), uint64(length)}
		segments := []elf.Prog64{
			textSegment(off + uint64(length) + 32),
			{Type: uint32(elf.PT_DYNAMIC), Off: off + uint64(length), Filesz: 32},
		}
		for _, v := range dynamic {
			b = le.AppendUint64(b, v)
		}
		return b, nil, segments
	})
}
