package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/table"
)

// Real programs of Debian, stripped; their work is bench/workloads' and a few
// seconds long.
var programs = []struct {
	name string
	args []string
	in   string // file, in which SIZE is a number
	size string
}{
	{"lua", []string{"/usr/bin/lua5.4", "bench/workloads/bench.lua", "450"}, "", ""},
	{"sqlite", []string{"/usr/bin/sqlite3", "-batch", ":memory:"}, "bench/workloads/bench.sql", "800"},
	{"python", []string{"/usr/bin/python3.11", "-S", "-E", "-B", "bench/workloads/bench.py", "200"}, "", ""},
	{"perl", []string{"/usr/bin/perl", "-e", `my %n; for my $r (1..12) { for my $i (1..200000) { $n{$i % 997} .= chr(65 + ($i * $r) % 26) } ` +
		`my $t = join "", map { substr $n{$_}, 0, 40 } sort { $n{$a} cmp $n{$b} } keys %n; $t =~ s/A(.)B/$1/g; %n = () }`}, "", ""},
}

// What perf samples at, in each run. The last stands for the time that functions
// took; perf measures that, and not calls.
var rates = []int{99, 997, 9973} // Hz

func (b *bench) detection() error {
	plugin, err := b.compile(detect, "detect.so", "-shared")
	if err != nil {
		return err
	}
	if why := b.noPerf(); why != "" {
		fmt.Printf("\nDetection beside perf is skipped: %s\n", why)
		return nil
	}
	fmt.Printf("\nDetection in real programs. dynprof: the event at call %d. perf: a function's first sample (cpu-clock,\n", b.threshold)
	fmt.Println("user space), in the same run. Ranks: of the functions called, by samples against by exact calls (what a")
	fmt.Printf("counter finds), and against %d Hz (time: what a sampler looks for). rho is Spearman's.\n", rates[len(rates)-1])
	for _, p := range programs {
		if _, err := os.Stat(p.args[0]); err != nil {
			fmt.Printf("\n%s is skipped: %v\n", p.name, err)
			continue
		}
		r, err := b.profile(plugin, p.args, p.in, p.size)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.print(p.name, b.threshold)
	}
	return nil
}

// noPerf returns why there is no perf here.
func (b *bench) noPerf() string {
	out, err := exec.Command("perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock:u", "-o", filepath.Join(b.dir, "try"), "--", "true").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("perf record: %v %s", err, out)
	}
	return ""
}

// profiled is what is known of one run, by function.
type profiled struct {
	seconds float64
	calls   []uint64
	first   []time.Duration // first call; 0: none
	hot     []time.Duration // its event; 0: none
	samples [][]uint64      // by rate
	sampled [][]time.Duration
	outside []int // samples at each rate that are in no function
}

func (b *bench) profile(plugin string, args []string, in, size string) (*profiled, error) {
	path, data := filepath.Join(b.dir, "table"), filepath.Join(b.dir, "perf.data")
	os.Remove(path)
	perf := []string{"record", "-q", "-k", "CLOCK_MONOTONIC", "-o", data}
	for _, hz := range rates {
		perf = append(perf, "-e", fmt.Sprintf("cpu-clock/freq=%d,name=f%d/u", hz, hz))
	}
	perf = append(perf, "--", filepath.Join(b.build, "hotspots"), "run", "-o", path, "--summary", "0", "--translator", plugin, "--")
	c := exec.Command("perf", append(perf, args...)...)
	c.Env = append(os.Environ(), fmt.Sprint("DETECT=", b.threshold))
	if in != "" {
		text, err := os.ReadFile(in)
		if err != nil {
			return nil, err
		}
		c.Stdin = strings.NewReader(strings.ReplaceAll(string(text), "SIZE", size))
	}
	began := time.Now()
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("perf record: %w\n%s", err, out[max(0, len(out)-2000):])
	}
	r := &profiled{seconds: time.Since(began).Seconds()}
	t, err := table.Open(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if err := r.readTable(t); err != nil {
		return nil, err
	}
	return r, r.readSamples(t, data)
}

func (r *profiled) readTable(t *table.Table) error {
	s, err := t.Snapshot()
	if err != nil {
		return err
	}
	events, err := t.Events()
	if err != nil {
		return err
	}
	r.calls = s.Calls
	r.first, r.hot = make([]time.Duration, len(s.Calls)), make([]time.Duration, len(s.Calls))
	for _, e := range events {
		at := e.Time.Sub(t.Realtime) + time.Duration(t.Monotonic)
		switch {
		case e.Function < 0:
		case e.Calls == 1:
			r.first[e.Function] = at
		default:
			r.hot[e.Function] = at
		}
	}
	return nil
}

// code is the function whose code, or stub with its front, is at [low, high).
type code struct {
	low, high uint64
	function  int
}

// codeOf returns where a function's instructions run, in order.
func codeOf(t *table.Table) []code {
	const front = 64 // at most
	var all []code
	for i, f := range t.Functions {
		o := t.Objects[f.Object]
		all = append(all, code{o.Bias + f.Address, o.Bias + f.Address + uint64(f.Size), i})
		if f.Counted() && f.StubSize > 0 {
			at := o.Arena + uint64(f.Stub)
			all = append(all, code{at - front, at + uint64(f.StubSize), i})
		}
	}
	slices.SortFunc(all, func(a, b code) int { return cmp.Compare(a.high, b.high) })
	return all
}

// functionAt returns the first function that ends behind an address, which is
// the one that it is in: a stub's front is not in another's stub.
func functionAt(all []code, at uint64) int {
	i, _ := slices.BinarySearchFunc(all, at+1, func(c code, end uint64) int { return cmp.Compare(c.high, end) })
	if i == len(all) || at < all[i].low {
		return -1
	}
	return all[i].function
}
