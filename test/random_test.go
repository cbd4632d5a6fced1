package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// randomFlags are compiler flags, one of each line.
var randomFlags = [][]string{
	{"-O0", "-O1", "-O2", "-O2", "-O3", "-Os"},
	{"-no-pie -fno-pie", "-pie -fPIE", "-pie -fPIC", "-pie -fPIE -fno-plt"},
	{"", "", "-fcf-protection=full", "-fcf-protection=none", "-fcf-protection=branch"},
	{"", "", "-falign-functions=1", "-falign-functions=4", "-falign-functions=32", "-ffunction-sections"},
	{"", "", "-fpatchable-function-entry=1", "-fpatchable-function-entry=5", "-fpatchable-function-entry=16,8", "-fpatchable-function-entry=3,2", "-pg -mfentry"},
	{"", "", "-fno-omit-frame-pointer", "-fstack-protector-all", "-fstack-clash-protection", "-mno-red-zone", "-fno-asynchronous-unwind-tables"},
	{"", "", "", "-march=native", "-mtune=atom", "-fno-jump-tables", "-fno-optimize-sibling-calls", "-Wl,-z,now", "-Wl,-z,noseparate-code"},
}

// clangLacks are flags that clang does not know.
var clangLacks = []string{"-mtune=atom", "-pg -mfentry"}

// randomCompiler picks a compiler and flags.
func randomCompiler(r *rand.Rand) (compiler string, flags []string) {
	compiler = []string{"gcc", "gcc", "clang"}[r.IntN(3)]
	flags = []string{"-w", "-fwrapv", "-fno-strict-aliasing"}
	for _, line := range randomFlags {
		f := line[r.IntN(len(line))]
		if compiler == "clang" && slices.Contains(clangLacks, f) {
			continue
		}
		flags = append(flags, strings.Fields(f)...)
	}
	return compiler, flags
}

// randomCRT are functions that the C runtime brings along, of which an oracle
// in the program sees nothing; those for -pg, too.
var randomCRT = append(profiled, "deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy", "main")

// random is one program made from a seed, and what it does.
type random struct {
	seed    uint64
	dir     string
	recipe  string // the command that built it
	program string
}

func (p *random) String() string { return fmt.Sprintf("seed %d (%s)", p.seed, p.recipe) }

// build compiles sources, files of p.dir or flags.
func (p *random) build(compiler string, args ...string) error {
	p.program = filepath.Join(p.dir, "program")
	args = append(args, "-o", p.program)
	p.recipe = compiler + " " + strings.Join(args, " ")
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", p, err, out)
	}
	return nil
}

// newRandom writes and builds the program of a seed.
func newRandom(t *testing.T, seed uint64) (*random, error) {
	t.Helper()
	p := &random{seed: seed, dir: t.TempDir()}
	for name, text := range randomSources(seed) {
		write(t, filepath.Join(p.dir, name), text, 0o600)
	}
	compiler, flags := randomCompiler(rand.New(rand.NewPCG(seed, 0xf1a9)))
	flags = append(flags, "-I"+p.dir, "testdata/random/main.c", filepath.Join(p.dir, "c.c"), filepath.Join(p.dir, "asm.S"))
	return p, p.build(compiler, flags...)
}

// ways are the flags of hotspots run for a program.
func (p *random) ways() [][]string {
	n := []int{1, 2, 3, 7, 50}[p.seed%5]
	return [][]string{nil, {"--threshold", fmt.Sprint(n)}, {"--objects", "all"}, {"--objects", "all", "--threshold", fmt.Sprint(n)}}
}

// check holds the program against its native run and the instructions that it
// steps through. It reports the calls compared, 0 for a program that is too
// long.
func (p *random) check(t *testing.T) (calls uint64) {
	t.Helper()
	symbols := readSymbols(t, p.program)
	want, ran, came, err := stepped(p.program, symbols)
	if errors.Is(err, errTooLong) {
		return 0
	}
	if err != nil {
		t.Errorf("%v: %v", p, err)
		return 0
	}
	c := cmd(p.program)
	c.dir = p.dir
	without := run(t, c)
	for _, flags := range p.ways() {
		with, r := counted(t, c, flags...)
		same(t, without, with)
		calls += p.agree(t, r, want, symbols)
	}
	for _, flag := range lane.Some([]string{"--blocks", "--trips", "--heat=pages", "--heat=who"}, 0, 1, 2) {
		with, r := counted(t, c, flag)
		same(t, without, with)
		calls += p.agree(t, r, want, symbols) + p.agreeBlocks(t, r.table, ran)
		if flag == "--trips" {
			calls += p.agreeTrips(t, r.table, came, symbols)
		}
	}
	return calls
}

