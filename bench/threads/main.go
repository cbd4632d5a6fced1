// Command threads measures what a call costs when one thread makes it and when
// two do, on different cores: without the library, with it, and with an atomic
// counter for all threads. Runs are interleaved; medians of CPU time are shown.
//
//	make bench-threads
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/table"
)

//go:embed testdata/loop.c
var loop string

// kinds of call.
var kinds = []struct {
	name, function string
	counted        bool
}{
	{"native", "plain", false},
	{"lock inc", "locked", false},
	{"dynprof", "plain", true},
}

const most = 2 // threads

func main() {
	library := flag.String("library", "build/libdynprof.so", "the library to preload")
	rounds := flag.Int("rounds", 15, "runs of each, after one that is not counted")
	calls := flag.Int("calls", 20_000_000, "calls that each thread makes in a run")
	flag.Parse()
	if err := measure(*library, *rounds, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "threads:", err)
		os.Exit(1)
	}
}

func measure(library string, rounds, calls int) error {
	library, err := filepath.Abs(library)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "threads")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "loop")
	gcc := exec.Command("gcc", "-O2", "-pthread", "-xc", "-", "-o", program)
	gcc.Stdin = strings.NewReader(loop)
	if out, err := gcc.CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	var ns [3][most + 1][]float64 // by kind and threads
	for round := range rounds + 1 {
		for k, kind := range kinds {
			for threads := 1; threads <= most; threads++ {
				c := exec.Command(program, strconv.Itoa(threads), strconv.Itoa(calls), kind.function)
				out := filepath.Join(dir, "table")
				if kind.counted {
					c.Env = append(os.Environ(), "LD_PRELOAD="+library, "DYNPROF_OUTPUT="+out)
				}
				v, err := once(c)
				if err == nil && kind.counted {
					err = exact(out, kind.function, uint64(threads*calls))
				}
				if err != nil {
					return fmt.Errorf("%s, %d threads: %w", kind.name, threads, err)
				}
				if round > 0 {
					ns[k][threads] = append(ns[k][threads], v)
				}
			}
		}
	}
	fmt.Printf("%-10s %12s %12s %10s   ns a call, the loop with it; medians of %d\n", "", "1 thread", "2 threads", "ratio", rounds)
	for k, kind := range kinds {
		one, two := median(ns[k][1]), median(ns[k][2])
		fmt.Printf("%-10s %12.3f %12.3f %10.3f\n", kind.name, one, two, two/one)
	}
	return nil
}

// once runs the program and returns what it prints: ns a call.
func once(c *exec.Cmd) (float64, error) {
	out, err := c.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// exact removes the table, which must say that the function was called so often.
func exact(path, function string, calls uint64) error {
	t, err := table.Open(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer t.Close()
	s, err := t.Snapshot()
	if err != nil {
		return err
	}
	for i := range t.Functions {
		if t.Functions[i].Name == function && s.Calls[i] == calls {
			return nil
		}
	}
	return fmt.Errorf("%s was not counted %d times", function, calls)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
