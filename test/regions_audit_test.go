package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Accesses that protected pages tell of, by hotspots run --audit.

// auditOf is what hotspots regions says of one as JSON.
type auditOf struct {
	Audit *struct {
		Accesses  uint64 `json:"accesses"`
		Recorded  uint64 `json:"recorded"`
		Missed    uint64 `json:"missed"`
		Unseen    uint64 `json:"unseen"`
		Unchecked uint64 `json:"unchecked"`
		Own       uint64 `json:"own"`
		Pages     uint64 `json:"pages"`
		Calls     uint64 `json:"calls"`
		Open      uint64 `json:"open_ns"`
		Ended     string `json:"ended"`
		Reasons   []struct {
			Reason   string `json:"reason"`
			Accesses uint64 `json:"accesses"`
		} `json:"reasons"`
		Misses []struct {
			Function string `json:"function"`
			Object   string `json:"object"`
			Kind     string `json:"kind"`
			Accesses uint64 `json:"accesses"`
		} `json:"misses"`
	} `json:"audit"`
}

// runAudit runs testdata/regionsaudit.c, and says what was seen.
func runAudit(t *testing.T, program string, flags []string, args ...string) (a auditOf, r result, table string) {
	t.Helper()
	r, table = countedAt(t, cmd(append([]string{program}, args...)...), append([]string{"--regions", "--audit"}, flags...)...)
	if r.status != 0 {
		t.Fatalf("%v: %+v", args, r)
	}
	shown := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
	if err := json.Unmarshal([]byte(shown.stdout), &a); shown.status != 0 || err != nil || a.Audit == nil {
		t.Fatalf("%v: %+v: %v", args, shown, err)
	}
	if a.Audit.Unseen != 0 || a.Audit.Own != 0 || a.Audit.Ended != "" || a.Audit.Accesses != a.Audit.Recorded+a.Audit.Missed {
		t.Errorf("%v: %+v", args, a.Audit)
	}
	return a, r, table
}

func buildAudited(t *testing.T, how []string) string {
	return compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-I../libdynprof", "-Wall", "-Wextra", "-Werror", "-pthread"), "regionsaudit.c")
}

// TestRegionsAudit: of a program whose accesses are known each is seen, and told apart: those
// that are recorded, and those that are not, with the reason. The program notices nothing: not
// where only the kernel comes to a region, nor its signals, nor faults of its own.
func TestRegionsAudit(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(regionsBuilds, 0) {
		program := buildAudited(t, how)
		for _, flags := range lane.Some([][]string{{"--objects", "main"}, {"--objects", "main", "--lock"}}, 0) {
			for what, want := range map[string]struct{ recorded, missed, calls uint64 }{
				"known": {108, 0, 0},
				"read":  {5, 0, 5}, // the read, the readv, the write, two of mprotect
				"fork":  {4, 0, 0},
				"fault": {3, 0, 0},
				"exec":  {1, 0, 1},
			} {
				a, _, _ := runAudit(t, program, flags, what)
				isCalls := func(n uint64) bool { return n == want.calls || n > want.calls && slices.Contains(how, "-no-pie") } // its addresses may be lengths, too
				if g := a.Audit; g.Recorded != want.recorded || g.Missed != want.missed || !isCalls(g.Calls) || g.Unchecked != 0 || g.Pages != 2 {
					t.Errorf("%v %v %s: %+v", how, flags, what, g)
				}
			}
		}
	}
}

// TestRegionsAuditLibrary: what a library does that is not counted is missed, and it is named. One
// byte more that it sets is an access more, or none.
func TestRegionsAuditLibrary(t *testing.T) {
	lane.Parallel(t)
	a, _, table := runAudit(t, buildAudited(t, regionsBuilds[0]), []string{"--objects", "main"}, "memset")
	g := a.Audit
	if g.Recorded != 3 || g.Missed == 0 || len(g.Reasons) != 1 || g.Reasons[0].Reason != "objects that are not counted" {
		t.Errorf("%+v", g)
	}
	for _, m := range g.Misses {
		if !strings.Contains(m.Object, "libc.so") || m.Kind != "store" {
			t.Errorf("%+v", m)
		}
	}
	r := run(t, cmd(build(t, "hotspots"), "regions", table))
	want := fmt.Sprintf("Audit: %s accesses seen, 3 recorded, %s not: %[2]s objects that are not counted.", thousands(g.Accesses), thousands(g.Missed))
	if r.status != 0 || !strings.Contains(r.stdout, want) {
		t.Errorf("%+v, without %s", r, want)
	}
}

