package test

import (
	"debug/elf"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Accesses to chosen memory, by hotspots run --regions and --region.

// regionList is what hotspots regions says as JSON.
type regionList struct {
	Total struct {
		Records uint64 `json:"records"`
		Waits   uint64 `json:"waits"`
		Lost    uint64 `json:"lost"`
		Untold  uint64 `json:"untold"`
		Unmade  uint64 `json:"unmade"`
		Ended   bool   `json:"ended"`
	} `json:"total"`
	Unseen struct {
		Functions int    `json:"functions"`
		Repeated  uint64 `json:"repeated"`
	} `json:"unseen"`
	Regions []struct {
		Number    int            `json:"number"`
		Name      string         `json:"name"`
		Address   string         `json:"address"`
		Bytes     uint64         `json:"bytes"`
		Accesses  uint64         `json:"accesses"`
		Loads     uint64         `json:"loads"`
		Stores    uint64         `json:"stores"`
		Atomic    uint64         `json:"atomic"`
		Threads   []uint32       `json:"threads"`
		FirstTime *uint64        `json:"first_ns"`
		ByThread  []regionThread `json:"by_thread"`
		Removed   bool           `json:"removed"`
		Kinds     string         `json:"kinds"`
		Asked     *struct {
			Blocks uint64 `json:"blocks"`
			Freed  uint64 `json:"freed"`
			Peak   uint64 `json:"peak"`
			Most   uint64 `json:"most"`
			Unheld uint64 `json:"unheld"`
			Unled  uint64 `json:"unled"`
		} `json:"asked"`
		Functions []struct {
			Function string `json:"function"`
			Loads    uint64 `json:"loads"`
			Stores   uint64 `json:"stores"`
		} `json:"functions"`
	} `json:"regions"`
}

func regionsOf(t *testing.T, table string) (l regionList) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &l); r.status != 0 || err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if l.Total.Lost != 0 || l.Total.Untold != 0 {
		t.Errorf("accesses were not recorded: %+v", l.Total)
	}
	return l
}

// accessesOf are those that were recorded, as testdata/regions.c writes down what it does.
func accessesOf(t *testing.T, table string, l *regionList) (all []string) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "regions", "export", table))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	begins := map[string]uint64{}
	for _, g := range l.Regions {
		at, err := strconv.ParseUint(g.Address, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		begins[strconv.Itoa(g.Number)] = at
	}
	for _, row := range rows[1:] {
		at, err := strconv.ParseUint(row[3], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d %s %s", row[1], int64(at-begins[row[1]]), row[4], row[5]))
	}
	return all
}

// regionsRun is a run of testdata/regions.c.
type regionsRun struct {
	result
	program, table string
	said           []string // what it has written down
}

func runRegions(t *testing.T, program string, flags []string, args ...string) regionsRun {
	t.Helper()
	to := filepath.Join(t.TempDir(), "said")
	r, table := countedAt(t, cmd(append([]string{program, to}, args...)...), flags...)
	said, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return regionsRun{r, program, table, strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")}
}

var regionsBuilds = [][]string{
	{"gcc", "-O2", "-fPIE", "-pie"},
	{"gcc", "-O1", "-fcf-protection=full", "-falign-functions=32", "-fPIE", "-no-pie"},
	{"clang", "-O2", "-fPIE", "-pie"},
}

func buildRegions(t *testing.T, how []string) string {
	return compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-I../libdynprof", "-Wall", "-Wextra", "-Werror"), "regions.c")
}

// TestRegions: of a program whose accesses are known each is recorded, in order: address, size,
// kind; with registers that are dead, and none; also where threads share one row.
func TestRegions(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(regionsBuilds, 0) {
		program := buildRegions(t, how)
		for _, flags := range lane.Some([][]string{{"--regions"}, {"--regions", "--control"}, {"--regions", "--lock"}, {"--regions", "--edges", "--trips"}}, 0, 1) {
			for _, what := range []string{"kinds", "registers", "edges", "page", "repeated", "fork"} {
				r := runRegions(t, program, append(slices.Clone(flags), "--objects", "main"), what)
				if r.status != 0 {
					t.Fatalf("%v %v %s: %+v", how, flags, what, r.result)
				}
				l := regionsOf(t, r.table)
				got := accessesOf(t, r.table, &l)
				if what == "registers" { // main fills the table as the compiler likes
					isFilled := func(s string) bool { return strings.HasSuffix(s, "store") }
					got, r.said = slices.DeleteFunc(got, isFilled), slices.DeleteFunc(r.said, isFilled)
				}
				if !slices.Equal(got, r.said) {
					t.Errorf("%v %v %s: %q, not %q", how, flags, what, got, r.said)
				}
				if what == "repeated" && l.Unseen.Repeated != 0 {
					t.Errorf("%v %v: what rep touches is said to be unseen", how, flags)
				}
				if what == "fork" && len(l.Regions[0].Threads) != 2 {
					t.Errorf("%v %v: threads %v", how, flags, l.Regions[0].Threads)
				}
			}
		}
	}
}

// TestRegionsStack: what is below the stack pointer, and a region there.
func TestRegionsStack(t *testing.T) {
	lane.Parallel(t)
	r := runRegions(t, buildRegions(t, regionsBuilds[0]), []string{"--regions", "--objects", "main"}, "stack")
	l := regionsOf(t, r.table)
	if r.status != 0 || len(l.Regions) != 1 {
		t.Fatalf("%+v: %+v", r.result, l)
	}
	for _, f := range l.Regions[0].Functions {
		if f.Function == "zone" && f.Loads == 3 && f.Stores == 2 { // and its return address
			return
		}
	}
	t.Errorf("%+v", l)
}

// TestRegionsThreads: each access of each thread.
func TestRegionsThreads(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"--regions"}, {"--regions", "--lock"}} {
		r := runRegions(t, buildRegions(t, regionsBuilds[0]), append(flags, "--objects", "main"), "threads")
		l := regionsOf(t, r.table)
		got := accessesOf(t, r.table, &l)
		slices.Sort(got)
		slices.Sort(r.said)
		if r.status != 0 || !slices.Equal(got, r.said) || len(l.Regions) != 1 || len(l.Regions[0].Threads) != 4 {
			t.Errorf("%v: %d accesses, not %d: %+v", flags, len(got), len(r.said), l)
		}
	}
}

