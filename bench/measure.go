package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
)

// group is what is measured in turn: tools on the same work, and the program
// without a tool in each round.
type group struct {
	m       *machine
	w       *workload
	size    int
	base    string // the program without a tool
	entries []*entry

	truth     counts
	varies    map[string]bool // functions that are not called equally often in each run
	reference string
	table     *tableFacts
	stdout    []byte
}

// entry is a tool in a group and what its runs took.
type entry struct {
	*tool
	program string
	env     []string // more than all have
	under   []string
	runs    []*taken // by round; nil: not run in that round
	idle    []*taken
	counts  counts // of the first run
	verdict verdict
	failed  string
}

// measure runs all tools on a workload.
func (m *machine) measure(w *workload, f *figures) error {
	fact := workFact{Name: w.name, About: w.about}
	if err := m.ready(w); err != nil {
		if !errors.Is(err, errMissing) {
			return err
		}
		fact.Skipped = err.Error()
		f.Works = append(f.Works, fact)
		fmt.Printf("%s: skipped: %v\n", w.name, err)
		return m.ctx.Err()
	}
	fmt.Printf("%s: %s\n", w.name, w.about)
	groups, err := m.groups(w, f)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if err := g.run(f.Rounds); err != nil {
			return err
		}
		for _, e := range g.entries {
			if e.tool != native {
				f.Results = append(f.Results, g.result(e))
			}
		}
		if err := g.judge(f, &fact); err != nil {
			return err
		}
	}
	f.Works = append(f.Works, fact)
	return m.ctx.Err()
}

// built is a workload for a tool.
type built struct {
	*tool
	base, program string
	err           error
}

// builds builds a workload for all tools, on all CPUs.
func (m *machine) builds(w *workload) []*built {
	var all []*built
	var done sync.WaitGroup
	free := make(chan bool, runtime.NumCPU())
	for _, t := range tools {
		if m.missing[t.name] != "" || t.wants != nil && !t.wants(w) || w.alone && !t.isBesideOurs() && !slices.Contains(touchTools, t) || w.static && t != again && t != compiled || t != w.counter() && t != again && !m.tools.MatchString(t.name) {
			continue
		}
		b := &built{tool: t, base: w.program, program: w.program}
		all = append(all, b)
		if t.program != nil {
			done.Go(func() {
				free <- true
				b.base, b.program, b.err = t.program(m, w)
				<-free
			})
		}
	}
	done.Wait()
	return all
}

// groups puts tools with the same base and the same size together. dynprof is in
// every group in which its counts can be compared with another tool's.
func (m *machine) groups(w *workload, f *figures) ([]*group, error) {
	var all []*group
	for _, t := range m.builds(w) {
		if t.err != nil && slices.Contains(limits, t.tool) {
			return nil, t.err
		} else if t.err != nil {
			fmt.Printf("  %s: skipped: %v\n", t.name, t.err)
			f.Results = append(f.Results, result{Workload: w.name, Tool: t.name, Skipped: t.err.Error()})
			continue
		}
		size := t.pace.size(w, m.quick)
		var g *group
		for _, other := range all {
			if other.base == t.base && other.size == size {
				g = other
			}
		}
		if g == nil {
			g = &group{m: m, w: w, size: size, base: t.base, entries: []*entry{{tool: native, program: t.base}}}
			all = append(all, g)
		}
		g.entries = append(g.entries, &entry{tool: t.tool, program: t.program})
	}
	return all, nil
}

func (g *group) entry(t *tool) *entry {
	for _, e := range g.entries {
		if e.tool == t {
			return e
		}
	}
	return nil
}

// refer finds out how often each function is called in the group's work: by
// construction, or by an extra run of dynprof, whose counts are compared with
// callgrind's (agree) where that is in the group.
func (g *group) refer() error {
	if g.w.calls != nil && !g.w.partly {
		g.truth, g.reference = g.w.calls(g.size), "construction"
		return nil
	}
	e := &entry{tool: g.w.counter(), program: g.base}
	_, err := g.once(e, g.size, true)
	g.truth, g.reference = e.counts, "dynprof"
	return err
}

// runs that are made at most to find out what varies.
const mostAgain = 40

