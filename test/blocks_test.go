package test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/x86"
)

// Programs of which all functions run as copies, with a counter in each block.

// textFile is lines of numbers and words.
func textFile(t *testing.T, lines int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "%d %x line of some text\n", i*7919%10007, i)
	}
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// callgrindRuns is how often each instruction ran, by object and link-time address, as
// callgrind says.
func callgrindRuns(t *testing.T, args ...string) map[string]map[uint64]uint64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callgrind")
	r := run(t, cmd(append([]string{need(t, "valgrind"), "-q", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no",
		"--skip-plt=no", "--callgrind-out-file=" + file}, args...)...))
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[uint64]uint64{}
	var object map[uint64]uint64
	inclusive := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ob="):
			if object = all[line[3:]]; object == nil {
				object = map[uint64]uint64{}
				all[line[3:]] = object
			}
		case strings.HasPrefix(line, "calls="):
			inclusive = true // the next line is of what was called
		case strings.HasPrefix(line, "0x"):
			var at, of, ir uint64
			if _, err := fmt.Sscanf(line, "0x%x %d %d", &at, &of, &ir); err == nil && !inclusive {
				object[at] += ir
			}
			inclusive = false
		}
	}
	return all
}

// repeatable are commands of which each run does the same, instruction by instruction.
func repeatable(t *testing.T) [][]string {
	t.Helper()
	text := textFile(t, 3000)
	return [][]string{
		{"sed", "-E", `s/([0-9]+) ([0-9a-f]+)/\2 \1/; /7$/d`, text},
		{"xz", "-T1", "-3", "-c", text},
		{"sqlite3", "-batch", ":memory:", "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select * from t where a > 1;"},
		{"sort", "--parallel=1", "-S", "1M", "-n", text}, {"md5sum", text}, {"od", "-x", text}, {"factor", "1234567890123456789", "97"}, // by itself sort asks how much memory is free
	}
}

// TestBlocksExact: each block has run as often as callgrind says of its first instruction
// that it does not count by rounds.
func TestBlocksExact(t *testing.T) {
	lane.Parallel(t)
	for _, args := range lane.Some(repeatable(t), 3) {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			args[0] = need(t, args[0])
			want := callgrindRuns(t, args...)
			path := filepath.Join(t.TempDir(), "table")
			c := cmd(args...)
			c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + path, "DYNPROF_BLOCKS=1", "DYNPROF_OBJECTS=main"}
			same(t, run(t, cmd(args...)), run(t, c))
			compareBlocks(t, path, want)
		})
	}
}

// blocksOf are the blocks of a table, of which there are some.
func blocksOf(t *testing.T, path string) (*table.Table, []table.Block) {
	t.Helper()
	tab, flow := flowOf(t, path)
	return tab, flow.Blocks
}

// flowOf is how control went in the functions of a table.
func flowOf(t *testing.T, path string) (*table.Table, *table.Flow) {
	t.Helper()
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	s, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	flow, err := tab.Flow(s)
	if err != nil || flow == nil {
		t.Fatalf("%+v, %v", flow, err)
	}
	return tab, flow
}

func compareBlocks(t *testing.T, path string, want map[string]map[uint64]uint64) {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	compareRuns(t, tab, blocks, want)
}

// compareRuns compares blocks of a table with what callgrind says of their first instructions.
func compareRuns(t *testing.T, tab *table.Table, blocks []table.Block, want map[string]map[uint64]uint64) {
	t.Helper()
	ran, wrong := 0, 0
	for i := range blocks {
		b := &blocks[i]
		f := &tab.Functions[b.Function]
		o := &tab.Objects[f.Object]
		n := want[o.Path][b.Address]
		if n == b.Runs || isRepeated(t, o.Path, b.Address) {
			if n > 0 {
				ran++
			}
			continue
		}
		if wrong++; wrong < 20 {
			t.Errorf("%s+%#x, of the function at %#x: %d times, callgrind says %d; %+v", filepath.Base(o.Path), b.Address, f.Address, b.Runs, n, b.Block)
		}
	}
	t.Logf("%d blocks, of which %d ran; %d wrong", len(blocks), ran, wrong)
	if ran == 0 {
		t.Error("no block ran")
	}
}

