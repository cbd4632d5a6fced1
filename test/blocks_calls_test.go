package test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Who called whom, by hotspots calls, of programs whose blocks are counted.

// edge is one of hotspots calls. An end that is not known is the zero one.
type edge struct {
	Caller, Callee struct {
		Object, Address, Name string
	}
	Kind  string
	Calls uint64
	Sites []struct {
		Address string
		Calls   uint64
	}
}

// readEdges are all edges of a table, with names as they are in files.
func readEdges(t *testing.T, table string) (edges []edge) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "calls", "--format", "json", "--no-demangle", table))
	var all struct{ Edges []edge }
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return all.Edges
}

// codeAt is an object and a link-time address.
type codeAt struct {
	object  string
	address uint64
}

func parseCodeAt(t *testing.T, object, address string) codeAt {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(address, "0x"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return codeAt{object, n}
}

// callgrindEdges is how often control went from an instruction to a function, as callgrind
// says: as a call, or, where it takes a jump for no call, as it knows no symbol there, as a
// jump. With all PLTs bound at the start it skips their entries.
func callgrindEdges(t *testing.T, args ...string) map[codeAt]map[codeAt]uint64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callgrind")
	c := cmd(append([]string{need(t, "valgrind"), "-q", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no",
		"--collect-jumps=yes", "--callgrind-out-file=" + file}, args...)...)
	c.env = []string{"LD_BIND_NOW=1"}
	if r := run(t, c); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls, err := parseCallgrind(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	all := map[codeAt]map[codeAt]uint64{}
	for _, c := range calls {
		from := codeAt{c.caller, c.site}
		if all[from] == nil {
			all[from] = map[codeAt]uint64{}
		}
		all[from][codeAt{c.object, c.target}] += c.calls
	}
	for _, to := range all {
		for stub, n := range to {
			if callee, ok := through(all, stub); ok {
				delete(to, stub)
				to[callee] += n
			}
		}
	}
	return all
}

// through is where an entry of .plt.got leads, which callgrind takes for code of no object.
func through(all map[codeAt]map[codeAt]uint64, stub codeAt) (codeAt, bool) {
	const endbr = 4
	for _, at := range []uint64{0, endbr} {
		if to := all[codeAt{stub.object, stub.address + at}]; stub.object == "???" && len(to) == 1 {
			for callee := range to {
				return callee, true
			}
		}
	}
	return codeAt{}, false
}

// TestCallsExact: each edge was taken as often at each of its instructions as callgrind says.
func TestCallsExact(t *testing.T) {
	lane.Parallel(t)
	for _, args := range lane.Some(repeatable(t), 2) {
		for _, env := range [][]string{{"DYNPROF_OBJECTS=main"}, nil, {"DYNPROF_EDGES=1"}} {
			t.Run(strings.Join(append(env, args[0]), " "), func(t *testing.T) {
				t.Parallel()
				args := append([]string{need(t, args[0])}, args[1:]...)
				compareEdges(t, args, env...)
			})
		}
	}
	gcc := need(t, "g++")
	for _, flags := range lane.Some([][]string{{"-O2"}, {"-O2", "-fno-plt"}, {"-O0"}, {"-O3", "-fcf-protection=full", "-Wl,-z,now"}, {"-Os", "-no-pie"}}, 2) {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			program := compile(t, gcc, flags, "callsites.cc")
			compareEdges(t, []string{program}, "DYNPROF_OBJECTS=main")
			compareEdges(t, []string{program}, "DYNPROF_OBJECTS=main", "DYNPROF_EDGES=1")
		})
	}
}