// TestRegionsAuditThreads: threads that come to one page at the same time miss nothing of each
// other; where one waits in the kernel for what goes into a region, others run, and their
// records are not compared.
func TestRegionsAuditThreads(t *testing.T) {
	lane.Parallel(t)
	program := buildAudited(t, regionsBuilds[0])
	a, _, _ := runAudit(t, program, []string{"--objects", "main"}, "threads")
	if g := a.Audit; g.Recorded != 2404 || g.Missed != 0 || g.Unchecked != 0 || g.Calls != 0 {
		t.Errorf("%+v", g)
	}
	a, _, _ = runAudit(t, program, []string{"--objects", "main"}, "blocked")
	if g := a.Audit; g.Recorded != 1 || g.Missed != 0 || g.Unchecked != 10 || g.Open == 0 {
		t.Errorf("%+v", g)
	}
}

// TestRegionsAuditSignals: handlers whose frames lie in a region.
func TestRegionsAuditSignals(t *testing.T) {
	lane.Parallel(t)
	a, r, _ := runAudit(t, buildAudited(t, regionsBuilds[0]), []string{"--objects", "main"}, "signals")
	var rounds, ticks uint64
	if _, err := fmt.Sscan(r.stdout, &rounds, &ticks); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if g := a.Audit; g.Missed != 0 || g.Recorded != 2*rounds+ticks+1 && g.Recorded != 2*rounds+ticks+2 { // one may come when the timer is stopped
		t.Errorf("%d rounds, %d ticks: %+v", rounds, ticks, g)
	}
}

// TestRegionsAuditPager: a program that maps memory as it faults is told of each fault once, where it
// is, also when more signals come than are taken at a time; and not of the stops of its audit.
func TestRegionsAuditPager(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "regionspager.c")
	for _, signals := range lane.Some([]string{"40", "0"}, 0) {
		table := filepath.Join(t.TempDir(), "table")
		r := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--region", "main:alternate", "--audit", "--", program, signals))
		if r.status != 0 || r.stdout != "16 faults, 0 children\n" {
			t.Errorf("%s signals: %+v", signals, r)
		}
	}
}

// TestRegionsAuditAlone: there is nothing to audit without regions.
func TestRegionsAuditAlone(t *testing.T) {
	lane.Parallel(t)
	if r := run(t, cmd(build(t, "hotspots"), "run", "--audit", "--", "/bin/true")); r.status != 125 || !strings.Contains(r.stderr, "--regions") {
		t.Errorf("%+v", r)
	}
}

// TestRegionsHeap: the heap that brk makes larger, as it grows, with what is in front of main; not
// what malloc maps, unless it is told to map nothing. An audit sees the same.
func TestRegionsHeap(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"-O2", "-fPIE", "-pie"}, {"-O2", "-no-pie"}}, 0) {
		program := compile(t, need(t, "gcc"), how, "regionsheap.c")
		for _, row := range []struct {
			tunables string
			want     uint64
		}{{"", 500}, {"glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1", 507}} {
			c := cmd(program)
			c.env = append(c.env, "GLIBC_TUNABLES="+row.tunables)
			r, table := countedAt(t, c, "--region", "heap", "--audit", "--objects", "main")
			l := regionsOf(t, table)
			shown := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
			var a auditOf
			if err := json.Unmarshal([]byte(shown.stdout), &a); err != nil || r.status != 0 || len(l.Regions) != 1 || a.Audit == nil {
				t.Fatalf("%v: %+v, %v", how, r, err)
			}
			if g := l.Regions[0]; g.Stores != row.want || g.Loads != 0 || g.Name != "heap" {
				t.Errorf("%v %s: %+v", how, row.tunables, g)
			}
			if g := a.Audit; g.Recorded != row.want || g.Unseen != 0 || g.Unchecked != 0 || len(g.Reasons) != 1 || g.Reasons[0].Reason != "objects that are not counted" {
				t.Errorf("%v %s: %+v", how, row.tunables, g)
			}
		}
	}
}