// agreeBlocks fails unless every block ran as often as the oracle came to its first
// instruction, but for those that go on by themselves, of which it sees each round. It
// returns how many those are.
func (p *random) agreeBlocks(t *testing.T, path string, ran truth) (compared uint64) {
	t.Helper()
	tab, blocks := blocksOf(t, path)
	for i := range blocks {
		b := &blocks[i]
		f := &tab.Functions[b.Function]
		if tab.Objects[f.Object].Path != p.program || slices.Contains(randomCRT, f.Name) && f.Name != "main" {
			continue
		}
		behind := b.After != layout.NoBlock && b.Runs > ran[b.Address] // a call that did not come back: docs/blocks.md
		if b.Runs != ran[b.Address] && !behind && !isRepeated(t, p.program, b.Address) {
			t.Errorf("%s+%#x: a block that ran %d times, the oracle says %d: %+v", f.Name, b.Address-f.Address, b.Runs, ran[b.Address], b.Block)
		}
		compared++
	}
	return compared
}

// agree fails unless every function that is counted has the oracle's calls. It
// returns how many those are.
func (p *random) agree(t *testing.T, r *report, want truth, symbols *symbolTable) (calls uint64) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, f := range r.of(p.program) {
		names := symbols.functions[f.at()]
		seen[f.at()] = true
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(randomCRT, n) }) || f.Tactic == "none" {
			continue
		}
		if f.Calls != want[f.at()] {
			t.Errorf("%s %v: %d calls, the oracle says %d (%s, %d bytes)", f.Name, names, f.Calls, want[f.at()], f.Tactic, f.Size)
		}
		calls += f.Calls
	}
	for addr, names := range symbols.functions {
		if !seen[addr] && !symbols.excluded(addr) {
			t.Errorf("%v at %#x is missing from the report", names, addr)
		}
	}
	return calls
}

// keepIfFailed saves a program that fails.
func (p *random) keepIfFailed(t *testing.T) {
	if !t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("dynprof-random-%d-", p.seed))
	if err != nil {
		t.Log(err)
		return
	}
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		t.Log(err)
	}
	t.Logf("%v\nkept in %s", p, dir)
}

// TestRandom: programs of random functions with odd entries, at random flags.
// DYNPROF_RANDOM_MINUTES makes it go on with random seeds, DYNPROF_RANDOM_SEED
// looks at one.
func TestRandom(t *testing.T) {
	lane.Parallel(t)
	need(t, "gcc")
	need(t, "clang")
	randomSeeds(t, lane.Of[uint64](6, 24), func(t *testing.T, seed uint64) uint64 {
		p, err := newRandom(t, seed)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer p.keepIfFailed(t)
		return p.check(t)
	})
}

// randomSeeds runs check for the first n seeds, or for the time or the seed
// that the environment wants.
func randomSeeds(t *testing.T, n uint64, check func(t *testing.T, seed uint64) (compared uint64)) {
	t.Helper()
	first, end := uint64(1), time.Time{}
	if s := setting("RANDOM_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	} else if s := setting("RANDOM_MINUTES"); s != "" {
		minutes, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, end = uint64(time.Now().UnixNano())>>10, time.Now().Add(time.Duration(minutes*float64(time.Minute)))
	}
	programs, compared := 0, uint64(0)
	next := make(chan uint64)
	go func() {
		defer close(next)
		for seed := first; seed < first+n || time.Now().Before(end); seed++ {
			next <- seed
		}
	}()
	done := make(chan uint64)
	for range 2 {
		go func() {
			defer func() { done <- 0 }()
			for seed := range next {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { done <- check(t, seed) + 1 })
			}
		}()
	}
	for workers := 2; workers > 0; {
		if c := <-done; c == 0 {
			workers--
		} else {
			programs++
			compared += c - 1
		}
	}
	t.Logf("%d programs, %d results compared", programs, compared)
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// randomPatience is how long a random program may run; some never end.
const randomPatience = time.Second

// ends tells whether a program ends in time.
func ends(t *testing.T, program, dir string) bool {
	t.Helper()
	e := exec.Command(program)
	e.Dir = dir
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	late := make(chan bool, 1)
	timer := time.AfterFunc(randomPatience, func() { late <- true; e.Process.Kill() })
	e.Wait()
	return timer.Stop() || len(late) == 0
}
