package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// goProgram builds the Go program in dir.
func goProgram(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command(need(t, "go"), "build", "-o", program, "main.go")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=", "GOWORK=off")
	if msg, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, msg)
	}
	return program
}

// TestGo: programs with a Go runtime know their code by address, find their
// auxiliary vector behind the environment, turn faults into panics, and write over
// entries by system calls that nobody sees.
func TestGo(t *testing.T) {
	lane.Parallel(t)
	program := goProgram(t, "testdata/golang")
	without := run(t, cmd(program))
	if without.status != 0 || !strings.Contains(without.stdout, "nil pointer") {
		t.Fatalf("%+v", without)
	}
	t.Run("stripped", func(t *testing.T) { goStripped(t, program) })
	for _, flags := range [][]string{nil, {"--objects", "all"}, {"--threshold", "1000"}, {"--objects", "all", "--allow-traps"}, {"--objects", "all", "--keep-calls"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, cmd(program), flags...)
			same(t, without, with)
			// fib(22): 57,313; 200 times fib(10): 177. deep: 5,001, and
			// once more than 3 i for every i below 200.
			for name, want := range map[string]uint64{
				"main.leaf": 100_000, "main.fib": 57_313 + 200*177, "main.deep": 5001 + 3*199*200/2 + 200,
				"main.recovered": 2, "main.divide": 1, "main.cold": 2, "main.answer": 2, "main.other": 1,
			} {
				if n := r.calls(t, name); n != want {
					t.Errorf("%s: %d calls, not %d", name, n, want)
				}
			}
		})
	}
}

// goStripped: without symbols the functions stand in the runtime's own table.
// They are the same, are patched in the same way, and their calls are as many.
func goStripped(t *testing.T, named string) {
	stripped := filepath.Join(t.TempDir(), "program")
	if msg, err := exec.Command(need(t, "strip"), "-o", stripped, named).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v\n%s", err, msg)
	}
	dies := cmd(stripped, "dies")
	without, died := run(t, cmd(stripped)), run(t, dies)
	if !strings.Contains(died.stderr, "main.dies") || without.status != 0 {
		t.Fatalf("%+v %+v", without, died)
	}
	_, symbols := counted(t, cmd(named))
	for _, flags := range [][]string{nil, {"--objects", "all", "--threshold", "1000", "--control", "--keep-calls"}} {
		with, r := counted(t, cmd(stripped), flags...)
		same(t, without, with)
		sameFunctions(t, symbols, r, flags == nil)
		with, _ = counted(t, dies, flags...)
		same(t, withoutStack(died), withoutStack(with))
	}
	table := filepath.Join(t.TempDir(), "table")
	preload := cmd(stripped)
	preload.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table}
	same(t, without, run(t, preload))
	sameFunctions(t, symbols, readReport(t, table), true)
}

// withoutStack leaves out of a trace where the stack was.
func withoutStack(r result) result {
	r.stderr = regexp.MustCompile(`0x[0-9a-f]+\?`).ReplaceAllString(r.stderr, "?")
	return r
}

// sameFunctions compares the Go functions of two programs at the same addresses, the
// second without symbols. The runtime's own are called as time has it.
func sameFunctions(t *testing.T, symbols, stripped *report, tactics bool) {
	t.Helper()
	found := map[string]function{}
	for _, f := range stripped.Functions {
		if f.Object == stripped.Program && f.Source == "gopclntab" {
			found[f.Address] = f
		}
	}
	seen := 0
	for _, f := range symbols.Functions {
		g, ok := found[f.Address]
		if f.Object != symbols.Program || !ok {
			if strings.HasPrefix(f.Name, "main.") {
				t.Errorf("%s is not found", f.Name)
			}
			continue
		}
		seen++
		name := strings.NewReplacer(".abi0", "", "·", ".") // as the C linker gets them
		named := name.Replace(g.Name) == name.Replace(f.Name) || slices.Contains(f.Aliases, g.Name)
		if !named || g.Size != f.Size || tactics && g.Tactic != f.Tactic || g.Reason != f.Reason {
			t.Errorf("%+v, without symbols %+v", f, g)
		}
		if strings.HasPrefix(f.Name, "main.") && g.Calls != f.Calls {
			t.Errorf("%s: %d calls, %d without symbols", f.Name, f.Calls, g.Calls)
		}
	}
	if seen < 1000 || seen != len(found) {
		t.Errorf("%d functions with symbols, %d without", seen, len(found))
	}
}

