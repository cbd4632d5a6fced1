package test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestHostileEnvironment: the bare library, told nonsense. The program runs as
// it is; if nothing is counted, one line names the variable or the reason.
func TestHostileEnvironment(t *testing.T) {
	lane.Parallel(t)
	program := victim(t)
	without := run(t, cmd(program))
	long := func(s string, n int) string { return strings.Repeat(s, n) }
	const garbage = "\xff\xfe\x01\x1b[31m\n\t/\x80"
	for _, row := range []struct{ variable, says string }{ // says "": it is counted
		{"DYNPROF_THRESHOLD=abc", `DYNPROF_THRESHOLD.*"abc".*2147483647`},
		{"DYNPROF_THRESHOLD=-1", "DYNPROF_THRESHOLD.*2147483647"},
		{"DYNPROF_THRESHOLD=1e3", "DYNPROF_THRESHOLD.*2147483647"},
		{"DYNPROF_THRESHOLD=2147483648", "DYNPROF_THRESHOLD.*2147483647"},
		{"DYNPROF_THRESHOLD=99999999999999999999999", "DYNPROF_THRESHOLD.*2147483647"},
		{"DYNPROF_THRESHOLD=" + long("9", 100_000), "DYNPROF_THRESHOLD"},
		{"DYNPROF_THRESHOLD=" + garbage, "DYNPROF_THRESHOLD"},
		{"DYNPROF_THRESHOLD=2147483647", ""},
		{"DYNPROF_ONLY=[", "DYNPROF_ONLY.*not a regular expression"},
		{"DYNPROF_ONLY=" + long("(", 3000), "DYNPROF_ONLY.*not a regular expression"},
		{"DYNPROF_ONLY=" + long("(a|b)*", 10_000), ""},
		{"DYNPROF_ONLY=" + long("x{1000}", 100), ""},
		{"DYNPROF_ONLY=(x{1000}){1000}", "DYNPROF_ONLY.*not a regular expression"},
		{"DYNPROF_ONLY=" + garbage, "DYNPROF_ONLY.*not a regular expression"},
		{"DYNPROF_ONLY=@/missing", "DYNPROF_ONLY.*/missing"},
		{"DYNPROF_ONLY=@" + long("/x", 2500), "DYNPROF_ONLY"},
		{"DYNPROF_ONLY=@/tmp", "DYNPROF_ONLY.*/tmp"},
		{"DYNPROF_SKIP=(?z)", "DYNPROF_SKIP.*not a regular expression"},
		{"DYNPROF_SKIP=@", "DYNPROF_SKIP.*list of names"},
		{"DYNPROF_OBJECTS=[", "DYNPROF_OBJECTS.*not a glob"},
		{"DYNPROF_OBJECTS=" + long("a*", 50_000), ""},
		{"DYNPROF_OBJECTS=" + garbage, "DYNPROF_OBJECTS.*not a glob"},
		{"DYNPROF_OBJECTS=,,,", "DYNPROF_OBJECTS.*no object named"},
		{"DYNPROF_RUN_ID=xyz", "DYNPROF_RUN_ID.*32 hex digits"},
		{"DYNPROF_RUN_ID=" + garbage, "DYNPROF_RUN_ID.*32 hex digits"},
		{"DYNPROF_OUTPUT=/" + long("x", 5000), "name too long.*choose another (place|name)"},
		{"DYNPROF_OUTPUT=" + long("x/", 2500), "(name too long|too long a path).*choose another place"},
		{"DYNPROF_OUTPUT=%z", "DYNPROF_OUTPUT|output name.*%z"},
		{"DYNPROF_OUTPUT=%", "DYNPROF_OUTPUT|output name"},
		{"DYNPROF_OUTPUT=/proc/table", "choose another place.*DYNPROF_OUTPUT"},
		{"DYNPROF_OUTPUT=" + garbage, ""},
		{"DYNPROF_OUTPUT=.", ""},
		{"DYNPROF_FOLLOW_EXEC=" + garbage, ""},
		{"DYNPROF_PRELOADED=" + long(":", 1000), ""},
		{"DYNPROF_PRELOADED=" + garbage, ""},
		{"DYNPROF_LIBRARY=" + garbage, ""},
		{"DYNPROF_UNKNOWN=" + long("x", 100_000), ""},
		{"DYNPROF_=", ""},
		{"XDG_RUNTIME_DIR=relative", ""},
		{"XDG_RUNTIME_DIR=/missing", ""},
		{"XDG_RUNTIME_DIR=" + garbage, ""},
		{"XDG_RUNTIME_DIR=/" + long("x", 5000), ""},
	} {
		t.Run(fmt.Sprintf("%.40q", row.variable), func(t *testing.T) {
			t.Parallel()
			c := command{args: []string{program}, dir: t.TempDir()}
			c.env = []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "LD_PRELOAD=" + build(t, "libdynprof.so"), row.variable}
			with := run(t, c)
			if row.says != "" {
				oneLine(t, with.stderr, row.says, without.stderr)
				if controls.MatchString(with.stderr) {
					t.Errorf("a control character in %q", with.stderr)
				}
				with.stderr = without.stderr
			}
			same(t, without, with)
		})
	}
}

