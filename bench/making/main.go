// Command making measures what libraries, children and threads cost that a program
// makes while it runs: without the library and with it, in turn. Shown are medians of
// the rounds: of the wall time of the last hundred the lower quartile, and of the CPU
// time of all, with that of planners and children.
//
//	make bench-making
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
)

//go:embed testdata/making.c
var making string

//go:embed testdata/library.c
var library string

// linked makes a program of much text.
var linked = []string{"-Wl,--no-as-needed", "-l:libcrypto.so.3", "-l:libxml2.so.2", "-l:libsqlite3.so.0", "-l:libicuuc.so.72"}

// kinds of things that are made.
var kinds = []struct {
	name  string
	args  []string
	n     int
	big   bool
	plans bool // of an earlier run
}{
	{"dlopen, 20", []string{"load", "DIR"}, 20, false, false},
	{"dlopen, 1,000", []string{"load", "DIR"}, 1000, false, false},
	{"dlopen with plans, 20", []string{"load", "DIR"}, 20, false, true},
	{"dlopen with plans, 200", []string{"load", "DIR"}, 200, false, true},
	{"fork", []string{"fork"}, 1000, false, false},
	{"fork, 7 MB of text", []string{"fork"}, 1000, true, false},
	{"thread, 5,000 at a time", []string{"thread"}, 5000, false, false},
}

// cost is microseconds a thing.
type cost struct{ wall, cpu float64 }

func main() {
	preloaded := flag.String("library", "build/libdynprof.so", "the library to preload")
	rounds := flag.Int("rounds", 5, "runs of each")
	objects := flag.String("objects", "", "DYNPROF_OBJECTS")
	flag.Parse()
	if err := measure(*preloaded, *rounds, "DYNPROF_OBJECTS="+*objects); err != nil {
		fmt.Fprintln(os.Stderr, "making:", err)
		os.Exit(1)
	}
}

func measure(preloaded string, rounds int, objects string) error {
	preloaded, err := filepath.Abs(preloaded)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "making")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir); err != nil {
		return err
	}
	env := []string{"LD_PRELOAD=" + preloaded, "DYNPROF_OUTPUT=" + filepath.Join(dir, "table")}
	if objects != "DYNPROF_OBJECTS=" {
		env = append(env, objects)
	}
	fmt.Println("| made | native µs | CPU µs | counted µs | CPU µs | times CPU |\n|---|---|---|---|---|---|")
	for i := range kinds {
		if err := row(dir, i, rounds, env); err != nil {
			return fmt.Errorf("%s: %w", kinds[i].name, err)
		}
	}
	return nil
}

func row(dir string, i, rounds int, env []string) error {
	plans := "DYNPROF_CACHE=0"
	if kinds[i].plans {
		plans = "DYNPROF_CACHE=" + filepath.Join(dir, "plans")
		if _, err := once(dir, i, append(slices.Clone(env), plans)); err != nil {
			return err
		}
	}
	env = append(slices.Clone(env), plans)
	var native, counted []cost
	for range rounds {
		a, err := once(dir, i, nil)
		if err != nil {
			return err
		}
		b, err := once(dir, i, env)
		if err != nil {
			return err
		}
		native, counted = append(native, a), append(counted, b)
	}
	var times []float64
	for k := range native {
		times = append(times, counted[k].cpu/native[k].cpu)
	}
	a, b := medians(native), medians(counted)
	fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.2f |\n", kinds[i].name, a.wall, a.cpu, b.wall, b.cpu, median(times))
	return nil
}

func once(dir string, i int, env []string) (c cost, err error) {
	k := &kinds[i]
	program := "small"
	if k.big {
		program = "big"
	}
	args := append(slices.Clone(k.args), strconv.Itoa(k.n))
	cmd := exec.Command(filepath.Join(dir, program), args...)
	for at := range cmd.Args {
		if cmd.Args[at] == "DIR" {
			cmd.Args[at] = dir
		}
	}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	os.Remove(filepath.Join(dir, "table"))
	if err == nil {
		_, err = fmt.Sscan(string(out), &c.wall, &c.cpu)
	}
	return c, err
}

func medians(all []cost) cost {
	var wall, cpu []float64
	for _, c := range all {
		wall, cpu = append(wall, c.wall), append(cpu, c.cpu)
	}
	return cost{median(wall), median(cpu)}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// prepare makes the programs and a thousand libraries.
func prepare(dir string) error {
	for name, flags := range map[string][]string{"small": nil, "big": linked} {
		if err := compile(making, filepath.Join(dir, name), append([]string{"-pthread"}, flags...)); err != nil {
			return err
		}
	}
	first := filepath.Join(dir, "0.so")
	if err := compile(library, first, []string{"-shared", "-fPIC"}); err != nil {
		return err
	}
	b, err := os.ReadFile(first)
	for i := 1; i < 1000 && err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".so"), b, 0o755)
	}
	return err
}

func compile(text, to string, flags []string) error {
	gcc := exec.Command("gcc", append([]string{"-O1", "-xc", "-", "-o", to, "-xnone"}, flags...)...)
	gcc.Stdin = strings.NewReader(text)
	out, err := gcc.CombinedOutput()
	if err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return nil
}
