package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// goStatic builds a Go program that needs no libc: a package by its path, or the one in a
// directory.
func goStatic(t *testing.T, what string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command(need(t, "go"), append([]string{"build", "-o", program}, append(flags, what)...)...)
	if _, err := os.Stat(what); err == nil {
		c.Args[len(c.Args)-1], c.Dir = "main.go", what
	}
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if msg, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return program
}

// goKinds are ways to link it.
var goKinds = map[string][]string{"named": nil, "stripped": {"-ldflags=-s -w"}}

// TestRunGo: hotspots run counts an ordinary Go program, which loads no library, as exactly as it
// counts itself, and all of its functions, also by their names in the runtime's own table.
func TestRunGo(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	hotspots := build(t, "hotspots")
	for kind, flags := range goKinds {
		program := goStatic(t, "testdata/gobusy", flags...)
		for _, procs := range lane.Some([]string{"2", "1", "7"}, 0) {
			t.Run(kind+" "+procs, func(t *testing.T) {
				pieces := strconv.Itoa(lane.Of(100, 1000))
				without := run(t, cmd(program, pieces))
				table := filepath.Join(t.TempDir(), "table")
				counted := cmd(hotspots, "run", "--strict", "--summary", "0", "-o", table, "--", program, pieces)
				counted.env = []string{"GOMAXPROCS=" + procs}
				with := run(t, counted)
				same(t, without, with)
				r := readReport(t, table)
				for line := range strings.Lines(with.stderr) {
					name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
					if made, _ := strconv.ParseUint(n, 10, 64); r.calls(t, name) != made {
						t.Errorf("%s: %d calls were counted, %d made", name, r.calls(t, name), made)
					}
				}
				covers(t, r, 5000, 99)
			})
		}
	}
}

// covers: of a Go program's functions, which are so many at least, that many of a hundred are
// counted.
func covers(t *testing.T, r *report, least, percent int) {
	t.Helper()
	counted := 0
	for _, f := range r.Functions {
		if f.Reason == "" {
			counted++
		}
	}
	if len(r.Functions) < least || 100*counted < len(r.Functions)*percent {
		t.Errorf("%d of %d functions are counted", counted, len(r.Functions))
	}
}

// TestRunGoSpins: a goroutine that spins in a small function is preempted as ever.
func TestRunGoSpins(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	program, table := goStatic(t, "testdata/gospins"), filepath.Join(t.TempDir(), "table")
	without := run(t, cmd(program))
	with := run(t, cmd(build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", table, "--", program))
	same(t, without, with)
	if n := readReport(t, table).calls(t, "main.waits"); n != 1 {
		t.Errorf("main.waits: %d calls", n)
	}
}

// TestRunGoRefused: what has no room on goroutines' stacks is refused, and the program runs.
func TestRunGoRefused(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	program := goStatic(t, "testdata/gospins")
	r := run(t, cmd(build(t, "hotspots"), "run", "--threshold", "10", "-o", filepath.Join(t.TempDir(), "table"), "--", program))
	oneLine(t, r.stderr, "nothing is counted: .* has a Go runtime, whose stacks have no room for what --threshold takes", "")
	if r.status != 0 || r.stdout != "true\n" {
		t.Errorf("status %d: %q", r.status, r.stdout)
	}
}

// TestRunGoTools: Go's own programs say, and make, what they do without us.
func TestRunGoTools(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	tool := func(args ...string) string {
		return strings.TrimSpace(run(t, cmd(append([]string{need(t, "go")}, args...)...)).stdout)
	}
	sources, _ := filepath.Glob(filepath.Join(tool("env", "GOROOT"), "src/unicode/*.go"))
	sources = slices.DeleteFunc(sources, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(sources) == 0 {
		t.Skip("there are no sources of the standard library")
	}
	object := filepath.Join(t.TempDir(), "object")
	for _, row := range lane.Some([]struct {
		name   string
		args   []string
		counts string
	}{
		{"compile", append([]string{tool("tool", "-n", "compile"), "-p", "unicode", "-std", "-o", object}, sources...), "cmd/compile/internal/syntax.Parse"},
		{"gofmt", []string{"", "-d", "-s", "testdata"}, "go/parser.ParseFile"},
		{"go", []string{need(t, "go"), "list", "std"}, "cmd/go/internal/load.PackagesAndErrors"},
	}, 0, 1) {
		t.Run(row.name, func(t *testing.T) {
			if row.args[0] == "" {
				row.args[0] = goStatic(t, "cmd/gofmt", "-ldflags=-s -w")
			}
			table := filepath.Join(t.TempDir(), "table")
			os.Remove(object)
			without := run(t, cmd(row.args...))
			made, _ := os.ReadFile(object)
			os.Remove(object)
			with := run(t, cmd(append([]string{build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", table, "--"}, row.args...)...))
			same(t, without, with)
			if again, _ := os.ReadFile(object); string(again) != string(made) || (row.name == "compile") != (len(made) > 0) {
				t.Errorf("another object file: %d bytes, not %d", len(again), len(made))
			}
			r := readReport(t, table)
			if r.calls(t, row.counts) == 0 {
				t.Errorf("%s was not called", row.counts)
			}
			covers(t, r, 3000, 99)
		})
	}
}

// TestAttachGo: a Go program is attached to and detached from while goroutines run and are
// preempted on all threads, and garbage is collected. Each time as many calls are counted as are
// made, and nothing is left.
func TestAttachGo(t *testing.T) {
	lane.Parallel(t)
	for kind, flags := range goKinds {
		t.Run(kind, func(t *testing.T) {
			a := startAttached(t, goStatic(t, "testdata/gobusy", flags...))
			var used []usage
			for n := range lane.Of(12, 100) / lane.Of(len(goKinds), 1) {
				table := a.attach()
				if n%4 == 0 {
					a.countsAll(table)
				}
				if n == 0 {
					covers(t, readReport(t, table), 5000, 90)
				}
				a.detach()
				os.Remove(table)
				used = append(used, usageOf(t, a.pid()))
			}
			leavesNothing(t, used)
			if maps := read(t, "/proc/"+a.pid()+"/maps"); strings.Contains(maps, "dynprof") {
				t.Errorf("something of ours is mapped yet:\n%s", maps)
			}
			a.end()
		})
	}
}

// countsAll: between two quiet moments as many calls are counted as are made.
func (a *attached) countsAll(table string) {
	a.t.Helper()
	before := a.quiet()
	first := readReport(a.t, table)
	a.goOn()
	time.Sleep(20 * time.Millisecond)
	after := a.quiet()
	a.compare(before, after, first, readReport(a.t, table))
	a.goOn()
}