// isRepeated reports whether the instruction there has a prefix that repeats it.
func isRepeated(t *testing.T, path string, addr uint64) bool {
	t.Helper()
	var in x86.Inst
	return x86.Decode(codeOf(t, path, addr), &in) == nil && in.Prefix&(x86.PrefixRep|x86.PrefixRepne) != 0 && in.Map == x86.MapLegacy
}

// codeOf is what stands at a link-time address of a file: 16 bytes, if there are as many.
func codeOf(t *testing.T, path string, addr uint64) (code []byte) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr-p.Vaddr < p.Filesz {
			code = make([]byte, min(16, p.Filesz-(addr-p.Vaddr)))
			if _, err := p.ReadAt(code, int64(addr-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return code
}

// TestBlocksTrue: what threads and a child have run is there, also when the program is
// killed, and what it does is what it does without.
func TestBlocksTrue(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "g++")
	// Of the rounds of work, and of the calls of spin in by_table, throws, and catches.
	spins := func(rounds uint64) (n uint64) {
		for i := range rounds {
			x := i
			for x%7 == 4 {
				x /= 7
			}
			if x%7 == 0 {
				n++
			}
			if n += 2; i%3 == 0 {
				n++
			}
			n += 4
		}
		return n
	}
	want := 4*spins(20000) + spins(1000)
	for _, flags := range lane.Some([][]string{{"-O2"}, {"-O0"}, {"-O3", "-fcf-protection=full"}, {"-Os", "-no-pie"}}, 2) {
		program := compile(t, gcc, append(flags, "-pthread"), "blocks.cc")
		for _, env := range lane.Some([][]string{nil, {"DYNPROF_OBJECTS=all"}, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=100"}, {"DYNPROF_LOCK=1"}, {"DYNPROF_KEEP_CALLS=1"}}, 3) {
			for _, args := range [][]string{{program}, {program, "killed"}} {
				t.Run(strings.Join(append(append([]string{}, flags...), append(env, args[1:]...)...), " "), func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "table")
					c := cmd(args...)
					c.env = append([]string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + path, "DYNPROF_BLOCKS=1"}, env...)
					same(t, run(t, cmd(args...)), run(t, c))
					if got := mostRuns(t, path, "spin"); got != want {
						t.Errorf("the loop of spin: %d times, not %d", got, want)
					}
				})
			}
		}
	}
}

// mostRuns is how often the block of a function has run that has run most.
func mostRuns(t *testing.T, path, function string) (most uint64) {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	for i := range blocks {
		if tab.Functions[blocks[i].Function].Name == function {
			most = max(most, blocks[i].Runs)
		}
	}
	return most
}

