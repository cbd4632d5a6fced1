package test

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Pages that are touched, by hotspots run --heat=pages.

// heatBase is where testdata/heat.c has its pages.
const heatBase, heatPages = 0x200000000000, 128

// touchedPages are the pages of a table below heatBase + heatPages, by number: rw, r- or -w.
func touchedPages(t *testing.T, table string) map[int]string {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "csv"))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	all := map[int]string{}
	for _, row := range rows[1:] {
		first, err := strconv.ParseUint(row[1], 0, 64)
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		n, err := strconv.Atoi(row[2])
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		what := []byte("--")
		for i, is := range row[3:5] {
			if is == "true" {
				what[i] = "rw"[i]
			}
		}
		for k := range n {
			if page := int(first-heatBase)/4096 + k; first >= heatBase && page < heatPages {
				all[page] = string(what)
			}
		}
	}
	return all
}

// saidPages are those that the program says it has touched, and those that the kernel has.
func saidPages(t *testing.T, text string) (pages map[int]string, present []int) {
	t.Helper()
	pages = map[int]string{}
	for line := range strings.Lines(text) {
		var page int
		var what string
		if n, _ := fmt.Sscanf(line, "page %d %s", &page, &what); n == 2 {
			pages[page] = what
		} else if n, _ := fmt.Sscanf(line, "present %d", &page); n == 1 {
			present = append(present, page)
		}
	}
	return pages, present
}

// TestHeat: the pages that are touched are those that are known, and of fresh memory those that
// the kernel has; and the program does what it does without, wild addresses included.
func TestHeat(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}, {"-O2", "-fcf-protection=full"}}, 0, 1) {
		program := compile(t, gcc, append(flags, "-Wall", "-Werror", "-falign-functions=32"), "heat.c")
		for _, way := range lane.Some([][]string{{"--objects", "main"}, {"--edges"}, {"--trips", "--threshold", "1"}, {"--lock"}}, 1, 3) {
			t.Run(strings.Join(append(slices.Clone(flags), way...), " "), func(t *testing.T) {
				t.Parallel()
				without := run(t, cmd(program))
				with, table := countedAt(t, cmd(program), append([]string{"--heat=pages"}, way...)...)
				same(t, without, with)
				want, present := saidPages(t, with.stdout)
				if got := touchedPages(t, table); !maps.Equal(got, want) {
					t.Errorf("%v, not %v", got, want)
				}
				if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, present) {
					t.Errorf("the kernel has %v, touched are %v", present, got)
				}
			})
		}
	}
}

// TestHeatReferenced: of pages that the kernel has filled those are touched that it takes for
// referenced (/proc/PID/smaps).
func TestHeatReferenced(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "referenced.c")
	for _, random := range []string{"1", "2", "3", "4"} {
		without := run(t, cmd(program, random))
		with, table := countedAt(t, cmd(program, random), "--heat=pages")
		same(t, without, with)
		want, referenced := saidPages(t, with.stdout)
		if got := touchedPages(t, table); !maps.Equal(got, want) || len(got) < 20 {
			t.Errorf("%v, not %v", got, want)
		}
		if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, referenced) {
			t.Errorf("the kernel has %v, touched are %v", referenced, got)
		}
	}
}

// TestHeatForked: a child's pages are its parent's.
func TestHeatForked(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-falign-functions=32"}, "heat.c")
	with, table := countedAt(t, cmd(program, "fork"), "--heat=pages", "--objects", "main")
	want, _ := saidPages(t, with.stdout)
	if got := touchedPages(t, table); !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestHeatLate: pages that libraries touch which are loaded later.
func TestHeatLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "heatlate.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-DLIBRARY", "-falign-functions=32"}, "heatlate.c")
	without := run(t, cmd(program, library))
	with, table := countedAt(t, cmd(program, library), "--heat=pages")
	same(t, without, with)
	want, _ := saidPages(t, with.stdout)
	if got := touchedPages(t, table); without.status != 0 || !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestHeatKept: with plans that are kept, of libraries that are loaded later, too, pages are the
