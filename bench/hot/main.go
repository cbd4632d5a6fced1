// Command hot measures what the hot event is worth: what a crossing costs the
// thread that makes it, how soon new code runs, and how well the hot functions of
// real programs are found, by counting and by perf's samples of the same runs.
//
//	make bench-hot
package main

import (
	"bufio"
	"bytes"
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

//go:embed testdata/crossings.c
var crossings string

//go:embed testdata/detect.c
var detect string

func main() {
	var b bench
	flag.StringVar(&b.build, "build", "build", "`directory` of libdynprof.so, hotspots and dynprof.h")
	rounds := flag.Int("rounds", 5, "runs of each kind of crossing")
	flag.Uint64Var(&b.threshold, "threshold", 10_000, "calls at which a function of a real program is hot")
	flag.Parse()
	if err := b.measure(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "hot:", err)
		os.Exit(1)
	}
}

type bench struct {
	build, dir string
	threshold  uint64
}

func (b *bench) measure(rounds int) error {
	var err error
	if b.build, err = filepath.Abs(b.build); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "hot"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.crossings(rounds); err != nil {
		return err
	}
	return b.detection()
}

// compile makes a file of C.
func (b *bench) compile(source, name string, flags ...string) (string, error) {
	out := filepath.Join(b.dir, name)
	gcc := exec.Command("gcc", append(flags, "-O2", "-fPIC", "-I", b.build, "-xc", "-", "-o", out)...)
	gcc.Stdin = strings.NewReader(source)
	if msg, err := gcc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, msg)
	}
	return out, nil
}

// A kind of crossing: the program's argument, what is measured in it, and how
// much it may be at most in the median (0: there is no aim).
var kinds = []struct {
	mode, what, about string
	aim               float64 // ns
}{
	{"recorded", "crossing", "no translator: a record in the table", 0},
	{"burst", "crossing", "asynchronous, one after the other", 200},
	{"alone", "crossing", "asynchronous, 0.2 ms apart", 200},
	{"asleep", "crossing", "asynchronous, 30 ms apart: wakes the service thread", 0},
	{"synchronous", "entry", "synchronous, until the callback runs", 1000},
	{"synchronous", "crossing", "synchronous, until the function runs", 0},
	{"synchronous-redirect", "redirected", "synchronous, until new code runs", 0},
	{"burst-redirect", "redirected", "asynchronous, until a call runs new code", 0},
}

func (b *bench) crossings(rounds int) error {
	program, err := b.compile(crossings, "crossings", "-fPIE")
	if err != nil {
		return err
	}
	got := map[string]map[string][]float64{} // by mode and what
	for range rounds {
		for _, k := range kinds {
			if got[k.mode] == nil {
				got[k.mode] = map[string][]float64{}
			}
			if k.mode == "synchronous" && k.what == "crossing" {
				continue // the run of the line above has it
			}
			if err := b.cross(program, k.mode, got[k.mode]); err != nil {
				return fmt.Errorf("%s: %w", k.mode, err)
			}
		}
	}
	fmt.Printf("A crossing, ns: each of thousands of functions makes one; all %d runs together.\n", rounds)
	fmt.Printf("cost is the median beside that of the same functions' calls before it.\n\n")
	fmt.Printf("%-52s %8s %8s %8s %8s %8s\n", "", "median", "99 %", "call", "cost", "aim")
	for _, k := range kinds {
		v, call := got[k.mode][k.what], got[k.mode]["call"]
		fmt.Printf("%-52s %8.0f %8.0f", k.about, quantile(v, 0.5), quantile(v, 0.99))
		cost := quantile(v, 0.5)
		if len(call) > 0 {
			cost -= quantile(call, 0.5)
			fmt.Printf(" %8.0f %8.0f", quantile(call, 0.5), cost)
		} else {
			fmt.Printf(" %8s %8s", "", "")
		}
		switch {
		case k.aim > 0 && cost <= k.aim:
			fmt.Printf(" %8.0f met", k.aim)
		case k.aim > 0:
			fmt.Printf(" %8.0f missed", k.aim)
		}
		fmt.Println()
	}
	return nil
}

// cross runs the program once and adds what it prints.
func (b *bench) cross(program, mode string, to map[string][]float64) error {
	path := filepath.Join(b.dir, "table")
	os.Remove(path)
	c := exec.Command(program, mode)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(b.build, "libdynprof.so"), "DYNPROF_OUTPUT="+path)
	if mode == "recorded" {
		c.Env = append(c.Env, "DYNPROF_THRESHOLD=8")
	}
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return err
	}
	lines := 0
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		what, ns, _ := strings.Cut(s.Text(), " ")
		v, err := strconv.ParseFloat(ns, 64)
		if err != nil {
			return err
		}
		to[what] = append(to[what], v)
		if what != "call" && what != "entry" {
			lines++
		}
	}
	return b.crossed(path, lines)
}

// crossed returns an error unless each of n functions has had an event and the
// translator was told of it.
func (b *bench) crossed(path string, n int) error {
	t, err := table.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	events, err := t.Events()
	if err != nil {
		return err
	}
	s, err := t.Snapshot()
	if err != nil {
		return err
	}
	found := 0
	for _, e := range events {
		if e.Function >= 0 && strings.HasPrefix(t.Functions[e.Function].Name, "f_") {
			found++
		}
	}
	if found != n || s.EventsDropped > 0 || s.EventsLost > 0 {
		return fmt.Errorf("%d of %d crossings are in the table, %d were dropped", found, n, s.EventsDropped)
	}
	return nil
}

// quantile sorts v; it is not empty.
func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return v[int(q*float64(len(v)-1))]
}
