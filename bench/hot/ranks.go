package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/table"
)

// readSamples adds up perf's samples by function.
func (r *profiled) readSamples(t *table.Table, data string) error {
	r.outside = make([]int, len(rates))
	for range rates {
		r.samples = append(r.samples, make([]uint64, len(r.calls)))
		r.sampled = append(r.sampled, make([]time.Duration, len(r.calls)))
	}
	out, err := exec.Command("perf", "script", "-i", data, "-F", "pid,time,event,ip").Output()
	if err != nil {
		return fmt.Errorf("perf script: %w", err)
	}
	all := codeOf(t)
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		// "  9881 14459.960474:  f9973:   7f2ddde01c51"
		field := strings.Fields(s.Text())
		if len(field) < 4 || field[0] != strconv.Itoa(int(t.Pid)) {
			continue
		}
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(field[1], ":"), 64)
		if err != nil {
			return err
		}
		at, err := strconv.ParseUint(field[len(field)-1], 16, 64)
		if err != nil {
			return err
		}
		k := slices.IndexFunc(rates, func(hz int) bool { return strings.HasPrefix(field[2], fmt.Sprintf("f%d:", hz)) })
		if k < 0 {
			continue
		}
		f := functionAt(all, at)
		if f < 0 {
			r.outside[k]++
			continue
		}
		if r.samples[k][f]++; r.sampled[k][f] == 0 {
			r.sampled[k][f] = time.Duration(seconds * 1e9)
		}
	}
	return nil
}

// print shows what each sampler makes of the run.
func (r *profiled) print(name string, threshold uint64) {
	var called, hot []int
	var detected []float64
	for i, n := range r.calls {
		if n > 0 {
			called = append(called, i)
		}
		if r.hot[i] > 0 && r.first[i] > 0 {
			hot = append(hot, i)
			detected = append(detected, ms(r.hot[i]-r.first[i]))
		}
	}
	fmt.Printf("\n%s: %.1f s, %d functions called, %d of them %d times or more\n", name, r.seconds, len(called), len(hot), threshold)
	fmt.Printf("%-10s %8s %8s | %-33s | %-23s | %s\n", "", "samples", "seen", "hot functions: seen, first seen", "ranks against calls", "ranks against time")
	fmt.Printf("%-10s %8s %8s | %8s %12s %12s | %8s %8s %6s | %8s %6s\n", "", "", "", "", "median ms", "90 % ms", "top 10", "top 50", "rho", "top 50", "rho")
	if len(hot) == 0 {
		return
	}
	fmt.Printf("%-10s %8s %8d | %8d %12.3f %12.3f | %8s %8s %6s |\n", "dynprof", "", len(called), len(hot), quantile(detected, 0.5), quantile(detected, 0.9), "10/10", "50/50", "1.00")
	exact := of(r.calls, called)
	truth := of(r.samples[len(rates)-1], called)
	for k, hz := range rates {
		samples := of(r.samples[k], called)
		seen, total := 0, uint64(0)
		for _, n := range samples {
			total += n
			if n > 0 {
				seen++
			}
		}
		var late []float64
		for _, i := range hot {
			if at := r.sampled[k][i]; at > 0 {
				late = append(late, ms(at-r.first[i]))
			}
		}
		if len(late) == 0 {
			late = []float64{math.NaN()}
		}
		fmt.Printf("perf %5d %8d %8d | %8d %12.3f %12.3f | %5d/10 %5d/50 %6.2f |", hz, total, seen, len(late), quantile(late, 0.5), quantile(late, 0.9),
			overlap(samples, exact, 10), overlap(samples, exact, 50), spearman(samples, exact))
		if k < len(rates)-1 {
			fmt.Printf(" %5d/50 %6.2f", overlap(samples, truth, 50), spearman(samples, truth))
		}
		fmt.Println()
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func of(all []uint64, which []int) []uint64 {
	v := make([]uint64, len(which))
	for k, i := range which {
		v[k] = all[i]
	}
	return v
}

// order returns the indices of v, the largest first; equal ones as they come.
func order(v []uint64) []int {
	i := make([]int, len(v))
	for k := range i {
		i[k] = k
	}
	slices.SortStableFunc(i, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
	return i
}

// overlap returns how many of the k first of a are among those of b. What has
// none is not among them.
func overlap(a, b []uint64, k int) int {
	top := map[int]bool{}
	for _, i := range order(b)[:min(k, len(b))] {
		top[i] = true
	}
	n := 0
	for _, i := range order(a)[:min(k, len(a))] {
		if a[i] > 0 && top[i] {
			n++
		}
	}
	return n
}

// ranks gives each its place; equal ones get the mean of theirs.
func ranks(v []uint64) []float64 {
	by := order(v)
	r := make([]float64, len(v))
	for from := 0; from < len(by); {
		to := from
		for to < len(by) && v[by[to]] == v[by[from]] {
			to++
		}
		for _, i := range by[from:to] {
			r[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return r
}

// spearman is the correlation of ranks (C. Spearman, 1904): 1 is the same order,
// 0 none.
func spearman(a, b []uint64) float64 {
	x, y := ranks(a), ranks(b)
	mean := float64(len(x)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mean, y[i]-mean
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	return xy / math.Sqrt(xx*yy)
}
