package test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Libraries that come where they cannot be counted: they do what they did, the
// report names them, and if they may take the GS segment nothing counts any more.

// variants of a counted run: in make test the first and the fourth, so that calls are
// direct in one of them, and not in the other.
var variants = [][]string{
	nil, {"--objects", "all"}, {"--keep-calls"}, {"--objects", "all", "--threshold", "1000", "--control", "--keep-calls"},
	{"--objects", "all", "--threshold", "1000", "--control"},
}

// inVariants runs c without the library, by hotspots run in all variants (in make
// test the default and the one with everything), and by a bare LD_PRELOAD. Every run has to do the same; check looks at its report.
func inVariants(t *testing.T, c command, check func(t *testing.T, r *report)) {
	t.Helper()
	without := run(t, c)
	for _, flags := range lane.Some(variants, 0, 3) {
		t.Run("run "+strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, c, flags...)
			same(t, without, with)
			check(t, r)
		})
	}
	for _, objects := range lane.Some([]string{"", "all"}, 1) {
		t.Run("preload "+objects, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table")
			bare := c
			bare.args = append([]string{"env", "LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table, "DYNPROF_OBJECTS=" + objects}, c.args...)
			same(t, without, run(t, bare))
			check(t, readReport(t, table))
		})
	}
}

// missing fails unless the report names the library, by its reason, and no other.
func (r *report) missing(t *testing.T, library, reason string) {
	t.Helper()
	if len(r.Missed) != 1 || filepath.Base(r.Missed[0].Object) != filepath.Base(library) || r.Missed[0].Reason != reason || r.ObjectsMissed != 1 {
		t.Errorf("missed: %+v, %d in all; not %s: %s", r.Missed, r.ObjectsMissed, library, reason)
	}
}

// ended fails unless the loading of the library ended the counting.
func (r *report) ended(t *testing.T, library string) {
	t.Helper()
	if !r.Stopped || filepath.Base(r.StoppedBy) != filepath.Base(library) {
		t.Errorf("stopped: %t, by %q, not %q", r.Stopped, r.StoppedBy, library)
	}
	if n := r.calls(t, "step"); n != 1000 {
		t.Errorf("step: %d calls, not the 1000 before", n)
	}
}

// readable moves a file to where every user may read it.
func readable(t *testing.T, file string) string {
	t.Helper()
	to := filepath.Join(observerDir(t), filepath.Base(t.TempDir())+".so")
	if err := os.Rename(file, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestMissed: a library that cannot be planned does not count, and the report says
// so; the rest goes on counting.
func TestMissed(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	plain := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	for name, how := range map[string]string{"all allowed": "f", "what it takes": "s"} {
		t.Run(name, func(t *testing.T) {
			inVariants(t, cmd(program, how, plain), func(t *testing.T, r *report) {
				r.missing(t, plain, "sandboxed")
				if n := r.calls(t, "step"); n != 1550 || r.Stopped {
					t.Errorf("step: %d calls, not 1550; stopped: %t", n, r.Stopped)
				}
			})
		})
	}
}

// TestMissedMono: what Mono has compiled ahead of time is left as it is, as its run time
// reads the calls in it; the rest goes on counting.
func TestMissedMono(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c", "monolib.c"))
	inVariants(t, cmd(program, "", library), func(t *testing.T, r *report) {
		r.missing(t, library, "unsupported-instruction")
		if n := r.calls(t, "step"); n != 1550 || r.Stopped {
			t.Errorf("step: %d calls, not 1550; stopped: %t", n, r.Stopped)
		}
	})
}

// TestMissedTakes: one that takes the GS segment ends the counting although it
// cannot be planned: nothing is written where GS leads then.
func TestMissedTakes(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	taking := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c", "takeslib.c"))
	byCall := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "takesgslib.c"))
	for name, library := range map[string]string{"wrgsbase": taking, "arch_prctl": byCall} {
		t.Run(name+" in a sandbox", func(t *testing.T) {
			inVariants(t, cmd(program, "f", library), func(t *testing.T, r *report) {
				r.missing(t, library, "uses-gs")
				r.ended(t, library)
			})
		})
	}
	t.Run("planned", func(t *testing.T) {
		inVariants(t, cmd(program, "", taking), func(t *testing.T, r *report) {
			r.ended(t, taking)
			if len(r.Missed) != 0 {
				t.Errorf("missed: %+v", r.Missed)
			}
		})
	})
}

