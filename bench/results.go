package main

import (
	"slices"
	"strings"
	"time"
)

// times are those of runs in ms, by round; notRun: it took no part in that.
func times(runs []*taken, of func(*taken) time.Duration) []float64 {
	v := make([]float64, len(runs))
	for i, t := range runs {
		if t != nil {
			v[i] = ms(of(t))
		}
	}
	return v
}

func cpuTimes(runs []*taken) []float64 {
	return times(runs, func(t *taken) time.Duration { return t.cpu })
}

func wallTimes(runs []*taken) []float64 {
	return times(runs, func(t *taken) time.Duration { return t.wall })
}

// notRun stands for the time of a round that a tool took no part in.
const notRun = 0

// ran leaves the other rounds.
func ran(v []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(v), func(t float64) bool { return t == notRun })
}

// ratios are of the times of two tools in the rounds that both took part in: what
// disturbs the machine disturbs both.
func ratios(a, b []float64) []float64 {
	var v []float64
	for i := range min(len(a), len(b)) {
		if a[i] != notRun && b[i] != notRun {
			v = append(v, a[i]/b[i])
		}
	}
	return v
}

// less takes a time off those of the rounds that were run.
func less(v []float64, off float64) []float64 {
	v = slices.Clone(v)
	for i := range v {
		if v[i] != notRun {
			v[i] -= off
		}
	}
	return v
}

func cpuSpread(runs []*taken) spread { return spreadOf(ran(cpuTimes(runs))) }

func peak(runs []*taken) int {
	kb := 0
	for _, t := range runs {
		if t != nil {
			kb = max(kb, t.peak)
		}
	}
	return kb
}

// shortest work, in ms, that is compared once the start is taken off.
const shortest = 5

// result condenses the runs of a tool. Of a part of the work its start would be
// a larger part than of the whole: it is taken off.
func (g *group) result(e *entry) result {
	w := g.w
	r := result{Workload: w.name, Tool: e.name, Part: float64(g.size) / float64(fast.size(w, g.m.quick)), verdict: e.verdict}
	if e.failed != "" {
		r.Skipped = strings.TrimSpace(e.failed)
		return r
	}
	without := g.entries[0]
	off, nativeOff := 0.0, 0.0
	if len(e.idle) > 0 {
		start, nativeStart := cpuSpread(e.idle).Median, cpuSpread(without.idle).Median
		r.StartMS = start - nativeStart
		if r.Part < 1 {
			off, nativeOff = start, nativeStart
		}
	}
	if r.Short = r.Part < 1 && cpuSpread(without.runs).Median-nativeOff < shortest; r.Short {
		off, nativeOff = 0, 0
	}
	r.RunsMS = less(cpuTimes(e.runs), off)
	native := less(cpuTimes(without.runs), nativeOff)
	of := ratios(r.RunsMS, native)
	r.Rounds, r.Ratio = len(of), spreadOf(of)
	r.NativeMS, r.CPUMS = cpuSpread(without.runs), cpuSpread(e.runs)
	r.NativeKB, r.PeakKB = peak(without.runs), peak(e.runs)
	r.Calls = g.truth.total()
	r.AddedNS = spreadOf(added(r.RunsMS, native)).times(1e6 / float64(r.Calls))
	return r
}

// added are the differences of the times of two tools in the rounds that both took part in.
func added(a, b []float64) []float64 {
	var v []float64
	for i := range min(len(a), len(b)) {
		if a[i] != notRun && b[i] != notRun {
			v = append(v, a[i]-b[i])
		}
	}
	return v
}
