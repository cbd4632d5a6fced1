package test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// Blocks of malloc, by hotspots run --allocs.

// siteRow is who asks for blocks, and what was done with these.
type siteRow struct {
	Function, Memory, File                              string
	Line                                                int
	Blocks, Bytes, Live, Peak, Known, Touched, Granules uint64
	LiveBytes                                           uint64 `json:"live_bytes"`
	Untouched                                           uint64 `json:"untouched_bytes"`
}

// allocations is what hotspots heat --objects has of blocks.
type allocations struct {
	Sites  []siteRow
	Allocs *struct{ Untold, Short, Dropped, Unled, Children uint64 }
}

func (a *allocations) of(function string) (sum siteRow) {
	for _, s := range a.Sites {
		if s.Function == function {
			sum.Blocks, sum.Bytes, sum.Live, sum.LiveBytes = sum.Blocks+s.Blocks, sum.Bytes+s.Bytes, sum.Live+s.Live, sum.LiveBytes+s.LiveBytes
			sum.Known, sum.Touched, sum.Untouched, sum.Line, sum.File = sum.Known+s.Known, sum.Touched+s.Touched, sum.Untouched+s.Untouched, s.Line, s.File
		}
	}
	return sum
}

func allocationsOf(t *testing.T, table string) (all allocations) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--objects", "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	if all.Allocs == nil {
		t.Fatal("blocks were not noted")
	}
	return all
}

// asThePlainRun compares what the program has said but for addresses.
func asThePlainRun(t *testing.T, without, with result) {
	t.Helper()
	plain := func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) == 4 && f[0] == "block" {
				line = f[1] + f[3]
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "")
	}
	if plain(without.stdout) != plain(with.stdout) || without.status != with.status {
		t.Errorf("it says %s, and without %s", with.stdout, without.stdout)
	}
}

// compareAskers compares sums with those that the program says it has asked for and given back.
func compareAskers(t *testing.T, all *allocations, said string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(said) {
		var name string
		var blocks, bytes, freed, gone uint64
		if k, _ := fmt.Sscanf(line, "site %s %d %d %d %d", &name, &blocks, &bytes, &freed, &gone); k != 5 {
			continue
		}
		n++
		if got := all.of(name); got.Blocks != blocks || got.Bytes != bytes || got.Live != blocks-freed || got.LiveBytes != bytes-gone {
			t.Errorf("%s: %+v, not %d blocks of %d bytes, %d and %d given back", name, got, blocks, bytes, freed, gone)
		}
	}
	if n != 8 {
		t.Errorf("%d sites: %s", n, said)
	}
}

// TestHeatAllocs: sums of each site are those of the program's own count; what was touched of blocks is what it
// says; blocks of a child that is forked are in none; and the program says what it says without.
func TestHeatAllocs(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}}, 1) {
		program := compile(t, gcc, append(flags, "-g", "-Wall", "-Werror"), "heat_allocs.c")
		without := run(t, cmd(program))
		for _, way := range lane.Some([][]string{{"--heat=bytes", "--objects", "main"}, {"--heat=bytes", "--control"}, {"--heat", "--lock"}, {"--heat=threads"}, {"--heat=pages", "--edges"}}, 0, 3) {
			t.Run(strings.Join(append(flags[:len(flags):len(flags)], way...), " "), func(t *testing.T) {
				t.Parallel()
				with, table := countedAt(t, cmd(program), append([]string{"--allocs"}, way...)...)
				asThePlainRun(t, without, with)
				all := allocationsOf(t, table)
				compareAskers(t, &all, with.stdout)
				if all.Allocs.Children != 100 || all.Allocs.Untold+all.Allocs.Dropped+all.Allocs.Unled != 0 {
					t.Errorf("%+v", *all.Allocs)
				}
				if all.of("brief").Known+all.Allocs.Short != 5000 || all.of("many").Known != 1001 || all.of("again").Line == 0 || filepath.Base(all.of("again").File) != "heat_allocs.c" {
					t.Errorf("%+v", all)
				}
				if way[0] == "--heat=bytes" {
					for name, touched := range map[string]uint64{"plain": 125 + 8, "array": 0, "aligned": 1, "posix": 8, "again": 0, "many": 1000, "later": 1250} {
						if got := all.of(name); got.Touched != touched || got.Untouched != got.Bytes-8*touched {
							t.Errorf("%s: %+v, not %d touched", name, got, touched)
						}
					}
				}
			})
		}
	}
}

