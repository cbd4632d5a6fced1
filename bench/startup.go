package main

import (
	"fmt"
	"path/filepath"
)

// startUp is what a tool adds to the start of a program that ends at once.
type startUp struct {
	Program   string    `json:"program"`
	Tool      string    `json:"tool"`
	Functions int       `json:"functions,omitempty"` // that dynprof counts in it
	RunsMS    []float64 `json:"runs_ms"`             // wall time by round; 0: not in that round
	NativeMS  float64   `json:"native_ms"`           // wall time, median
	AddedMS   spread    `json:"added_ms"`            // wall time
	AddedCPU  float64   `json:"added_cpu_ms"`        // median
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
	{"node -e 0", []string{"/usr/bin/node", "-e", "0"}},
}

// The same by the command, which is what most users start.
var (
	launched   = runTool("run", "hotspots run --summary 0", "--summary", "0")
	summarised = runTool("run-summary", "hotspots run")
)

func runTool(name, about string, flags ...string) *tool {
	return &tool{name: name, about: about, command: func(m *machine, c *command) {
		m.keepPlans(c.args[0], "--text-copies")
		c.env = append(c.env, "XDG_CACHE_HOME="+m.plans())
		run := append([]string{m.hotspots, "run", "-o", filepath.Join(c.dir, "table")}, flags...)
		c.args = append(append(run, "--"), c.args...)
	}}
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
		entries := []*entry{{tool: native}, {tool: again}, {tool: dynprof}, {tool: warm}, {tool: copied}, {tool: kept}, {tool: launched}, {tool: summarised}}
		for _, t := range []*tool{perfRecord, callgrind, uftrace} {
			if m.missing[t.name] == "" && !m.quick && m.tools.MatchString(t.name) {
				entries = append(entries, &entry{tool: t})
			}
		}
		g := &group{m: m, w: w, size: 1, base: p.args[0], entries: entries, truth: counts{}}
		for _, e := range entries {
			e.program = p.args[0]
		}
		for round := range rounds {
			if err := g.round(round, rounds); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		f.StartUps = append(f.StartUps, g.startUpResults()...)
	}
	return nil
}

func (g *group) startUpResults() []startUp {
	var all []startUp
	native := wallTimes(g.entries[0].runs)
	nativeCPU := cpuSpread(g.entries[0].runs).Median
	for _, e := range g.entries {
		if e.failed != "" {
			continue
		}
		s := startUp{Program: g.w.name, Tool: e.name, RunsMS: wallTimes(e.runs), NativeMS: spreadOf(ran(native)).Median}
		s.AddedMS, s.AddedCPU = spreadOf(added(s.RunsMS, native)), cpuSpread(e.runs).Median-nativeCPU
		if e.tool == dynprof {
			s.Functions = g.table.counted
		}
		all = append(all, s)
	}
	return all
}