// TestGoSignals: profiling and preemption look up by the program counter what a
// goroutine's stack is like, so no thread of a Go program may stand where no
// code of that function was. By traps main.fill is counted, too.
func TestGoSignals(t *testing.T) {
	lane.Parallel(t)
	program := goProgram(t, "testdata/gosignals")
	for _, row := range []struct {
		calls  string
		flags  []string
		tactic string
		reason string
		counts uint64
	}{
		{"20000000", nil, "hop", "", 20_000_000},
		{"200000", []string{"--allow-traps"}, "hop", "", 200_000},
	} {
		without := run(t, cmd(program, row.calls))
		if without.status != 0 {
			t.Fatal(without.stderr)
		}
		with, r := counted(t, cmd(program, row.calls), row.flags...)
		same(t, without, with)
		if f := r.named(t, "main.fill"); f.Tactic != row.tactic || f.Reason != row.reason || f.Calls != row.counts {
			t.Errorf("%v: main.fill: %d calls, %s %s", row.flags, f.Calls, f.Tactic, f.Reason)
		}
	}
}

// TestGoBlocks: blocks of a Go program are not counted, which is said, and its calls are.
func TestGoBlocks(t *testing.T) {
	lane.Parallel(t)
	program := goProgram(t, "testdata/golang")
	without := run(t, cmd(program))
	with, path := countedAt(t, cmd(program), "--blocks")
	same(t, without, with)
	if n := readReport(t, path).calls(t, "main.fib"); n != 57_313+200*177 {
		t.Errorf("main.fib: %d calls", n)
	}
	for _, row := range []struct{ args, says string }{{"report", "its calls: it has a Go runtime"}, {"report --format json", `"by_call_go":["` + program + `"]`}, {"annotate main.fib", "has a Go runtime"}} {
		if r := run(t, cmd(append(append([]string{build(t, "hotspots")}, strings.Fields(row.args)...), path)...)); !strings.Contains(r.stdout+r.stderr, row.says) {
			t.Errorf("%s: %+v", row.args, r)
		}
	}
}

// TestGoProfile: a Go program's own profiler finds a function whose body runs in its stub.
func TestGoProfile(t *testing.T) {
	lane.Parallel(t)
	program := goProgram(t, "testdata/goprofile")
	without := run(t, cmd(program))
	if without.status != 0 {
		t.Fatalf("without the library: %+v", without)
	}
	with, r := counted(t, cmd(program))
	same(t, without, with)
	if f := r.named(t, "main.hog"); f.Tactic != "whole-body" {
		t.Errorf("main.hog: %s, not whole-body", f.Tactic)
	}
}

// TestGoSpins: a goroutine that spins in a small function is preempted as ever.
func TestGoSpins(t *testing.T) {
	lane.Parallel(t)
	program := goProgram(t, "testdata/gospins")
	without := run(t, cmd(program))
	with, r := counted(t, cmd(program))
	same(t, without, with)
	if n := r.calls(t, "main.waits"); n != 1 {
		t.Errorf("main.waits: %d calls", n)
	}
}

// TestGoOfDebian: programs that others built, by older toolchains, without symbols.
func TestGoOfDebian(t *testing.T) {
	lane.Parallel(t)
	for _, row := range lane.Some([]string{
		"containerd config default", "ctr --help", "dockerd --version",
		"podman --help", "prometheus --version",
	}, 0, 1, 2) {
		t.Run(row, func(t *testing.T) {
			args := strings.Fields(row)
			args[0] = need(t, args[0])
			without := run(t, cmd(args...))
			with, r := counted(t, cmd(args...))
			same(t, without, with)
			if r.TotalCalls < 10_000 {
				t.Errorf("%d calls", r.TotalCalls)
			}
		})
	}
}