// TestBlocksOf: functions that --blocks names have the instructions that they have where all
// have; others have none, and all have their calls.
func TestBlocksOf(t *testing.T) {
	lane.Parallel(t)
	hotspots, xz, text := build(t, "hotspots"), need(t, "xz"), textFile(t, 300)
	type functions map[string][2]uint64 // calls, instructions; those are 0 if they are not counted
	count := func(blocks string) (functions, string) {
		table := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(hotspots, "run", blocks, "--summary", "0", "-o", table, "--", xz, "-T1", "-3", "-c", text))
		if r.status != 0 || r.stderr != "" {
			t.Fatalf("%s: %+v", blocks, r)
		}
		var report struct {
			Functions []struct {
				Object, Name string
				Calls        uint64
				Instructions *uint64
			}
		}
		if err := json.Unmarshal([]byte(run(t, cmd(hotspots, "report", "--format", "json", table)).stdout), &report); err != nil {
			t.Fatal(err)
		}
		all := functions{}
		for _, f := range report.Functions {
			n := [2]uint64{f.Calls, 0}
			if f.Instructions != nil {
				n[1] = *f.Instructions
			}
			if f.Calls > 0 {
				all[f.Name] = n
			}
		}
		return all, table
	}
	all, table := count("--blocks")
	names := run(t, cmd(hotspots, "report", table, "--filter", "^lzma_", "--format", "names")).stdout
	list := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(list, []byte(names), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, blocks := range []string{"--blocks=all", "--blocks=lzma_*", "--blocks=@" + list} {
		some, _ := count(blocks)
		counted := 0
		for name, n := range all {
			switch {
			case blocks != "--blocks=all" && !strings.HasPrefix(name, "lzma_"):
				n[1] = 0
			case n[1] > 0:
				counted++
			}
			if some[name] != n {
				t.Errorf("%s: %s has calls and instructions %v, not %v", blocks, name, some[name], n)
			}
		}
		if counted < 20 {
			t.Errorf("%s: only %d functions", blocks, counted)
		}
	}
}

// TestLoops: a loop was entered as often as the function was called with something to do, and
// went round as often as its first block ran.
func TestLoops(t *testing.T) {
	lane.Parallel(t)
	const calls, rounds = 1000, 7
	source := filepath.Join(t.TempDir(), "loops.c")
	if err := os.WriteFile(source, []byte(fmt.Sprintf(`
		#include <stdio.h>
		__attribute__((noipa)) unsigned inner(unsigned n) {
			unsigned x = 1;
			for (unsigned i = 0; i < n; i++)
				for (unsigned k = 0; k < 5; k++) {
					__asm__ volatile("" : "+r"(x));
					if (x & 1) x = 3 * x + 1; else x >>= 1;
				}
			return x;
		}
		int main(void) {
			unsigned sum = 0;
			for (int i = 0; i < %d; i++)
				sum += inner(i %% 2 ? %d : 0);
			printf("%%u\n", sum);
		}`, calls, rounds)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-O0"}, {"-O1"}, {"-O2", "-fno-unroll-loops"}} {
		program := filepath.Join(t.TempDir(), "loops")
		if r := run(t, cmd(append(append([]string{need(t, "gcc")}, flags...), "-o", program, source)...)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		path := filepath.Join(t.TempDir(), "table")
		if r := run(t, cmd(build(t, "hotspots"), "run", "--blocks", "--summary", "0", "-o", path, "--", program)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		_, flow := flowOf(t, path)
		found := map[int]bool{}
		for i := range flow.Loops {
			switch l := &flow.Loops[i]; {
			case l.Depth == 2 && l.Entries == calls/2*rounds && l.Iterations >= 5*l.Entries && l.Iterations <= 6*l.Entries:
				found[2] = true
			case l.Depth == 1 && l.Iterations >= calls/2*rounds && l.Iterations <= calls/2*rounds+calls && (l.Entries == calls/2 || l.Entries == calls):
				found[1] = true
			}
		}
		if !found[1] || !found[2] {
			t.Errorf("%v: %+v", flags, flow.Loops)
		}
	}
}

// TestBlocksGotos: where jumps lead that no table of addresses tells, and what is no code.
func TestBlocksGotos(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O2"}, {"-O1", "-mcmodel=large", "-fPIE", "-pie"}, {"-O2", "-mcmodel=large", "-fPIE", "-pie"}, {"-O2", "-fno-pie", "-no-pie"},
		{"-O0", "-mcmodel=large", "-fno-pie", "-no-pie"}, {"-O1", "-mindirect-branch=thunk-inline", "-fjump-tables"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			program := compile(t, need(t, "gcc"), append(flags, "-w"), "gotos.c")
			plain, want := run(t, cmd(program)), callgrindRuns(t, program)
			for _, objects := range []string{"main", "all"} {
				r, c := counted(t, cmd(program), "--blocks", "--objects", objects)
				if r.stdout != plain.stdout || r.status != 0 {
					t.Errorf("%s: %+v, without the library %s", objects, r, plain.stdout)
				}
				if objects == "main" {
					compareBlocks(t, c.table, want)
				}
			}
		})
	}
}

// coldParts are where the parts begin that a compiler has put apart, by their names.
func coldParts(t *testing.T, program string) (all []uint64) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasSuffix(s.Name, ".cold") {
			all = append(all, s.Value)
		}
	}
	return all
}