// TestRegionsSignals: handlers, whose accesses are recorded, too, come in between: no access is
// lost or recorded twice, and no register or flag changes.
func TestRegionsSignals(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range lane.Some([][]string{{"--regions"}, {"--regions", "--lock"}}, 0) {
		r := runRegions(t, buildRegions(t, regionsBuilds[0]), append(flags, "--objects", "main"), "signals")
		l := regionsOf(t, r.table)
		var rounds, handled uint64
		if _, err := fmt.Sscan(r.said[0], &rounds, &handled); err != nil || r.status != 0 || len(l.Regions) != 2 {
			t.Fatalf("%v: %v: %+v: %+v", flags, err, r.result, l)
		}
		if g := l.Regions[0]; g.Accesses != 12*rounds || g.Loads != 8*rounds || g.Stores != 7*rounds || g.Atomic != 2*rounds {
			t.Errorf("%v: %d rounds: %+v", flags, rounds, g)
		}
		if g := l.Regions[1]; g.Stores < handled || g.Stores > handled+2 || g.Loads != 0 { // one may come when the timer is stopped
			t.Errorf("%v: %d were handled: %+v", flags, handled, g)
		}
	}
}

// TestRegionsMany: more accesses than the ring holds, and the program is killed behind the last
// one: all are there.
func TestRegionsMany(t *testing.T) {
	lane.Parallel(t)
	program := buildRegions(t, regionsBuilds[0])
	for _, args := range [][]string{{"many", "200000"}, {"many", "200000", "killed"}} {
		r := runRegions(t, program, []string{"--regions", "--objects", "main"}, args...)
		l := regionsOf(t, r.table)
		if want := map[int]int{2: 0, 3: 128 + 9}[len(args)]; r.status != want || len(l.Regions) != 1 || l.Regions[0].Stores != 200000 || l.Total.Records != 200000 || !l.Total.Ended {
			t.Errorf("%v: %+v: %+v", args, r.result, l)
		}
		got := accessesOf(t, r.table, &l)
		for i := range got {
			if want := fmt.Sprintf("1 %d 1 store", i%251); got[i] != want {
				t.Fatalf("%v: access %d is %s, not %s", args, i, got[i], want)
			}
		}
	}
}