// agree compares dynprof's counts with callgrind's. Where they differ the work is
// done again, in surroundings as valgrind makes them, until each function that
// differs has varied between dynprof's own runs: with addresses, for example,
// by which pointers are hashed.
func (g *group) agree(theirs counts) (verdict, error) {
	g.varies = map[string]bool{}
	for again := 0; ; again++ {
		ours, theirs, err := explain(g.m, g.table, g.varies, g.truth, theirs)
		if err != nil {
			return verdict{}, err
		}
		v := compare(ours, theirs)
		if v.exact() || again == mostAgain {
			return v, nil
		}
		e := &entry{tool: dynprof, program: g.base, env: valgrindVariables, under: valgrindSignals}
		if _, err := g.once(e, g.size, true); err != nil {
			return v, err
		}
		for name, n := range e.counts {
			if n != g.truth[name] {
				g.varies[name] = true
			}
		}
	}
}

// once runs a tool and, if asked for, reads its counts.
func (g *group) once(e *entry, size int, read bool) (*taken, error) {
	m, w := g.m, g.w
	dir, err := m.fresh()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args, err := w.args(m, size)
	if err != nil {
		return nil, err
	}
	c := command{args: append([]string{e.program}, args...), dir: dir, cpus: cpus(w.uses)}
	if w.stdin != nil {
		if c.stdin, err = w.stdin(m, size); err != nil {
			return nil, err
		}
	}
	if w.drive != nil {
		c.drive = w.drive(m, dir, size)
	}
	if e.command != nil {
		e.command(m, &c)
	}
	c.env, c.under = append(c.env, e.env...), e.under
	if e.isOurs() || slices.Contains(touchTools, e.tool) {
		c.env = append(c.env, w.env...)
	}
	t, err := m.run(c)
	if err != nil {
		return nil, err
	}
	if size == g.size && w.drive == nil {
		if g.stdout == nil {
			g.stdout = append([]byte{}, t.stdout...)
		} else if !bytes.Equal(g.stdout, t.stdout) {
			return nil, fmt.Errorf("%s: the program's output differs under %s", w.name, e.name)
		}
	}
	if read && e.read != nil {
		return t, g.count(e, &run{taken: t, w: w, program: e.program, dir: dir, table: g.table})
	}
	return t, nil
}

// count reads the counts of a run.
func (g *group) count(e *entry, r *run) error {
	c, err := e.read(g.m, r)
	if err != nil {
		return fmt.Errorf("%s: its counts: %w", e.name, err)
	}
	if r.table != nil {
		g.table = r.table
	}
	if e.counts == nil {
		e.counts = c
	}
	if g.truth == nil { // the reference itself
		return nil
	}
	truth := g.truth
	if g.w.partly {
		truth = g.w.calls(g.size)
	}
	v := compare(truth, c)
	if !e.verdict.Counts || v.Exact < e.verdict.Exact {
		e.verdict = v // the worst
	}
	return nil
}

// judge notes what dynprof's table says, and counts that are wrong. Where the
// true ones are not known by construction, dynprof and callgrind must agree.
func (g *group) judge(f *figures, fact *workFact) error {
	if e := g.entry(g.w.counter()); e != nil {
		fact.NativeMS = cpuSpread(g.entries[0].runs)
		fact.Functions, fact.Counted = g.table.functions, g.table.counted
		fact.Calls = e.counts.total()
		if g.reference == "dynprof" && !g.w.partly {
			fact.Unsteady = e.verdict.Called - e.verdict.Exact
		} else {
			fact.Reference = "construction"
			fact.check(f, dynprof, e.verdict)
			if e := g.entry(kept); e != nil {
				fact.check(f, kept, e.verdict)
			}
		}
	}
	for _, t := range []*tool{attached, static} {
		if e := g.entry(t); e != nil && e.failed == "" && g.w.calls != nil {
			fact.check(f, t, e.verdict)
		}
	}
	if e := g.entry(callgrind); e != nil && g.w.calls == nil && e.verdict.Counts {
		fact.Reference = "callgrind"
		v, err := g.agree(e.counts)
		if err != nil {
			return err
		}
		fact.Compared = v.Called
		fact.check(f, callgrind, v)
	}
	return nil
}

func (w *workFact) check(f *figures, t *tool, v verdict) {
	if !v.exact() {
		f.Wrong = append(f.Wrong, fmt.Sprintf("%s, %s against %s: %d of %d functions equal; %s", w.Name, t.name, w.Reference, v.Exact, v.Called, v.worst))
	}
}