// TestMissedFilteredBefore: a filter from before the start is seen in however long a
// status of the process.
func TestMissedFilteredBefore(t *testing.T) {
	lane.Parallel(t)
	needsRoot(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	c := cmd(program, "", library)
	c.before = []string{program, "around"}
	inVariants(t, c, func(t *testing.T, r *report) { r.missing(t, library, "sandboxed") })
}

// hideCode makes a library's code executable, not readable.
func hideCode(t *testing.T, library string) {
	t.Helper()
	b, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const programHeaders, entry, flags = 0x40, 56, 4
	for i, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			binary.LittleEndian.PutUint32(b[programHeaders+i*entry+flags:], uint32(elf.PF_X))
		}
	}
	if err := os.WriteFile(library, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestMissedUnseen: code that nobody may read may take the GS segment.
func TestMissedUnseen(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-z,separate-code"}, "latelib.c", "takeslib.c"))
	hideCode(t, library)
	inVariants(t, cmd(program, "", library), func(t *testing.T, r *report) { r.ended(t, library) })
	inVariants(t, cmd(program, "f", library), func(t *testing.T, r *report) {
		r.missing(t, library, "unseen")
		r.ended(t, library)
	})
}

// TestLateElsewhere: a program that may not open the table any more, or finds
// another file by its name, or has no /proc, still gets its libraries counted.
func TestLateElsewhere(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program, large := compile(t, gcc, []string{"-O1"}, "loads.c"), compile(t, gcc, []string{"-O1"}, "loads.c", "large.c")
	library := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	exact := func(library string) func(*testing.T, *report) {
		return func(t *testing.T, r *report) {
			if steps, late := r.calls(t, "step"), r.late(library, "late_step"); steps != 1550 || late != 300 || r.ObjectsMissed != 0 {
				t.Errorf("step: %d calls, not 1550; late_step: %d, not 300; missed: %+v", steps, late, r.Missed)
			}
		}
	}
	t.Run("relative", func(t *testing.T) {
		c := cmd(program, "d", library)
		without := run(t, c)
		c.dir = t.TempDir()
		for name, args := range map[string][]string{
			"run":     {build(t, "hotspots"), "run", "--summary", "0", "-o", "table", "--"},
			"preload": {"env", "LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=table"},
		} {
			t.Run(name, func(t *testing.T) {
				c.args, c.dir = append(args, program, "d", library), t.TempDir()
				same(t, without, run(t, c))
				exact(library)(t, readReport(t, filepath.Join(c.dir, "table")))
			})
		}
	})
	t.Run("user", func(t *testing.T) {
		needsRoot(t)
		inVariants(t, cmd(program, "u", library), exact(library))
		inVariants(t, cmd(large, "u", library), exact(library))
	})
	t.Run("root", func(t *testing.T) {
		needsRoot(t)
		name := "/" + filepath.Base(library)
		inVariants(t, cmd(program, "ru", name, filepath.Dir(library)), exact(name))
		inVariants(t, cmd(large, "ru", name, filepath.Dir(library)), exact(name))
	})
}

// TestLateNoRoom: a library for which the table has no room is named, and one that
// takes the GS segment ends the counting all the same. A file-size limit leaves a
// table no spare room at all.
func TestLateNoRoom(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	plain := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	taking := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c", "takeslib.c")
	// A table has no spare room then. Those with blocks are larger.
	size := "8000000"
	if b := setting("TEST_BLOCKS"); b != "" && b != "sites" {
		size = "128000000"
	}
	limited := func(library string) command {
		c := cmd(program, "", library)
		c.before = []string{"prlimit", "--fsize=" + size}
		return c
	}
	inVariants(t, limited(plain), func(t *testing.T, r *report) {
		r.missing(t, plain, "no-memory")
		if n := r.calls(t, "step"); n != 1550 || r.Stopped {
			t.Errorf("step: %d calls, not 1550; stopped: %t", n, r.Stopped)
		}
	})
	inVariants(t, limited(taking), func(t *testing.T, r *report) {
		r.missing(t, taking, "uses-gs")
		r.ended(t, taking)
	})
}

// bigLibrary has 140,000 functions, one of which takes GS, and needs another.
func bigLibrary(t *testing.T, another string) string {
	t.Helper()
	const functions = 140000
	var text strings.Builder
	text.WriteString("\t.text\n")
	for i := range functions {
		fmt.Fprintf(&text, "\t.type f%d, @function\nf%d:\n\t.cfi_startproc\n\tlea 1(%%rdi), %%eax\n\tadd $3, %%eax\n\tret\n\t.cfi_endproc\n\t.size f%d, .-f%d\n", i, i, i, i)
	}
	text.WriteString("\t.section .note.GNU-stack, \"\", @progbits\n")
	dir := t.TempDir()
	source, library := filepath.Join(dir, "big.s"), filepath.Join(dir, "big.so")
	if err := os.WriteFile(source, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	out := run(t, cmd("gcc", "-shared", "-fPIC", "-o", library, source, "testdata/takeslib.c", "-Wl,--no-as-needed", another))
	if out.status != 0 {
		t.Fatal(out.stderr)
	}
	return library
}

// locking are the variants that go on counting where a library takes GS.
func locking() (all [][]string) {
	for _, flags := range variants {
		all = append(all, append([]string{"--lock"}, flags...))
	}
	return all
}

// TestLateBig: a large library has room; where it has not, as address space is short,
// those that come with it have.
func TestLateBig(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	small := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	big := bigLibrary(t, small)
	without := run(t, cmd(program, "", big))
	for _, flags := range lane.Some(locking(), 0) {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, cmd(program, "", big), flags...)
			same(t, without, with)
			if n, steps := len(r.of(big)), r.calls(t, "step"); n < 140000 || steps != 1550 || r.ObjectsMissed != 0 {
				t.Errorf("%d functions; step: %d calls, not 1550; missed: %+v", n, steps, r.Missed)
			}
			if n := r.late(small, "late_step"); n != 300 {
				t.Errorf("late_step: %d calls, not 300", n)
			}
		})
		t.Run("short of space "+strings.Join(flags, " "), func(t *testing.T) {
			c := cmd(program, "", big)
			c.before = []string{"prlimit", "--as=100000000000"}
			with, r := counted(t, c, flags...)
			same(t, without, with)
			r.missing(t, big, "no-memory")
			if late, steps := r.late(small, "late_step"), r.calls(t, "step"); late != 300 || steps != 1550 {
				t.Errorf("late_step: %d calls, not 300; step: %d, not 1550", late, steps)
			}
		})
	}
}

