package main

import "fmt"

// aim is a figure that the project wants to reach.
type aim struct {
	About   string  `json:"about"`
	Unit    string  `json:"unit"`
	AtMost  float64 `json:"at_most"`
	Is      float64 `json:"is"`
	Reached bool    `json:"reached"`
}

// ratios to native of all functions counted.
var ratioAims = []struct {
	workload string
	atMost   float64
}{
	{"lua", 1.15}, {"sqlite", 1.10}, {"exceptions", 1.05}, {"xz", 1.02}, {"python", 1.12},
}

// best returns the cheapest stub by hand that counts a workload exactly.
func (f *figures) best(workload string) *result {
	var best *result
	for _, s := range styles {
		if r := f.result(workload, s.name); r != nil && r.exact() && (best == nil || r.Ratio.Median < best.Ratio.Median) {
			best = r
		}
	}
	return best
}

// judge compares what was measured with the aims.
func judge(f *figures) []aim {
	var all []aim
	add := func(about, unit string, is, atMost float64) {
		all = append(all, aim{about, unit, atMost, is, is <= atMost})
	}
	for _, name := range []string{"leaf", "hundred", "fib"} {
		if r, best := f.result(name, dynprof.name), f.best(name); r != nil && best != nil {
			add(fmt.Sprintf("%s, beside the best stub by hand (%s)", name, best.Tool), "times", r.CPUMS.Median/best.CPUMS.Median, 1.2)
		}
	}
	if r := f.result("tiny", dynprof.name); r != nil {
		add("5,000 tiny functions in turn, added", "ns a call", r.AddedNS, 1)
	}
	if one, two := f.result("leaf", dynprof.name), f.result("threads", dynprof.name); one != nil && two != nil {
		add("two pinned threads beside one, time of a call", "times", two.perCall()/one.perCall(), 1.05)
	}
	for _, a := range ratioAims {
		if r := f.result(a.workload, dynprof.name); r != nil {
			add(a.workload, "times native", r.Ratio.Median, a.atMost)
		}
	}
	for _, s := range f.StartUps {
		if s.Tool == dynprof.name && s.Program == "true" {
			add("start of a trivial program", "ms", s.AddedMS.Median, 2)
		} else if s.Tool == dynprof.name && s.Program == "cc1, empty file" {
			add("start of cc1", "ms", s.AddedMS.Median, 60)
		}
	}
	for _, m := range f.Memory {
		if m.Program == "cc1" {
			add("arenas and table of cc1", "bytes a function", m.perFunction(), 96)
		}
	}
	return all
}

// perCall is the ns that a call takes, with the loop around it.
func (r *result) perCall() float64 { return r.CPUMS.Median * 1e6 / float64(max(r.Calls, 1)) }