var controls = regexp.MustCompile(`[^\n[:^cntrl:]]`)

// TestHostileName: a program with line breaks and colours in its name still
// gets one plain line.
func TestHostileName(t *testing.T) {
	lane.Parallel(t)
	sound, static := read(t, victim(t)), read(t, victim(t, "-static"))
	program := filepath.Join(t.TempDir(), "name\nhotspots: \x1b[31mred")
	for _, row := range []struct {
		name, image string
		flags       string
	}{
		{"the library says why", sound, "-o /proc/table --"},
		{"hotspots says why", static, "--trips --"},
		{"hotspots refuses", static, "--trips --strict --"},
		{"cannot be executed", "\x00", "--"},
	} {
		t.Run(row.name, func(t *testing.T) {
			install(t, program, row.image)
			r := run(t, cmd(append(strings.Fields(build(t, "hotspots")+" run --summary 0 "+row.flags), program)...))
			own := ""
			if r.status == 3 {
				own = "on stderr\n"
			}
			oneLine(t, r.stderr, ".", own)
			if controls.MatchString(r.stderr) {
				t.Errorf("a control character in %q", r.stderr)
			}
		})
	}
}

// TestEndlessNames: a list of names that never ends takes neither the
// program's memory nor its start.
func TestEndlessNames(t *testing.T) {
	lane.Parallel(t)
	program := victim(t)
	without := run(t, cmd(program))
	c := cmd("sh", "-c", "ulimit -v 3000000; exec env LD_PRELOAD="+build(t, "libdynprof.so")+" DYNPROF_ONLY=@/dev/zero "+program)
	with := run(t, c)
	oneLine(t, with.stderr, "DYNPROF_ONLY", without.stderr)
	with.stderr = without.stderr
	same(t, without, with)
}

// elfFile is the image of a program that the test spoils.
type elfFile struct {
	image []byte
	*elf.File
}

// bytes of a section.
func (f *elfFile) section(name string) []byte {
	s := f.Section(name)
	return f.image[s.Offset : s.Offset+s.Size]
}

// headers of the sections.
func (f *elfFile) headers() []byte {
	const shoff, shnum = 0x28, 0x3c // Elf64_Ehdr
	at := binary.LittleEndian.Uint64(f.image[shoff:])
	return f.image[at : at+64*uint64(binary.LittleEndian.Uint16(f.image[shnum:]))]
}

// symbol returns the named entry and its number, from 1 on.
func (f *elfFile) symbol(table func() ([]elf.Symbol, error), name string) (elf.Symbol, int) {
	list, err := table()
	i := slices.IndexFunc(list, func(s elf.Symbol) bool { return s.Name == name })
	if err != nil || i < 0 {
		panic(fmt.Sprintf("BUG: no symbol %s: %v", name, err))
	}
	return list[i], i + 1
}

// mislead moves a symbol to somewhere within main, mostly into the middle of
// an instruction.
func (f *elfFile) mislead(section string, table func() ([]elf.Symbol, error), name string, r *rand.Rand) {
	main, _ := f.symbol(f.Symbols, "main")
	_, i := f.symbol(table, name)
	binary.LittleEndian.PutUint64(f.section(section)[24*i+8:], main.Value+1+r.Uint64N(main.Size-1))
}