// compareEdges runs a program with blocks, and under callgrind.
func compareEdges(t *testing.T, args []string, env ...string) {
	t.Helper()
	want := callgrindEdges(t, args...)
	path := filepath.Join(t.TempDir(), "table")
	c := cmd(args...)
	c.env = append([]string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + path, "DYNPROF_BLOCKS=1"}, env...)
	same(t, run(t, cmd(args...)), run(t, c))
	sites, wrong, sums := 0, 0, map[string]uint64{}
	for _, e := range readEdges(t, path) {
		sums[e.Kind] += e.Calls
		for _, s := range e.Sites {
			from := parseCodeAt(t, e.Caller.Object, s.Address)
			sites++
			if n := arrivals(t, want[from], &e); n != s.Calls && (e.Kind != "at most" || n > s.Calls) {
				if wrong++; wrong < 20 {
					t.Errorf("%s %s -> %s, at %s: %d times, callgrind says %d: %+v", e.Kind, e.Caller.Name, e.Callee.Name, s.Address, s.Calls, n, want[from])
				}
			}
		}
	}
	t.Logf("%d instructions, %v calls; %d wrong", sites, sums, wrong)
	if sums["call"] == 0 {
		t.Error("no call is known")
	}
}

// arrivals is how often control went from an instruction to where an edge leads. Which
// function stands for an IFUNC, and what is behind a pointer, only callgrind knows.
func arrivals(t *testing.T, to map[codeAt]uint64, e *edge) (n uint64) {
	t.Helper()
	if e.Callee.Name != "" && !strings.HasSuffix(e.Callee.Name, " (ifunc)") {
		return to[parseCodeAt(t, e.Callee.Object, e.Callee.Address)]
	}
	for callee, calls := range to {
		if e.Callee.Name == "" || callee.object == e.Callee.Object {
			n += calls
		}
	}
	return n
}