// TestBlocksCold: cold parts are parts of their functions, whatever they call.
func TestBlocksCold(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-fno-pie", "-no-pie"}, {"-O2", "-fno-plt"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			program := compile(t, need(t, "g++"), flags, "blockscold.cc")
			cold := coldParts(t, program)
			for _, stripped := range []bool{false, true} {
				if stripped {
					run(t, cmd(need(t, "strip"), program))
				}
				want := callgrindRuns(t, program)
				r, c := counted(t, cmd(program), "--blocks", "--objects", "main")
				same(t, run(t, cmd(program)), r)
				compareBlocks(t, c.table, want)
				_, blocks := blocksOf(t, c.table)
				for _, at := range cold {
					n := want[program][at]
					i := slices.IndexFunc(blocks, func(b table.Block) bool { return b.Address == at })
					if n == 0 || n%1000 != 0 || i < 0 || blocks[i].Runs != n {
						t.Errorf("stripped %v: the cold part at %#x has run %d times, and is block %d", stripped, at, n, i)
					}
				}
			}
			if len(cold) < 3 {
				t.Errorf("%d cold parts", len(cold))
			}
		})
	}
}

// TestBlocksSplitStack: gcc's function that gets another piece of stack comes back behind a ret.
func TestBlocksSplitStack(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O0", "-fcf-protection"}} {
		program := compile(t, need(t, "gcc"), append(flags, "-Wall", "-Werror", "-fsplit-stack", "-pthread"), "splitstack.c")
		if r, _ := counted(t, cmd(program), "--blocks"); r.stdout != "20100 20100\n" || r.status != 0 {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}

// TestBlocksSkips: handlers may have threads go on behind calls and system calls that stayed
// where they were, in what runs as a copy.
func TestBlocksSkips(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O2", "-fcf-protection=full", "-no-pie"}} {
		program := compile(t, need(t, "gcc"), append(flags, "-Wall", "-Werror"), "skips.c")
		for _, how := range [][]string{{"--blocks"}, {"--blocks", "--objects", "all"}, {"--blocks", "--lock"}, nil} {
			if r, _ := counted(t, cmd(program), how...); r.status != 0 || r.stdout != "15 15\n14 14\n12 12\n8 8\n0 0\n" {
				t.Errorf("%v %v: %+v", flags, how, r)
			}
		}
	}
}

// TestBlocksFromInside: a program that counts its blocks takes copies of its table, in which
// they are, and cannot pause or reset what it counts.
func TestBlocksFromInside(t *testing.T) {
	lane.Parallel(t)
	program, path := controlled(t, "gcc", "-O1"), filepath.Join(t.TempDir(), "copy.dynprof")
	r, final := counted(t, cmd(program, "blocks", path), "--blocks")
	ok(t, r)
	tab, before := flowOf(t, path)
	_, after := flowOf(t, final.table)
	if len(before.Blocks) != len(after.Blocks) || len(before.Ways) != len(after.Ways) || len(before.Loops) != len(after.Loops) {
		t.Fatalf("%d blocks, %d ways, %d loops in the copy; %d, %d, %d at the end", len(before.Blocks), len(before.Ways), len(before.Loops), len(after.Blocks), len(after.Ways), len(after.Loops))
	}
	for i := range before.Blocks {
		b, name := &before.Blocks[i], tab.Functions[before.Blocks[i].Function].Name
		if (name == "outer" || name == "loops" || name == "carries" || name == "narrow") && (b.Runs == 0 || 2*b.Runs != after.Blocks[i].Runs) {
			t.Errorf("%s: a block that ran %d times in the copy, %d at the end", name, b.Runs, after.Blocks[i].Runs)
		}
	}
}

