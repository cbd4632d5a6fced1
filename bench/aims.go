package main

import "fmt"

// aim is a figure that the project wants to reach.
type aim struct {
	About   string  `json:"about"`
	Unit    string  `json:"unit"`
	AtMost  float64 `json:"at_most"`
	Is      float64 `json:"is"`
	Reached bool    `json:"reached"`
	Kept    float64 `json:"kept,omitempty"` // with --keep-calls
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
	add := func(about, unit string, atMost float64, is func(tool string) float64) {
		if v := is(dynprof.name); v != none {
			all = append(all, aim{about, unit, atMost, v, v <= atMost, is(kept.name)})
		}
	}
	for _, name := range []string{"leaf", "hundred", "fib"} {
		if best := f.best(name); best != nil {
			add(fmt.Sprintf("%s, beside the best stub by hand (%s)", name, best.Tool), "times", 1.2, f.value(name, func(r *result) float64 {
				return r.CPUMS.Median / best.CPUMS.Median
			}))
		}
	}
	add("5,000 tiny functions in turn, added", "ns a call", 1, f.value("tiny", func(r *result) float64 { return r.AddedNS }))
	add("two pinned threads beside one, time of a call", "times", 1.05, f.value("threads", func(two *result) float64 {
		one := f.result("leaf", two.Tool)
		if one == nil {
			return none
		}
		return two.perCall() / one.perCall()
	}))
	for _, a := range ratioAims {
		add(a.workload, "times native", a.atMost, f.value(a.workload, func(r *result) float64 { return r.Ratio.Median }))
	}
	add("start of a trivial program", "ms", 2, f.added("true"))
	add("start of cc1", "ms", 60, f.added("cc1, empty file"))
	for _, m := range f.Memory {
		if m.Program == "cc1" {
			add("arenas and table of cc1", "bytes a function", 96, func(tool string) float64 {
				if tool != dynprof.name {
					return none
				}
				return m.perFunction()
			})
		}
	}
	return all
}

// none stands for a figure that was not measured.
const none = 0

// value is a figure of a workload, by tool.
func (f *figures) value(workload string, of func(*result) float64) func(tool string) float64 {
	return func(tool string) float64 {
		if r := f.result(workload, tool); r != nil {
			return of(r)
		}
		return none
	}
}

// added is the time added to the start of a program, by tool.
func (f *figures) added(program string) func(tool string) float64 {
	return func(tool string) float64 {
		for _, s := range f.StartUps {
			if s.Tool == tool && s.Program == program {
				return s.AddedMS.Median
			}
		}
		return none
	}
}

// perCall is the ns that a call takes, with the loop around it.
func (r *result) perCall() float64 { return r.CPUMS.Median * 1e6 / float64(max(r.Calls, 1)) }