// same; and plans without touches are others.
func TestHeatKept(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	late := compile(t, gcc, []string{"-O1"}, "heatlate.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-DLIBRARY", "-falign-functions=32"}, "heatlate.c")
	for i, args := range [][]string{
		{compile(t, gcc, []string{"-O2", "-fPIE", "-pie", "-falign-functions=32"}, "heat.c")},
		{compile(t, gcc, []string{"-O1", "-no-pie", "-falign-functions=32"}, "heat.c")},
		{late, library},
	} {
		p := newPlanned(t, cmd(args...), "run")
		p.flags = []string{[]string{"--heat=who", "--heat=threads", "--heat=pages"}[i]}
		for starts, done := 0, false; !done; starts++ {
			r, rep, cached, all := p.start(t)
			want, _ := saidPages(t, r.stdout)
			if got := touchedPages(t, rep.table); !maps.Equal(got, want) {
				t.Errorf("%v: %d of %d plans are used: %v, not %v", args, cached, all, got, want)
			}
			if done = cached == all && isWarm(t, rep); starts > 20 {
				t.Fatalf("%v: %d of %d plans are used", args, cached, all)
			}
		}
		p.flags = []string{"--blocks"}
		if _, rep, _, _ := p.start(t); isWarm(t, rep) {
			t.Errorf("%v: a plan with touches is used without", args)
		}
	}
}

// TestHeatWatched: a signal handler sees the same at every instruction, those that note pages
// included, but in the slow path of rare forms.
func TestHeatWatched(t *testing.T) {
	lane.Parallel(t)
	b := buildCanaries(t, []string{"-pie", "-fPIE"}, false)
	for _, heat := range lane.Some([]string{"--heat=pages", "--heat=lines", "--heat=bytes", "--heat=threads", "--heat=who"}, 0, 4) {
		b.compare(t, cmd(b.program, "watched", "slow-paths"), []uint64{0}, heat)
	}
}

// TestHeatRefused: without address space the program runs, and a line says so.
func TestHeatRefused(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-falign-functions=32"}, "heat.c")
	without := run(t, cmd(program))
	c := cmd(program)
	c.before = []string{need(t, "prlimit"), "--as=8000000000"}
	with, table := countedAt(t, c, "--heat=pages")
	if with.stdout != without.stdout || !strings.Contains(with.stderr, "touched memory is not noted: there is not enough address space") {
		t.Errorf("%+v", with)
	}
	if r := run(t, cmd(build(t, "hotspots"), "heat", table)); r.status != 1 || !strings.Contains(r.stderr, "run the program with hotspots run --heat=pages") {
		t.Errorf("%+v", r)
	}
	for _, row := range [][]string{{"--heat=words", "it is pages, lines, bytes, threads or who"}, {"--heat=pages --follow-exec", "goes neither with"}, {"--heat=pages --blocks=hot", "goes neither with"}} {
		args := append([]string{build(t, "hotspots"), "run"}, strings.Fields(row[0])...)
		if r := run(t, cmd(append(args, "--", program)...)); r.status != 125 || !strings.Contains(r.stderr, row[1]) {
			t.Errorf("%v: %+v", row, r)
		}
	}
}

// notesAll: with each flag a program does what it does without, and with pages, those that it says are
// noted.
func notesAll(t *testing.T, without result, c command, flags ...string) {
	t.Helper()
	want, _ := saidPages(t, without.stdout)
	for _, flag := range flags {
		with, table := countedAt(t, c, flag)
		same(t, without, with)
		if flag != "--heat=pages" {
			continue
		}
		if got := touchedPages(t, table); !maps.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
	}
}

// TestHeatNoCPUID: in a program that has forbidden itself to ask the CPU what it is
// (ARCH_SET_CPUID), what masks leave in is noted, and libraries that it loads are counted. A question
// of ours would be its end.
func TestHeatNoCPUID(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	program := compile(t, gcc, []string{"-O1", "-falign-functions=32"}, "nocpuidneeded.c")
	without := run(t, cmd(program, library))
	if strings.HasPrefix(without.stdout, "cannot") {
		t.Skip("this CPU cannot refuse to tell what it is")
	}
	notesAll(t, without, cmd(program, library), "--heat=pages", "--regions")
}

