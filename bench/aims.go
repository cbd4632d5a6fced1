package main

import (
	"fmt"
	"strings"
)

// aim is a figure that the project wants to reach.
type aim struct {
	About   string  `json:"about"`
	Unit    string  `json:"unit"`
	AtMost  float64 `json:"at_most"`
	Is      spread  `json:"is"`
	Reached answer  `json:"reached"`
	Kept    spread  `json:"kept"` // with --keep-calls
	Warm    spread  `json:"warm"` // with plans of an earlier start
}

type ratioAim struct {
	workload string
	atMost   float64
}

// ratios to native of all functions counted.
var ratioAims = []ratioAim{
	{"lua", 1.08}, {"sqlite", 1.10}, {"exceptions", 1.05}, {"xz", 1.01}, {"python", 1.10},
	{"cc1", 1.12}, {"redis", 1.10}, {"x264", 1.01}, {"node", 1.10}, {"clang", 1.12},
}

// blocksAims are those that have an aim with blocks, which is blocksAtMost, and half of
// them blocksMedian; of direct calls by site edgesAtMost.
var blocksAims = []string{"lua", "sqlite", "exceptions", "xz", "python", "cc1"}

const blocksAtMost, blocksMedian, edgesAtMost = 1.5, 1.3, 1.2

// pauseAims are for how many ms a program may stand still that is attached to or detached from, by
// its threads.
var pauseAims = map[int]float64{10: 5, 1000: 60}

// starts that have an aim: of a program by a tool, beside the same by another.
var startAims = []struct {
	about, program, tool, beside string
	atMost                       float64
}{
	{"start of a trivial program with plans", "true", "dynprof-warm", "native", 0.8},
	{"start of python with plans", "python3.11 -S -c pass", "dynprof-warm", "native", 2},
	{"start of cc1 with plans", "cc1, empty file", "dynprof-warm", "native", 6},
	{"start of node with plans", "node -e 0", "dynprof-warm", "native", 12},
	{"start of cc1 with plans and copies of text", "cc1, empty file", "dynprof-copied", "native", 6},
	{"start of node with plans and copies of text", "node -e 0", "dynprof-copied", "native", 12},
	{"first start of a trivial program", "true", "dynprof", "native", 3},
	{"first start of cc1", "cc1, empty file", "dynprof", "native", 100},
	{"hotspots run, beside the preload", "true", "run", "dynprof-warm", 0.5},
	{"its summary for cc1", "cc1, empty file", "run-summary", "run", 5},
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
	add := func(about, unit string, atMost float64, is func(tool string) spread) {
		if v := is(dynprof.name); v != (spread{}) {
			all = append(all, aim{about, unit, atMost, v, v.atMost(atMost), is(kept.name), is(warm.name)})
		}
	}
	for _, name := range []string{"leaf", "hundred", "fib"} {
		if best := f.best(name); best != nil {
			add(fmt.Sprintf("%s, beside the best stub by hand (%s)", name, best.Tool), "times", 1.15, f.value(name, func(r *result) spread {
				return spreadOf(ratios(r.RunsMS, best.RunsMS))
			}))
		}
	}
	add("5,000 tiny functions in turn, added", "ns a call", 0.5, f.value("tiny", func(r *result) spread { return r.AddedNS }))
	add("two pinned threads beside one, time of a call", "times", 1.03, f.value("threads", func(two *result) spread {
		if one := f.result("leaf", two.Tool); one != nil {
			return two.perCall().over(one.perCall())
		}
		return spread{}
	}))
	for _, a := range ratioAims {
		add(a.workload, "times native", a.atMost, f.value(a.workload, func(r *result) spread { return r.Ratio }))
	}
	var medians []float64
	for _, name := range blocksAims {
		of := f.value(name, func(r *result) spread { return r.Ratio })
		with := of(blocks.name)
		if with != (spread{}) {
			medians = append(medians, with.Median)
		}
		add(name+", with blocks", "times native", blocksAtMost, dynprofOnly(with))
		add(name+", with edges", "times native", edgesAtMost, dynprofOnly(of(edges.name)))
	}
	if len(medians) == len(blocksAims) {
		add("the median of these with blocks", "times native", blocksMedian, dynprofOnly(exactly(spreadOf(medians).Median)))
	}
	for _, name := range touchAims {
		of := f.value(name, func(r *result) spread { return r.Ratio })
		add(name+", with touched pages", "times native", touchAtMost, dynprofOnly(of(pages.name)))
		add(name+", with touched lines", "times native", touchAtMost, dynprofOnly(of(lines.name)))
		add(name+", with regions, none of which is there", "times native", noRegionAtMost, dynprofOnly(of(noRegion.name)))
	}
	for _, a := range startAims {
		add(a.about, "ms", a.atMost, f.start(a.program, a.tool, a.beside))
	}
	for _, p := range f.Pauses {
		if most := pauseAims[p.Threads]; strings.HasPrefix(p.Tool, "hotspots") && len(p.RunsMS) > 0 {
			add(fmt.Sprintf("%s, 48,000 functions, %d threads", p.Tool, p.Threads), "ms", most, dynprofOnly(p.MS))
		}
	}
	for _, r := range f.Recordings {
		if r.Program == "frame" && strings.HasPrefix(r.Tool, "hotspots") {
			add("an access that is recorded", "ns", recordedAtMost, dynprofOnly(r.WallNS))
			add("the 31 million accesses of a frame", "ms", frameAtMost, dynprofOnly(spreadOf(r.RunsMS)))
		}
	}
	for _, m := range f.Memory {
		if m.Program == "cc1" {
			add("arenas and table of cc1", "bytes a function", 96, dynprofOnly(exactly(m.perFunction())))
		}
	}
	return all
}

// value is a figure of a workload, by tool.
func (f *figures) value(workload string, of func(*result) spread) func(tool string) spread {
	return func(tool string) spread {
		if r := f.result(workload, tool); r != nil {
			return of(r)
		}
		return spread{}
	}
}

// start is the wall time of a program's start by a tool, beside the same by another. With
// --keep-calls, and with plans, only the preload is measured.
func (f *figures) start(program, tool, beside string) func(tool string) spread {
	return func(as string) spread {
		name := tool
		if as != dynprof.name {
			if tool != dynprof.name || as == warm.name {
				return spread{}
			}
			name = as
		}
		a, b := f.startUp(program, name), f.startUp(program, beside)
		if a == nil || b == nil {
			return spread{}
		}
		return spreadOf(added(a.RunsMS, b.RunsMS))
	}
}

func (f *figures) startUp(program, tool string) *startUp {
	for i := range f.StartUps {
		if s := &f.StartUps[i]; s.Tool == tool && s.Program == program {
			return s
		}
	}
	return nil
}

func dynprofOnly(v spread) func(tool string) spread {
	return func(tool string) spread {
		if tool != dynprof.name {
			return spread{}
		}
		return v
	}
}

// perCall is the ns that a call takes, with the loop around it.
func (r *result) perCall() spread { return r.CPUMS.times(1e6 / float64(max(r.Calls, 1))) }
