package main

import (
	"fmt"
	"os"
)

// startUp is what a tool adds to the start of a program that ends at once.
type startUp struct {
	Program   string  `json:"program"`
	Tool      string  `json:"tool"`
	Functions int     `json:"functions,omitempty"` // that dynprof counts in it
	NativeMS  float64 `json:"native_ms"`           // wall time, median
	AddedMS   spread  `json:"added_ms"`            // wall time
	AddedCPU  float64 `json:"added_cpu_ms"`        // median
}

// starts are programs that end at once: a trivial one, and larger ones.
var starts = []struct {
	name string
	args []string
}{
	{"true", []string{"/bin/true"}},
	{"sqlite3 -version", []string{"/usr/bin/sqlite3", "-version"}},
	{"python3.11 -S -c pass", []string{"/usr/bin/python3.11", "-S", "-c", "pass"}},
	{"cc1, empty file", []string{cc1, "-quiet", "/dev/null", "-o", "/dev/null"}},
}

// startUps measures wall time, on all CPUs: the planner uses them.
func (m *machine) startUps(f *figures) error {
	rounds := 3 * f.Rounds
	for _, p := range starts {
		if err := needs(p.args[0]); err != nil {
			fmt.Printf("start-up of %s: skipped: %v\n", p.name, err)
			continue
		}
		fmt.Printf("start-up of %s\n", p.name)
		w := &workload{name: p.name, args: func(*machine, int) ([]string, error) { return p.args[1:], nil }}
		entries := []*entry{{tool: native}, {tool: dynprof}, {tool: kept}}
		for _, t := range []*tool{perfRecord, callgrind, uftrace} {
			if m.missing[t.name] == "" && !m.quick && m.tools.MatchString(t.name) {
				entries = append(entries, &entry{tool: t})
			}
		}
		g := &group{m: m, w: w, size: 1, base: p.args[0], entries: entries, truth: counts{}}
		for _, e := range entries {
			e.program = p.args[0]
		}
		if err := g.startUps(rounds); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		f.StartUps = append(f.StartUps, g.startUpResults()...)
	}
	return nil
}

func (g *group) startUps(rounds int) error {
	for round := range rounds {
		for _, e := range g.entries {
			if e.failed != "" || round >= e.rounds(g.m, rounds) {
				e.runs = append(e.runs, nil)
				continue
			}
			t, err := g.once(e, g.size, e.isOurs() && round == 0)
			if err != nil && (e.tool == native || e.isOurs() || g.m.ctx.Err() != nil) {
				return err
			} else if err != nil {
				e.failed = err.Error()
				fmt.Fprintf(os.Stderr, "  %s: skipped: %v\n", e.name, err)
			}
			e.runs = append(e.runs, t)
		}
	}
	return nil
}

func (g *group) startUpResults() []startUp {
	var all []startUp
	var walls []float64
	for _, t := range g.entries[0].runs {
		walls = append(walls, ms(t.wall))
	}
	native := quantile(walls, 0.5)
	nativeCPU := cpuSpread(g.entries[0].runs).Median
	for _, e := range g.entries[1:] {
		if e.failed != "" {
			continue
		}
		var added []float64
		for _, t := range e.runs {
			if t != nil {
				added = append(added, ms(t.wall)-native)
			}
		}
		s := startUp{Program: g.w.name, Tool: e.name, NativeMS: native, AddedMS: spreadOf(added), AddedCPU: cpuSpread(e.runs).Median - nativeCPU}
		if e.tool == dynprof {
			s.Functions = g.table.counted
		}
		all = append(all, s)
	}
	return all
}