// TestHeatSandboxed: behind a seccomp filter of before, which kills at msync, what repeated
// instructions touch is noted, and no more than they touch, however much that is.
func TestHeatSandboxed(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	filter := compile(t, gcc, []string{"-O1"}, "successorfilter.c")
	c := cmd(compile(t, gcc, []string{"-O1", "-falign-functions=32"}, "heatfills.c"))
	c.before = []string{filter, strconv.Itoa(syscall.SYS_MSYNC), "0x80000000"}
	notesAll(t, run(t, c), c, "--heat=pages", "--regions")
}

// TestHeatWraps: what reaches around the end of the address space faults, as without, and is not noted
// for ever.
func TestHeatWraps(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-falign-functions=32"}, "heatwraps.c")
	notesAll(t, run(t, cmd(program)), cmd(program), "--heat=pages", "--heat=lines", "--regions")
}

// TestHeatLimited: a program that limits its address space finds what it finds without, and is told its
// own limit; so is who it executes.
func TestHeatLimited(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread"}, "heat_limited.c")
	without := run(t, cmd(program))
	for _, flag := range []string{"--heat=pages", "--heat=lines", "--heat=threads", "--regions"} {
		with, table := countedAt(t, cmd(program), flag)
		same(t, without, with)
		if m, _ := readHeat(t, table); flag != "--regions" && m.Total.Touched == 0 {
			t.Errorf("%s: nothing was noted", flag)
		}
	}
}

// TestHeatSanitized: AddressSanitizer, which has its shadow at the same place and ends a program
// where it cannot, has it, and a line says so.
func TestHeatSanitized(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-fsanitize=address"}, "heat_lines.c")
	without := run(t, cmd(program))
	for _, flag := range []string{"--heat=pages", "--heat=lines", "--regions"} {
		with, _ := countedAt(t, cmd(program), flag)
		if with.stdout != without.stdout || with.status != without.status || !strings.Contains(with.stderr, "AddressSanitizer needs their place") {
			t.Errorf("%s: %+v, not %+v", flag, with, without)
		}
	}
}

// TestHeatWanted: who needs memory at a fixed place that a large shadow would lie in has it, and a line
// says so; small ones are somewhere else. The names are those of ThreadSanitizer, MemorySanitizer and
// DataFlowSanitizer, the places the lowest that they have.
func TestHeatWanted(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for name, at := range map[string]string{"__tsan_init": "0x8000000000", "__msan_init": "0x10000000000", "dfsan_set_label": "0x10000000000"} {
		program := compile(t, gcc, []string{"-O1", "-Wall", "-Werror", "-rdynamic", "-DNAME=" + name, "-DAT=" + at}, "heat_wanted.c")
		without := run(t, cmd(program))
		for flag, large := range map[string]bool{"--heat=lines": true, "--heat=bytes": true, "--heat=threads": true, "--heat=pages": false, "--heat=who": false, "--regions": false} {
			with, table := countedAt(t, cmd(program), flag)
			if with.stdout != without.stdout || with.status != 0 || strings.Contains(with.stderr, "Sanitizer needs their place") != large {
				t.Errorf("%s, %s: %+v, not %+v", name, flag, with, without)
			}
			if n := callsOf(readReport(t, table), "main"); n != 1 {
				t.Errorf("%s, %s: %d calls of main", name, flag, n)
			}
		}
	}
}

// countedBeside fails unless a program does the same with pages and with lines noted, its main function is
// counted, and a line says that these find no place.
func countedBeside(t *testing.T, program, main string) {
	t.Helper()
	without := run(t, cmd(program))
	for _, flag := range []string{"--heat=pages", "--heat=lines"} {
		with, table := countedAt(t, cmd(program), flag)
		if with.stdout != without.stdout || with.status != 0 || strings.Contains(with.stderr, "needs their place") != (flag == "--heat=lines") {
			t.Errorf("%s: %+v, not %+v", flag, with, without)
		}
		if n := callsOf(readReport(t, table), main); n != 1 {
			t.Errorf("%s: %d calls of %s", flag, n, main)
		}
	}
}