// manyLibraries makes n libraries, each of which calls late_made 7 times when it is
// loaded: copies of one, under names of their own.
func manyLibraries(t *testing.T, n int) (dir string, files []string) {
	t.Helper()
	const soname = "libmany0000.so"
	image, err := os.ReadFile(compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC", "-Wl,-soname," + soname}, "latelib.c"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for i := range n {
		name := fmt.Sprintf("libmany%04d.so", i)
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, bytes.ReplaceAll(image, []byte(soname), []byte(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return dir, files
}

// TestManyLibraries: no library is left out, however many are linked, or come with
// one that is loaded later.
func TestManyLibraries(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	const n = 1500
	dir, files := manyLibraries(t, n)
	all := append([]string{"-O1", "-Wl,--no-as-needed", "-Wl,-rpath," + dir}, files...)
	linked := compile(t, gcc, all, "loads.c")
	alone := compile(t, gcc, []string{"-O1"}, "loads.c")
	one := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	needy := compile(t, gcc, append([]string{"-shared", "-fPIC"}, all...), "takesgslib.c")
	for name, c := range map[string]command{"linked": cmd(linked, "", one), "late": cmd(alone, "", needy)} {
		without := run(t, c)
		for _, flags := range lane.Some(locking(), 3) {
			t.Run(strings.Join(append([]string{name}, flags...), " "), func(t *testing.T) {
				with, r := counted(t, c, flags...)
				same(t, without, with)
				exact := 0
				for _, f := range r.Functions {
					if f.Name == "late_made" && filepath.Dir(f.Object) == dir && f.Calls == 7 {
						exact++
					}
				}
				if steps := r.calls(t, "step"); exact != n || steps != 1550 || r.ObjectsMissed != 0 {
					t.Errorf("late_made is exact in %d libraries of %d; step: %d calls, not 1550; missed: %+v", exact, n, steps, r.Missed)
				}
			})
		}
	}
}

// TestMissedMany: a library that is missed again and again is one line of the
// report; of more than the table has room for the number is told.
func TestMissedMany(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "loadall.c")
	const n, room = 70, 64
	_, files := manyLibraries(t, n)
	inVariants(t, cmd(append([]string{program, "f", "3"}, files...)...), func(t *testing.T, r *report) {
		if len(r.Missed) != room || r.ObjectsMissed != 3*n {
			t.Errorf("%d names of %d missed", len(r.Missed), r.ObjectsMissed)
		}
		for i, m := range r.Missed {
			if m.Object != files[i] || m.Reason != "sandboxed" || m.Times != 3 {
				t.Errorf("%d: %+v", i, m)
			}
		}
		if text := run(t, cmd(build(t, "hotspots"), "report", r.table)).stdout; !strings.Contains(text, fmt.Sprintf("not counted: %d more", 3*(n-room))) {
			t.Errorf("the report does not say how many more: %s", text)
		}
	})
}

// TestLateLongVariables: what later libraries are chosen by may be long.
func TestLateLongVariables(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	var names []string
	for i := range 4000 {
		names = append(names, fmt.Sprint("no_such_function_", i))
	}
	skip := strings.Join(append(names, "^late_step$"), "|")
	without := run(t, cmd(program, "", library))
	with, r := counted(t, cmd(program, "", library), "--skip", skip)
	if lines := strings.Count(with.stderr, "\n"); lines != 4 || !strings.HasSuffix(with.stderr, "--skip: and 3997 more names that no function has\n") {
		t.Errorf("%d lines: %q", lines, with.stderr)
	}
	with.stderr = ""
	same(t, without, with)
	if made, step := r.late(library, "late_made"), r.late(library, "late_step"); made != 7 || step != 0 || r.ObjectsMissed != 0 {
		t.Errorf("late_made: %d calls, not 7; late_step, which is skipped: %d; missed: %+v", made, step, r.Missed)
	}
}

// TestLateNoDebug: an executable without DT_DEBUG, which tells debuggers what is
// loaded, still has its libraries counted.
func TestLateNoDebug(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dynamic, unused := f.SectionByType(elf.SHT_DYNAMIC), uint64(0x6ffffdf8) // DT_CHECKSUM
	for at := dynamic.Offset; at < dynamic.Offset+dynamic.Size; at += 16 {
		if elf.DynTag(binary.LittleEndian.Uint64(b[at:])) == elf.DT_DEBUG {
			binary.LittleEndian.PutUint64(b[at:], unused)
		}
	}
	write(t, program, string(b), 0o755)
	inVariants(t, cmd(program, "", library), func(t *testing.T, r *report) {
		if n := r.late(library, "late_step"); n != 300 || r.Lock != "" {
			t.Errorf("late_step: %d calls, not 300; counted with lock: %q", n, r.Lock)
		}
	})
}

// TestLateTogether: processes of a fork tree that load libraries at the same time
// add to the table in turn; one that is killed at it stops nobody.
func TestLateTogether(t *testing.T) {
	t.Parallel()
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "loadall.c")
	const libraries, times = 4, 3
	_, files := manyLibraries(t, libraries)
	for _, processes := range []int{6, 0} {
		how, least := fmt.Sprint(processes), processes+1
		if processes == 0 {
			how = "k"
		}
		t.Run(how, func(t *testing.T) {
			inVariants(t, cmd(append([]string{program, how, fmt.Sprint(times)}, files...)...), func(t *testing.T, r *report) {
				for i, file := range files {
					n, want := r.late(file, "late_step"), uint64(10*times*least)
					if killed := processes == 0 && i == 0; n != want && !(killed && n > want) || r.ObjectsMissed != 0 {
						t.Errorf("late_step of %s: %d calls, not %d; missed: %+v", file, n, want, r.Missed)
					}
				}
			})
		})
	}
}

// TestLateSmallStack: a library is loaded on 768 bytes of stack more than that takes, or
// fewer, whoever plans it.
func TestLateSmallStack(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "smallstack.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	least, err := strconv.Atoi(strings.TrimSpace(run(t, cmd(program, library)).stdout))
	if err != nil {
		t.Fatal(err)
	}
	inVariants(t, cmd(program, library, strconv.Itoa(least+768)), func(t *testing.T, r *report) {
		if n := r.calls(t, "load_on"); n != 1 {
			t.Errorf("load_on: %d calls, not 1", n)
		}
	})

	p := newPlanned(t, cmd(program, library, "65536"), "preload", "DYNPROF_OBJECTS=all")
	settle(t, library)
	p.warm(t)
	p.command, p.env = cmd(program, library, strconv.Itoa(least+768)), []string{"DYNPROF_OBJECTS=all"}
	with, r, _, _ := p.start(t)
	same(t, run(t, p.command), with)
	if f := lateFlags(t, r, library); f&layout.ObjCached == 0 {
		t.Errorf("the library has the flags %#x", f)
	}
}