// TestCalls: what is shown of a program's calls, of which each kind is there, and what is
// said where there is nothing to show.
func TestCalls(t *testing.T) {
	lane.Parallel(t)
	path := filepath.Join(t.TempDir(), "table")
	program := compile(t, need(t, "g++"), []string{"-O2"}, "callsites.cc")
	hotspots := build(t, "hotspots")
	if r := run(t, cmd(hotspots, "run", "--blocks", "--summary", "0", "-o", path, "--", program)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if r := run(t, cmd(hotspots, "run", "--summary", "0", "-o", plain, "--", need(t, "true"))); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for _, row := range []struct {
		args   []string
		says   string
		status int
	}{
		{[]string{path}, `2,000 +- +tail call +duplicates -> strdup`, 0},
		{[]string{path, "--function", "two"}, `(?s)two of program: 3,714 calls.*CALLEE.* 3,714 +50.00% +tail call +other of program`, 0},
		{[]string{path, "--function", "leaf"}, ` 2,000 +- +at most +behind of program\n`, 0},
		{[]string{path, "--function", "leaf"}, ` 1,600 +\S+ +elsewhere +from elsewhere`, 0}, // of behind, but for what did not come back
		{[]string{path, "--function", "above"}, `(?s)1,600 +\S+ +tail call +behind.* 500 +\S+ +elsewhere.*CALLEE.* tail call +leaf`, 0},
		{[]string{path, "--function", "strlen"}, `strlen \(ifunc\) of libc`, 0},
		{[]string{path, "--function", "two", "--format", "csv"}, `,two,\S+,other,tail call,3714\n`, 0},
		{[]string{path, "--function", "two", "--format", "json"}, `"name":"two","calls":3714,"callers":\[`, 0},
		{[]string{path, "--function", "nosuch"}, `^hotspots: nosuch: no function of that name was called`, 1},
		{[]string{path, "--inclusive"}, `(?s)INCLUSIVE +SHARE +ITSELF +OBJECT +FUNCTION.*~\S+ +\S+ +\S+ +program +main`, 0},
		{[]string{path, "--inclusive", "--format", "csv"}, `,two,\d+,\d+,(true|false),0\n`, 0},
		{[]string{path, "--inclusive", "--format", "dot"}, `--inclusive goes with`, 2},
		{[]string{path, "--top", "-1"}, `--top -1`, 2},
		{[]string{plain}, `does not tell who called whom: run the program with hotspots run --edges, or --blocks`, 1},
	} {
		r := run(t, cmd(append([]string{hotspots, "calls"}, row.args...)...))
		if r.status != row.status || !regexp.MustCompile(row.says).MatchString(r.stdout+r.stderr) {
			t.Errorf("%v: not %q: %+v", row.args, row.says, r)
		}
	}
	picture := run(t, cmd(hotspots, "calls", path, "--format", "dot"))
	dot := cmd(need(t, "dot"), "-Tplain")
	dot.stdin = picture.stdout
	if r := run(t, dot); r.status != 0 || !strings.Contains(r.stdout, "edge ") {
		t.Errorf("%s: %+v", picture.stdout, r)
	}
}

// TestInclusive: a function whose instructions with those of what it called are said to be
// exact has as many as callgrind says.
func TestInclusive(t *testing.T) {
	lane.Parallel(t)
	source := filepath.Join(t.TempDir(), "inclusive.c")
	if err := os.WriteFile(source, []byte(`
		#include <stdlib.h>
		#define F(name, ...) __attribute__((noipa)) int name(int n, int (*f)(int)) { int x = n; __VA_ARGS__; __asm__ volatile("imul $12345, %0" : "+r"(x)); return x; }
		__attribute__((noipa)) int leaf(int n) { int x = 0; for (int i = 0; i < n; i++) { x += i; __asm__ volatile("" : "+r"(x)); } return x; }
		F(by_pointer, for (int i = 0; i < n; i++) x += f(i))
		F(alone, x += by_pointer(n, f) + 3)
		__attribute__((noipa)) int down(int n) { int x = n > 0 ? down(n - 1) : 0; __asm__ volatile("" : "+r"(x)); return x + 1; }
		__attribute__((noipa)) int odd(int n);
		__attribute__((noipa)) int even(int n) { int x = n > 0 ? odd(n - 1) : 1; __asm__ volatile("" : "+r"(x)); return x; }
		__attribute__((noipa)) int odd(int n) { int x = n > 0 ? even(n - 1) : 0; __asm__ volatile("" : "+r"(x)); return x; }
		F(circle, x += even(n))
		F(recurses, x += down(n))
		F(all, x += alone(n, f); __asm__ volatile("imul $3, %0" : "+r"(x)); x += circle(n, f); __asm__ volatile("imul $3, %0" : "+r"(x)); x += recurses(n, f))
		int main(int argc, char **argv) { return (all(70 + argc, leaf) & 1) != 1000 ? 0 : 1; }`), 0o600); err != nil {
		t.Fatal(err)
	}
	program, file := filepath.Join(t.TempDir(), "inclusive"), filepath.Join(t.TempDir(), "callgrind")
	if r := run(t, cmd(need(t, "gcc"), "-O1", "-o", program, source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := run(t, cmd(need(t, "valgrind"), "-q", "--tool=callgrind", "--callgrind-out-file="+file, program)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	want := map[string]uint64{}
	line := regexp.MustCompile(`(?m)^ *([0-9,]+) \(.*:(\w+) \[`)
	for _, m := range line.FindAllStringSubmatch(run(t, cmd("callgrind_annotate", "--inclusive=yes", "--threshold=100", file)).stdout, -1) {
		if n, err := strconv.ParseUint(strings.ReplaceAll(m[1], ",", ""), 10, 64); err == nil {
			want[m[2]] = n
		}
	}
	path := filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(build(t, "hotspots"), "run", "--blocks", "--edges", "--objects", "main", "--summary", "0", "-o", path, "--", program)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	var list struct {
		Functions []struct {
			Name      string
			Inclusive uint64 `json:"inclusive_instructions"`
			Exact     bool
			Cycle     int
		}
	}
	if err := json.Unmarshal([]byte(run(t, cmd(build(t, "hotspots"), "calls", "--inclusive", "--format", "json", path)).stdout), &list); err != nil {
		t.Fatal(err)
	}
	exact := 0
	for _, f := range list.Functions {
		switch {
		case f.Name == "even" || f.Name == "odd":
			if f.Cycle != 2 || !f.Exact {
				t.Errorf("%+v", f)
			}
		case slices.Contains([]string{"all", "alone", "by_pointer", "leaf", "circle", "recurses", "down"}, f.Name):
			if exact++; !f.Exact || f.Inclusive != want[f.Name] {
				t.Errorf("%+v: callgrind says %d", f, want[f.Name])
			}
		}
	}
	if exact != 7 {
		t.Errorf("only %d functions: %+v", exact, list.Functions)
	}
}