// TestRegionsWithout: the four calls do nothing by themselves, and where nothing is recorded.
func TestRegionsWithout(t *testing.T) {
	lane.Parallel(t)
	program := buildRegions(t, regionsBuilds[0])
	if r := run(t, cmd(program, filepath.Join(t.TempDir(), "said"), "without")); r.status != 0 {
		t.Errorf("%+v", r)
	}
	r := runRegions(t, program, []string{"--blocks"}, "without")
	if r.status != 0 {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(build(t, "hotspots"), "regions", r.table)); r.status != 1 || !strings.Contains(r.stderr, "run the program with hotspots run --regions") {
		t.Errorf("%+v", r)
	}
}

// TestRegionsNamed: regions that are named outside: a variable, by its name and by another, the
// whole object, an address; and what is none.
func TestRegionsNamed(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(regionsBuilds[:2], 0, 1) {
		program := buildRegions(t, how)
		r := runRegions(t, program, []string{"--region", "apart", "--region", "mine=main:table", "--objects", "main"}, "fork")
		l := regionsOf(t, r.table)
		if len(l.Regions) != 3 || l.Regions[0].Name != "apart" || l.Regions[0].Bytes != 256 || l.Regions[0].Accesses != 0 || l.Regions[1].Name != "mine" || l.Regions[1].Bytes != 256 || l.Regions[2].Stores != 3 {
			t.Errorf("%v: %+v: %+v", how, r.result, l)
		}
		r = runRegions(t, program, []string{"--region", "all=main", "--region", "0x1000+8192", "--objects", "main"}, "without")
		l = regionsOf(t, r.table) // it is recorded, so that it fails, by way of a variable of its own
		if len(l.Regions) < 2 || l.Regions[0].Name != "all" || l.Regions[0].Loads == 0 || l.Regions[1].Address != "0x1000" || l.Regions[1].Bytes != 8192 {
			t.Errorf("%v: %+v: %+v", how, r.result, l)
		}
	}
	for _, flags := range [][]string{{"--region", "nothing"}, {"--region", "0x1000+0"}, {"--region", "0x1000+x"}, {"--region", "a;b=table"}, {"--regions", "--heat=pages"}, {"--regions", "--control", "--audit"}, {"--regions", "--after", "1s", "--audit"}, {"--for", "1s"}, {"--times"}, {"--regions", "--for=-1s"}, {"--regions", "--overhead", "5%"}, {"--regions", "--follow-exec"}} {
		args := append(append([]string{build(t, "hotspots"), "run"}, flags...), "--", "/bin/true")
		if r := run(t, cmd(args...)); r.status != 125 || !strings.Contains(r.stderr, "--region") && !strings.Contains(r.stderr, "--audit") && !strings.Contains(r.stderr, "--for") && !strings.Contains(r.stderr, "--times") {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}

// TestRegionsOfLibrary: a variable of a library, whatever link to its file is named.
func TestRegionsOfLibrary(t *testing.T) {
	lane.Parallel(t)
	gcc, dir := need(t, "gcc"), t.TempDir()
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-soname,libregion.so.1"}, "regionslib.c")
	for link, to := range map[string]string{"libregion.so.1": library, "libregion.so": "libregion.so.1"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	program := compile(t, gcc, []string{"-DMAIN", "-L" + dir, "-Wl,--no-as-needed", "-lregion", "-Wl,-rpath," + dir}, "regionslib.c")
	for _, path := range []string{library, filepath.Join(dir, "libregion.so")} {
		r := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(dir, "table"), "--region", path+":counter", "--", program))
		l := regionsOf(t, filepath.Join(dir, "table"))
		if r.status != 0 || len(l.Regions) != 1 || l.Regions[0].Loads != 10 || l.Regions[0].Stores != 10 {
			t.Errorf("%s: %+v: %+v", path, r, l)
		}
	}
}

// TestRegionsLater: a variable of a library that is loaded later, each time that it is, and all of
// such a library.
func TestRegionsLater(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "regionslib.c")
	program := compile(t, gcc, []string{"-DLATE"}, "regionslib.c")
	later := filepath.Join(t.TempDir(), "later.so")
	if err := os.Symlink(library, later); err != nil {
		t.Fatal(err)
	}
	for _, flags := range lane.Some([][]string{{}, {"--audit"}}, 0) {
		for what, least := range map[string]uint64{later + ":counter": 0, later: 1} {
			r, table := countedAt(t, cmd(program, later), append([]string{"--objects", "all", "--region", "mine=" + what}, flags...)...)
			l := regionsOf(t, table)
			if r.status != 0 || !strings.Contains(r.stderr, "not loaded yet, their regions begin when they are: mine") || len(l.Regions) != 2 {
				t.Fatalf("%s: %+v: %+v", what, r, l)
			}
			var loads, stores uint64
			for _, g := range l.Regions {
				for _, f := range g.Functions {
					if f.Function == "step" {
						loads, stores = loads+f.Loads, stores+f.Stores
					}
				}
			}
			if loads < 7 || stores != 7 || loads > 7 && least == 0 { // of all of it the slot that has the variable's address, too
				t.Errorf("%v %s: %d loads, %d stores: %+v", flags, what, loads, stores, l)
			}
		}
	}
}

