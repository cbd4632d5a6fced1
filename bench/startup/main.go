// Command startup measures the time that counting adds to the start of a
// program: interleaved runs without and with the library, medians of wall and
// CPU time, and the number of functions that were planned.
//
//	make bench-startup
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table"
)

// programs that end at once: a trivial one, and a large one of Debian's.
var programs = []struct {
	name string
	args []string
}{
	{"true", []string{"/bin/true"}},
	{"sqlite3 -version", []string{"/usr/bin/sqlite3", "-version"}},
	{"python3.11 -S -c pass", []string{"/usr/bin/python3.11", "-S", "-c", "pass"}},
	{"cc1 of an empty file", []string{"/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "-quiet", "/dev/null", "-o", "/dev/null"}},
}

func main() {
	library := flag.String("library", "build/libdynprof.so", "the library to preload")
	rounds := flag.Int("rounds", 15, "runs of each, after one that is not counted")
	flag.Parse()
	if err := measure(*library, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
}

func measure(library string, rounds int) error {
	library, err := filepath.Abs(library)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "startup")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "table")
	fmt.Printf("%-24s %10s %10s %10s %12s %12s\n", "program", "functions", "native ms", "added ms", "least added", "added CPU ms")
	for _, p := range programs {
		if _, err := os.Stat(p.args[0]); err != nil {
			fmt.Printf("%-24s skipped: %v\n", p.name, err)
			continue
		}
		var wall, cpu [2][]float64
		functions := 0
		for round := range rounds + 1 {
			for with := range 2 {
				env := os.Environ()
				if with == 1 {
					env = append(env, "LD_PRELOAD="+library, "DYNPROF_OUTPUT="+out)
				}
				w, c, err := once(p.args, env)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				if round > 0 {
					wall[with], cpu[with] = append(wall[with], w), append(cpu[with], c)
				}
				if with == 1 {
					if functions, err = counted(out); err != nil {
						return fmt.Errorf("%s was not counted: %w", p.name, err)
					}
				}
			}
		}
		fmt.Printf("%-24s %10d %10.2f %10.2f %12.2f %12.2f\n", p.name, functions, median(wall[0]), median(wall[1])-median(wall[0]),
			slices.Min(wall[1])-slices.Min(wall[0]), median(cpu[1])-median(cpu[0]))
	}
	return nil
}

// once runs a program and returns its wall and CPU time in ms, the planner's
// included: the program waits for that.
func once(args, env []string) (wall, cpu float64, err error) {
	c := exec.Command(args[0], args[1:]...)
	c.Env = env
	start := time.Now()
	if err := c.Run(); err != nil {
		return 0, 0, err
	}
	wall = float64(time.Since(start)) / 1e6
	u := c.ProcessState.SysUsage().(*syscall.Rusage)
	return wall, float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6, nil
}

// counted removes the table and returns how many functions it counted.
func counted(path string) (int, error) {
	t, err := table.Open(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer t.Close()
	n := 0
	for i := range t.Functions {
		if t.Functions[i].Counted() {
			n++
		}
	}
	return n, nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