// spoilt are ways to damage a program that the kernel and the dynamic linker
// do not mind.
var spoilt = map[string]func(f *elfFile, r *rand.Rand){
	"sections' place": func(f *elfFile, r *rand.Rand) {
		binary.LittleEndian.PutUint64(f.image[0x28:], []uint64{1, 64, uint64(len(f.image)) - 10, 1 << 40, 1<<63 - 1, 1<<64 - 1, r.Uint64()}[r.IntN(7)])
	},
	"sections' number and names": func(f *elfFile, r *rand.Rand) { scatter(f.image[0x3a:0x40], r, 3) },
	"section headers":            func(f *elfFile, r *rand.Rand) { scatter(f.headers(), r, 40) },
	"no section headers": func(f *elfFile, _ *rand.Rand) {
		clear(f.image[0x28:0x30])
		clear(f.image[0x3c:0x40])
	},
	"section names":        func(f *elfFile, r *rand.Rand) { scatter(f.section(".shstrtab"), r, 60) },
	".symtab":              func(f *elfFile, r *rand.Rand) { scatter(f.section(".symtab"), r, 100) },
	".strtab":              func(f *elfFile, r *rand.Rand) { scatter(f.section(".strtab"), r, 200) },
	".eh_frame":            func(f *elfFile, r *rand.Rand) { scatter(f.section(".eh_frame"), r, 30) },
	".eh_frame as a whole": func(f *elfFile, r *rand.Rand) { scatter(f.section(".eh_frame"), r, 5000) },
	".eh_frame_hdr":        func(f *elfFile, r *rand.Rand) { scatter(f.section(".eh_frame_hdr"), r, 20) },
	".dynsym": func(f *elfFile, r *rand.Rand) { // sizes and values of functions that nobody imports
		symbols := f.section(".dynsym")
		for at := 24; at+24 <= len(symbols); at += 24 {
			if symbols[at+4]&0xf == byte(elf.STT_FUNC) && binary.LittleEndian.Uint16(symbols[at+6:]) != 0 {
				scatter(symbols[at+8:at+24], r, 2)
			}
		}
	},
	"symbol inside a function": func(f *elfFile, r *rand.Rand) {
		f.mislead(".symtab", f.Symbols, "register_tm_clones", r)
	},
	"dynamic symbol inside a function": func(f *elfFile, r *rand.Rand) {
		f.mislead(".dynsym", f.DynamicSymbols, "with_branches", r)
	},
	"FDE inside a function": func(f *elfFile, r *rand.Rand) {
		b := f.section(".eh_frame")
		u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
		var sized []int // FDEs: length, distance of the CIE, start relative to itself, size
		for at := 0; at+16 < len(b) && u32(at) != 0; at += 4 + int(u32(at)) {
			if u32(at+4) != 0 && u32(at+12) > 40 {
				sized = append(sized, at)
			}
		}
		at := sized[r.IntN(len(sized))]
		binary.LittleEndian.PutUint32(b[at+8:], u32(at+8)+1+r.Uint32N(40))
	},
	"build ID": func(f *elfFile, r *rand.Rand) { scatter(f.section(".note.gnu.build-id"), r, 4) },
	"unwinding segment": func(f *elfFile, r *rand.Rand) {
		for i, p := range f.Progs {
			if p.Type == elf.PT_GNU_EH_FRAME {
				at := 64 + 56*i
				scatter(f.image[at+8:at+56], r, 4)
			}
		}
	},
}

// scatter stores n extreme or random bytes and words.
func scatter(b []byte, r *rand.Rand, n int) {
	for range n {
		at := r.IntN(len(b))
		size := min(1<<r.IntN(4), len(b)-at)
		word := []uint64{0, 1, 0x7f, 0xff, 1<<32 - 1, 1<<63 - 1, 1<<64 - 1, r.Uint64()}[r.IntN(8)]
		copy(b[at:at+size], binary.LittleEndian.AppendUint64(nil, word))
	}
}

// TestHostileELF: a program whose tables for linkers, debuggers and unwinders
// are damaged runs as without the library.
func TestHostileELF(t *testing.T) {
	lane.Parallel(t)
	sound := read(t, victim(t, "-rdynamic"))
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unimpressed(t, sound, spoil)
		})
	}
}

// TestHostileStrippedELF: as above, if nothing but .eh_frame tells of functions.
func TestHostileStrippedELF(t *testing.T) {
	lane.Parallel(t)
	sound := read(t, victim(t, "-s"))
	for _, name := range []string{".eh_frame", ".eh_frame as a whole", ".eh_frame_hdr", "FDE inside a function", "no section headers", "unwinding segment"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unimpressed(t, sound, spoilt[name])
		})
	}
}

// unimpressed fails unless the program, spoilt in several ways, does what it
// does without the library, after one line at most.
func unimpressed(t *testing.T, sound string, spoil func(*elfFile, *rand.Rand)) {
	dir := t.TempDir()
	for seed := range lane.Of[uint64](5, 20) {
		image := []byte(sound)
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			t.Fatal(err)
		}
		spoil(&elfFile{image, f}, rand.New(rand.NewPCG(seed, 6)))
		program := install(t, filepath.Join(dir, fmt.Sprint("program", seed)), string(image))
		without := run(t, cmd(program))
		if without.status != 3 {
			t.Fatalf("seed %d: status %d without the library: %s", seed, without.status, without.stderr)
		}
		with := run(t, cmd(build(t, "hotspots"), "run", "-o", filepath.Join(dir, "table"), "--summary", "0", "--", program))
		if with.stderr != without.stderr {
			oneLine(t, with.stderr, "count", without.stderr)
			with.stderr = without.stderr
		}
		same(t, without, with)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