// TestRegionsKept: with plans that are kept records are the same.
func TestRegionsKept(t *testing.T) {
	lane.Parallel(t)
	said := filepath.Join(t.TempDir(), "said")
	p := newPlanned(t, cmd(buildRegions(t, regionsBuilds[0]), said, "kinds"), "run")
	p.flags = []string{"--regions"}
	for starts, done := 0, false; !done; starts++ {
		_, rep, cached, all := p.start(t)
		l := regionsOf(t, rep.table)
		got := accessesOf(t, rep.table, &l)
		want, err := os.ReadFile(said)
		if err != nil || strings.Join(got, "\n")+"\n" != string(want) {
			t.Errorf("%d of %d plans are used: %v: %q, not %q", cached, all, err, got, want)
		}
		if done = cached == all && isWarm(t, rep); starts > 20 {
			t.Fatalf("%d of %d plans are used", cached, all)
		}
	}
	p.flags = []string{"--blocks"}
	if _, rep, _, _ := p.start(t); isWarm(t, rep) {
		t.Error("a plan with records is used without")
	}
}

// TestRegionsFile: as other tools read it, copied and removed with its table.
func TestRegionsFile(t *testing.T) {
	lane.Parallel(t)
	r := runRegions(t, buildRegions(t, regionsBuilds[0]), []string{"--regions", "--objects", "main"}, "edges")
	l := regionsOf(t, r.table)
	at, _ := strconv.ParseUint(l.Regions[0].Address, 0, 64)
	for format, want := range map[string]string{
		"lackey": fmt.Sprintf(" S %08x,8\n L %08x,16\n S %08x,8\n", at-7, at-15, at+63),
		"din":    fmt.Sprintf("1 %x\n0 %x\n1 %x\n", at-7, at-15, at+63),
	} {
		if r := run(t, cmd(build(t, "hotspots"), "regions", "export", r.table, "--format", format)); r.status != 0 || r.stdout != want {
			t.Errorf("%s: %+v, not %q", format, r, want)
		}
	}
	exported := run(t, cmd(build(t, "hotspots"), "regions", "export", r.table))
	rows, err := csv.NewReader(strings.NewReader(exported.stdout)).ReadAll()
	if err != nil || len(rows) != 4 || !slices.Equal(rows[0][7:], []string{"instruction", "object", "offset", "function", "name", "value", "time_ns"}) {
		t.Fatalf("%v: %+v", err, exported)
	}
	var low, high, bias uint64
	symbols, err := elf.Open(r.program)
	if err != nil {
		t.Fatal(err)
	}
	defer symbols.Close()
	all, err := symbols.Symbols()
	for _, s := range all {
		if s.Name == "edges" {
			low, high = s.Value, s.Value+s.Size
		}
		if s.Name == "before" {
			bias = at - 4096 - s.Value
		}
	}
	for _, row := range rows[1:] {
		var instruction, offset uint64
		if _, err := fmt.Sscan(row[7], &instruction); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(row[9], &offset); err != nil {
			t.Fatal(err)
		}
		if row[8] != r.program || row[10] != "edges" || offset < low || offset >= high || instruction != offset+bias {
			t.Errorf("%v: %v: in [%#x, %#x) + %#x?", err, row, low, high, bias)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy.dynprof")
	if r := run(t, cmd(build(t, "hotspots"), "snapshot", r.table, "-o", copied)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if again := regionsOf(t, copied); again.Total != l.Total || again.Regions[0].Accesses != 3 {
		t.Errorf("%+v, not %+v", again, l)
	}
}