// TestBlocksAPI: dynprof.h tells a program of its own blocks and loops, and translators of
// others'; or why it does not.
func TestBlocksAPI(t *testing.T) {
	lane.Parallel(t)
	const (
		spin = "spin: entered 80, calls of spin 0, loop at 0: 280 iterations, 70 entries, parent -1, all its instructions yes\n"
		nest = "nest: entered 10, calls of spin 80, loop at 0: 80 iterations, 10 entries, parent -1, all its instructions yes\n"
	)
	for _, flags := range [][]string{{"-O1"}, {"-O2", "-fcf-protection=full"}} {
		program := compile(t, need(t, "gcc"), append(flags, "-Wall", "-Werror", "-fPIE", "-pie", "-I../libdynprof"), "blocksapi.c")
		for _, row := range []struct {
			args []string
			says string
		}{
			{[]string{"--blocks"}, spin + nest + "-2 -22 1\n"},
			{[]string{"--blocks", "--translator", "-"}, spin + nest + "-2 -22 1\n"},
			{[]string{"--blocks", "--lock", "--threshold", "5"}, spin + nest + "-2 -22 1\n"},
			{nil, "spin: -61 -61\nnest: -61 -61\n-2 -22 -61\n"},
		} {
			if r, _ := counted(t, cmd(program), row.args...); r.stdout != row.says || r.status != 0 {
				t.Errorf("%v %v: %+v", flags, row.args, r)
			}
		}
		if r := run(t, cmd(program)); r.stdout != "spin: -38 -38\nnest: -38 -38\n-38 -38 -38\n" {
			t.Errorf("without the library: %+v", r)
		}
	}
}

// TestAnnotate: a function's instructions are shown with how often they ran, and what has
// no blocks, or is not there, is said.
func TestAnnotate(t *testing.T) {
	lane.Parallel(t)
	path := filepath.Join(t.TempDir(), "table")
	program := compile(t, need(t, "g++"), []string{"-O2", "-pthread"}, "blocks.cc")
	hotspots := build(t, "hotspots")
	if r := run(t, cmd(hotspots, "run", "--blocks", "-o", path, "--", program)); r.status != 0 || !strings.Contains(r.stderr, " instructions") || !strings.Contains(r.stderr, "INSTRUCTIONS") {
		t.Fatalf("%+v", r)
	}
	most := mostRuns(t, path, "spin")
	for _, row := range []struct {
		args   []string
		says   string
		status int
	}{
		{[]string{"annotate", "spin", path}, thousands(most), 0},
		{[]string{"annotate", "spin", path, "--format", "json"}, fmt.Sprintf(`"runs":%d,`, most), 0},
		{[]string{"annotate", "spin", path}, "loop: " + thousands(most) + " iterations, entered ", 0},
		{[]string{"annotate", "nosuch", path}, "no function of that name", 1},
		{[]string{"loops", path, "--top", "3"}, "INSTRUCTIONS   SHARE", 0},
		{[]string{"loops", path, "--function", "spin"}, thousands(most), 0},
		{[]string{"loops", path, "--function", "spin", "--format", "csv"}, fmt.Sprintf(",1,%d,", most), 0},
		{[]string{"loops", path, "--function", "spin", "--format", "json"}, fmt.Sprintf(`"iterations":%d,`, most), 0},
		{[]string{"loops", path, "--function", "nosuch"}, "no function of that name", 1},
		{[]string{"report", path, "--sort", "instructions", "--format", "csv"}, ",instructions\n", 0},
		{[]string{"report", path, "--format", "json"}, `"total_instructions":`, 0},
		{[]string{"report", path, "--callers", "spin"}, "CALLER\n", 0},
		{[]string{"report", path, "--callees", "catches(unsigned int)", "--format", "csv"}, ",throws(unsigned int),call,81000", 0},
		{[]string{"report", path, "--callers", "nosuch"}, "no function of that name", 1},
		{[]string{"report", path, "--callers", "spin", "--callees", "spin"}, "if any flags in the group", 2},
		{[]string{"reset", path}, "blocks", 1},
	} {
		r := run(t, cmd(append([]string{hotspots}, row.args...)...))
		if r.status != row.status || !strings.Contains(r.stdout+r.stderr, row.says) {
			t.Errorf("%v: %+v", row.args, r)
		}
	}
	if r := run(t, cmd(hotspots, "snapshot", path, "-o", path+".copy")); r.status != 0 || mostRuns(t, path+".copy", "spin") != most {
		t.Errorf("of a copy: %+v", r)
	}
}

