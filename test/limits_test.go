package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Beyond the capacities of docs/limits.md that no other test passes.

// TestManyOwners: a row tells its former owners apart as long as there is room for
// their names; the calls of the others are those of one without a name.
func TestManyOwners(t *testing.T) {
	lane.Parallel(t)
	const threads, room = 1100, 1024
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "owners.c")
	table := filepath.Join(t.TempDir(), "table")
	ok := run(t, cmd(build(t, "hotspots"), "run", "-o", table, "--summary", "0", "--", p, fmt.Sprint(threads)))
	out := run(t, cmd(build(t, "hotspots"), "report", "--by", "thread", "--format", "json", table))
	var r struct {
		TotalCalls uint64 `json:"total_calls"`
		Threads    []struct {
			Pid   int
			Calls uint64
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil || ok.status != 0 {
		t.Fatalf("%v: %+v %s", err, ok, out.stderr)
	}
	sum, nameless, others := uint64(0), 0, uint64(0)
	for _, l := range r.Threads {
		sum += l.Calls
		if l.Pid == 0 {
			nameless, others = nameless+1, l.Calls
		}
	}
	if n := len(r.Threads) - nameless; sum != r.TotalCalls || nameless != 1 || n < room || n > room+10 || others < 101*(threads-room-10) {
		t.Errorf("%d threads with a name; %d without, of %d calls; %d calls of %d", n, nameless, others, sum, r.TotalCalls)
	}
}

// TestFewRows: threads for which a table has no row run on, and the report says how
// many they are. A file-size limit leaves a table 64 rows, or fewer where rows have more counters.
func TestFewRows(t *testing.T) {
	lane.Parallel(t)
	const threads, rows = 300, 64
	counted(t, cmd(need(t, "true"))) // puts the library in its place, which is larger than the limit
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "threads.c")
	c, others := cmd(p, "crowd", "100"), setting("TEST_BLOCKS")
	c.before = []string{"prlimit", "--fsize=4000000"}
	if others != "" && others != "sites" {
		c.before = []string{"prlimit", "--fsize=128000000"}
	}
	inVariants(t, c, func(t *testing.T, r *report) {
		text := run(t, cmd(build(t, "hotspots"), "report", r.table)).stdout
		lost := regexp.MustCompile(`(\d+) threads had no room`).FindStringSubmatch(text)
		if lost == nil {
			t.Fatalf("no threads are lost in %s", text)
		}
		n, err := strconv.ParseUint(lost[1], 10, 64)
		if err != nil || others == "" && n != threads-rows+1 {
			t.Errorf("%d threads are lost, not %d", n, threads-rows+1)
		}
		if brief := r.calls(t, "brief"); brief != 100*(threads-n) {
			t.Errorf("brief: %d calls of %d threads, of which %d are lost", brief, threads, n)
		}
	})
}

// TestManySignals: of more signals than wait to be passed on each still comes, if
// without its value.
func TestManySignals(t *testing.T) {
	lane.Parallel(t)
	const sent, rt = 2000, syscall.Signal(40)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "signalled.c")
	r := startSignalled(t, build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table"), "--", program, "handled")
	r.send(syscall.SIGSTOP)
	r.wait()
	for i := range int32(sent) {
		r.queue(rt, i)
	}
	r.send(syscall.SIGCONT)
	with := 0
	for i := 0; i < sent; {
		line, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%d came: %v", i, err)
		}
		if strings.HasPrefix(line, fmt.Sprintf("got %d", rt)) {
			i++
			if strings.Contains(line, "with") {
				with++
			}
		}
	}
	t.Logf("%d with their values", with)
	if got, want := r.end(), fmt.Sprintf("%d: %d\n", rt, sent); !strings.Contains(got, want) || with < 400 {
		t.Errorf("%d with their values; %q, no %q", with, got, want)
	}
}

// TestLongPath: a path that is longer than the system allows is told in a line that
// is not.
func TestLongPath(t *testing.T) {
	lane.Parallel(t)
	program := victim(t)
	without := run(t, cmd(program))
	path := t.TempDir() + strings.Repeat("/"+strings.Repeat("d", 200), 25) + "/table"
	with := run(t, cmd("env", "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+path, program))
	oneLine(t, with.stderr, "not counted: .*name too long.*choose another place", without.stderr)
	if n := len(with.stderr) - len(without.stderr); n > 768 {
		t.Errorf("a line of %d bytes", n)
	}
	with.stderr = without.stderr
	same(t, without, with)
}

// TestLateOwnReserve: a library that needs more than is left of the reserve that a
// --control run keeps has one of its own, and is counted.
func TestLateOwnReserve(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	room := filepath.Join(t.TempDir(), "room.s")
	if err := os.WriteFile(room, []byte("\t.section .room, \"ax\", @nobits\n\t.space 70 << 20\n\t.section .note.GNU-stack, \"\", @progbits\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "room.so")
	if r := run(t, cmd(gcc, "-O1", "-shared", "-fPIC", "-o", library, "testdata/latelib.c", room)); r.status != 0 {
		t.Fatal(r.stderr)
	}
	c := cmd(program, "", library)
	without := run(t, c)
	for _, flags := range [][]string{{"--control"}, {"--control", "--objects", "all", "--threshold", "1000"}} {
		with, r := counted(t, c, flags...)
		same(t, without, with)
		if late, steps := r.late(library, "late_step"), r.calls(t, "step"); late != 300 || steps != 1550 || r.ObjectsMissed != 0 {
			t.Errorf("%v: late_step: %d calls, not 300; step: %d, not 1550; missed: %+v", flags, late, steps, r.Missed)
		}
	}
}