// TestHeatThreadSanitizer: it maps its memory over what is there, which would end the counting.
func TestHeatThreadSanitizer(t *testing.T) {
	lane.Parallel(t)
	countedBeside(t, compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-fsanitize=thread", "-DNAME=named", "-DAT=0x550000000000"}, "heat_wanted.c"), "main")
}

// TestHeatOver: a program that maps memory over the shadow has it for itself.
func TestHeatOver(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1", "-no-pie", "-falign-functions=32"}, {"-O0"}} {
		program := compile(t, need(t, "gcc"), append(flags, "-Wall", "-Werror"), "heat_over.c")
		without := run(t, cmd(program))
		for _, heat := range []string{"--heat=pages", "--heat=lines"} {
			with, _ := countedAt(t, cmd(program), heat)
			same(t, without, with)
		}
	}
}

// TestHeatPrograms: real programs print what they print without.
func TestHeatPrograms(t *testing.T) {
	lane.Parallel(t)
	for _, args := range lane.Some([][]string{
		{"lua5.4", "-e", "local n=0 for i=1,100000 do n=n+#tostring(i) end print(n)"},
		{"sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<20000) select sum(x*x),count(distinct x%1000) from c"},
		{"/usr/bin/python3.11", "-S", "-c", "print(sum(len(str(i)) for i in range(50000)))"},
		{"xz", "-T1", "-1", "-c", "testdata/heat.c"},
	}, 0, 1, 2) { // of python so much is copied that the planner makes copies twice
		t.Run(filepath.Base(args[0]), func(t *testing.T) {
			t.Parallel()
			args[0] = need(t, args[0])
			without := run(t, cmd(args...))
			for _, heat := range lane.Some([]string{"--heat=pages", "--heat=lines", "--heat=bytes", "--heat=lines --allocs"}, 0) {
				with, table := countedAt(t, cmd(args...), strings.Fields(heat)...)
				same(t, without, with)
				r := run(t, cmd(build(t, "hotspots"), "heat", table))
				if r.status != 0 || !strings.Contains(r.stdout, "[stack]") || !strings.Contains(r.stdout, "[heap]") {
					t.Errorf("%s: %+v", heat, r)
				}
				m, _ := readHeat(t, table)
				if last, all := m.Slices[len(m.Slices)-1], readReport(t, table).TotalInstructions; last.Instructions != all || last.Used < m.Total.Touched {
					t.Errorf("%s: %+v by the last slice, not %d and %+v", heat, last, all, m.Total)
				}
			}
		})
	}
}

// TestHeatLost: where what was noted is not beside the table any more that is said, and not that
// nothing was noted.
func TestHeatLost(t *testing.T) {
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "a.dynprof")
	const never = "were not noted: run the program with hotspots run --heat=pages"
	for way, says := range map[string]string{"--heat=pages": "a.dynprof.heat is not there, or is of another run", "--blocks": never, "--regions": never} {
		if r := run(t, cmd(hotspots, "run", "--summary=0", way, "-o", table, "--", "/bin/true")); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		os.Remove(table + ".heat")
		r := run(t, cmd(hotspots, "heat", table))
		if oneLine(t, r.stderr, regexp.QuoteMeta(says), ""); r.status != 1 || r.stdout != "" {
			t.Errorf("%s: %+v", way, r)
		}
	}
}

// TestHeatTorn: a file that ends in the middle is shown as far as it goes, which is said.
func TestHeatTorn(t *testing.T) {
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "a.dynprof")
	if r := run(t, cmd(hotspots, "run", "--summary=0", "--heat=pages", "-o", table, "--", "/bin/true")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	fi, err := os.Stat(table + ".heat")
	if err != nil {
		t.Fatal(err)
	}
	for torn := range int64(2) {
		if err := os.Truncate(table+".heat", fi.Size()-torn); err != nil {
			t.Fatal(err)
		}
		r := run(t, cmd(hotspots, "heat", table))
		if said := strings.Contains(r.stdout, "The file ends in the middle of a record: "); r.status != 0 || said != (torn > 0) {
			t.Errorf("%d bytes less: %+v", torn, r)
		}
	}
}