// TestHeatAllocsCounted: programs of the distribution say what they say without, and have asked for as many blocks
// as a library counts that is preloaded.
func TestHeatAllocsCounted(t *testing.T) {
	lane.Parallel(t)
	library := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-shared", "-fPIC"}, "countallocs.c")
	for _, argv := range lane.Some([][]string{
		{"lua5.4", "-e", "local t={} for i=1,5000 do t[i]={tostring(i)} end print(#t)"},
		{"lua5.4", "-e", "local c={} for i=1,300 do c[i]=coroutine.wrap(function() local s='' for k=1,20 do s=s..k coroutine.yield() end end) end for k=1,9 do for i=1,#c do c[i]() end end print(collectgarbage('count')>0)"},
	}, 1) {
		need(t, argv[0])
		c := cmd(argv...)
		c.env = []string{"LD_PRELOAD=" + library}
		without := run(t, c)
		with, table := countedAt(t, c, "--heat", "--allocs")
		if without.stdout != with.stdout || without.status != 0 || with.status != 0 {
			t.Errorf("%+v, and without %+v", with, without)
		}
		// Who counts is another's malloc, which sees with us that we have called it: so it is the plain run's count.
		var blocks, bytes uint64
		for line := range strings.Lines(without.stderr) {
			fmt.Sscanf(line, "asked %d %d", &blocks, &bytes)
		}
		var sum siteRow
		for _, s := range allocationsOf(t, table).Sites {
			if filepath.Base(s.Memory) == filepath.Base(executableOf(t, argv[0])) {
				sum.Blocks, sum.Bytes = sum.Blocks+s.Blocks, sum.Bytes+s.Bytes
			}
		}
		if blocks == 0 || sum.Blocks != blocks || sum.Bytes != bytes {
			t.Errorf("%s: %d blocks of %d bytes, not %d of %d", argv[0], sum.Blocks, sum.Bytes, blocks, bytes)
		}
	}
}

func executableOf(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHeatAllocsKilled: what blocks there were is told of a program that is killed, and where hotspots run is, and
// of a snapshot.
func TestHeatAllocsKilled(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread"}, "heat_allocs_waits.c")
	for _, who := range []string{"program", "hotspots"} {
		dir := t.TempDir()
		table := filepath.Join(dir, "waits.dynprof")
		c := exec.Command(build(t, "hotspots"), "run", "--heat=pages", "--allocs", "--summary", "0", "-o", table, "--", program)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscanf(out, "pid %d\n", &pid); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			r := run(t, cmd(build(t, "hotspots"), "heat", table, "--objects", "--format", "json"))
			return r.status == 0 && strings.Contains(r.stdout, `"function":"waits"`)
		}, "blocks are not told while it runs")
		copied := filepath.Join(dir, "copy.dynprof")
		if r := run(t, cmd(build(t, "hotspots"), "snapshot", table, "-o", copied)); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		if who == "program" {
			syscall.Kill(pid, syscall.SIGKILL)
		} else {
			c.Process.Kill()
			time.Sleep(10 * time.Millisecond)
		}
		c.Wait()
		for _, at := range []string{table, copied} {
			all := allocationsOf(t, at)
			if got := all.of("waits"); got.Blocks != 100 || got.Live != 60 || got.Bytes != 100*1000 {
				t.Errorf("%s killed, %s: %+v", who, filepath.Base(at), got)
			}
		}
		if who == "hotspots" {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestHeatAllocsRefused: what does not go together is said in one line.
func TestHeatAllocsRefused(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"--allocs"}, {"--allocs", "--region", "heap"}, {"--allocs", "--heat", "--regions"}} {
		r := run(t, cmd(slices.Concat([]string{build(t, "hotspots"), "run"}, flags, []string{"--", "true"})...))
		if r.status != 125 || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}