// TestAnnotateSource: instructions are shown with their source lines, unless that is not
// wanted; debug information that is damaged leaves them as they are, and is said in one line.
func TestAnnotateSource(t *testing.T) {
	lane.Parallel(t)
	program, hotspots := compile(t, need(t, "g++"), []string{"-O2", "-g", "-pthread"}, "blocks.cc"), build(t, "hotspots")
	damaged, path := filepath.Join(t.TempDir(), "damaged"), filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(damaged+".line", []byte("no line table"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, cmd(need(t, "objcopy"), "--update-section", ".debug_line="+damaged+".line", program, damaged)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for program, path := range map[string]string{program: path, damaged: path + ".damaged"} {
		if r := run(t, cmd(hotspots, "run", "--blocks", "--summary", "0", "-o", path, "--", program)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	plain := run(t, cmd(hotspots, "annotate", "spin", path, "--source=false"))
	if plain.status != 0 || plain.stderr != "" || strings.Contains(plain.stdout, "blocks.cc") {
		t.Errorf("%+v", plain)
	}
	r := run(t, cmd(hotspots, "annotate", "spin", path))
	if without := regexp.MustCompile(`(?m)^ +\|? *blocks\.cc:\d+  .*\n`).ReplaceAllString(r.stdout, ""); r.stderr != "" || !strings.Contains(r.stdout, "blocks.cc:19  if (n)\n") || without != plain.stdout {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(hotspots, "annotate", "spin", path, "--format", "json")); r.stderr != "" || !strings.Contains(r.stdout, `/blocks.cc","line":19}`) {
		t.Errorf("%+v", r)
	}
	r = run(t, cmd(hotspots, "annotate", "spin", path+".damaged"))
	if r.status != 0 || r.stdout == "" || strings.Contains(r.stdout, "blocks.cc") || !strings.HasPrefix(r.stderr, "hotspots: no source lines: ") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("%+v", r)
	}
}

// thousands is a number as reports show it.
func thousands(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// TestExportCallgrind: what is exported is read by callgrind_annotate, with all instructions
// and calls, and of a table without blocks with all calls.
func TestExportCallgrind(t *testing.T) {
	lane.Parallel(t)
	hotspots, annotate := build(t, "hotspots"), need(t, "callgrind_annotate")
	program := compile(t, need(t, "g++"), []string{"-O2", "-pthread"}, "blocks.cc")
	for _, flags := range [][]string{{"--blocks"}, {"--objects", "all", "--blocks"}, nil} {
		path := filepath.Join(t.TempDir(), "table")
		if r := run(t, cmd(slices.Concat([]string{hotspots, "run", "--summary", "0", "-o", path}, flags, []string{"--", program})...)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		if r := run(t, cmd(hotspots, "export", path, "-o", path+".callgrind")); r != (result{}) {
			t.Fatalf("%+v", r)
		}
		rep := readReport(t, path)
		want := thousands(rep.TotalCalls)
		if flags != nil {
			const loads, stores = `[0-9,]+ \(100\.0%\) +`, `[0-9,]+ \(100\.0%\) +`
			want = `^` + thousands(rep.TotalInstructions) + ` \(100\.0%\) +` + loads + stores + want
		}
		r := run(t, cmd(annotate, path+".callgrind"))
		if !regexp.MustCompile(`(?m)` + want + ` \(100\.0%\) +PROGRAM TOTALS`).MatchString(r.stdout) {
			t.Errorf("%v: not %s: %.2000s%s", flags, want, r.stdout, r.stderr)
		}
	}
	if r := run(t, cmd(hotspots, "export", filepath.Join(t.TempDir(), "none"))); r.status != 1 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
}

// TestExportPprof: what is exported is read by pprof, with all calls and instructions, and
// at the addresses where the instructions are.
func TestExportPprof(t *testing.T) {
	lane.Parallel(t)
	hotspots, gcc := build(t, "hotspots"), need(t, "g++")
	for _, row := range []struct{ compiled, flags []string }{
		{[]string{"-O2"}, []string{"--blocks"}},
		{[]string{"-O2", "-no-pie"}, []string{"--objects", "all", "--blocks"}},
		{[]string{"-O2"}, nil},
	} {
		program, path := compile(t, gcc, append(row.compiled, "-pthread"), "blocks.cc"), filepath.Join(t.TempDir(), "table")
		if r := run(t, cmd(slices.Concat([]string{hotspots, "run", "--summary", "0", "-o", path}, row.flags, []string{"--", program})...)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		if r := run(t, cmd(hotspots, "export", path, "--format", "pprof", "-o", path+".pb.gz")); r != (result{}) {
			t.Fatalf("%+v", r)
		}
		rep := readReport(t, path)
		total := func(n uint64) string { return fmt.Sprintf(" of %d total", n) }
		if out := pprof(t, path, "-top", "-sample_index=calls"); !strings.Contains(out, total(rep.TotalCalls)) {
			t.Errorf("%v: not%s: %.2000s", row, total(rep.TotalCalls), out)
		}
		if row.flags == nil {
			if out := pprof(t, path, "-raw"); !strings.Contains(out, "\ncalls/count[dflt]\n") {
				t.Errorf("%.2000s", out)
			}
			continue
		}
		if out := pprof(t, path, "-top"); !strings.Contains(out, "Type: instructions\n") || !strings.Contains(out, total(rep.TotalInstructions)) {
			t.Errorf("%v: not%s: %.2000s", row, total(rep.TotalInstructions), out)
		}
		if out := pprof(t, path, "-disasm=spin"); !regexp.MustCompile(fmt.Sprintf(`(?m)^ +%d +%[1]d +[0-9a-f]+: DECL `, mostRuns(t, path, "spin"))).MatchString(out) {
			t.Errorf("%v: %s", row, out)
		}
	}
}

// pprof is what go tool pprof says of what was exported of a table.
func pprof(t *testing.T, path string, flags ...string) string {
	t.Helper()
	out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, flags...), path+".pb.gz")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", flags, err, out)
	}
	return string(out)
}

// TestPassedFlags: flags that a function reads of its caller, leaves to it, or leaves alone
// behind what sets and in front of what reads them, are kept, by entries and in copies.
func TestPassedFlags(t *testing.T) {
	lane.Parallel(t)
	for _, name := range []string{"passedflags", "returnedflags", "leftflags"} {
		program := compile(t, need(t, "gcc"), []string{"-O1"}, name+".c", name+".S")
		without := run(t, cmd(program))
		for _, flags := range [][]string{{"--blocks"}, {"--blocks", "--edges"}, {"--trips"}, {"--edges"}, nil, {"--threshold", "7"}, {"--lock"}, {"--keep-calls"}} {
			with := run(t, cmd(append(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table")}, flags...), "--", program)...))
			if with.status != 0 || with.stdout != without.stdout {
				t.Errorf("%s %v: %+v, not\n%s", name, flags, with, without.stdout)
			}
		}
	}
}
