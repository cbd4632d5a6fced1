package main

import (
	"fmt"
	"slices"
)

// idleRounds is how often a run without work is measured.
const idleRounds = 3

// After the rounds that all tools take part in those of ours go on until the ratio to
// native is known well enough, or that has taken long enough.
const (
	wellEnough = 0.02 // of the ratio, either way
	mostRounds = 3    // times the rounds of all
)

// rounds is how many rounds a tool takes part in, where all take n.
func (e *entry) rounds(m *machine, n int) int {
	switch {
	case m.quick && (e.tool == kept || slices.Contains(peers, e.tool)):
		return 1
	case e.most > 0:
		return min(n, e.most)
	case !m.quick && e.isBesideOurs():
		return mostRounds * n
	}
	return n
}

// isBesideOurs is for what is measured until our ratios are known: dynprof, and the
// program itself, twice.
func (t *tool) isBesideOurs() bool { return t == native || t == again || t.isOurs() }

// run measures the group's tools in turn, round by round.
func (g *group) run(rounds int) error {
	if err := g.refer(); err != nil {
		return err
	}
	if err := g.runIdle(min(rounds, idleRounds)); err != nil {
		return err
	}
	most := 0
	for _, e := range g.entries[1:] {
		most = max(most, e.rounds(g.m, rounds))
	}
	for round := 0; round < most && !(round >= rounds && g.known()); round++ {
		if err := g.round(round, rounds); err != nil {
			return err
		}
	}
	return nil
}

// round runs every tool once that takes part in a round, where all take so many.
func (g *group) round(round, rounds int) error {
	for _, e := range g.entries {
		if e.failed != "" || round >= e.rounds(g.m, rounds) {
			e.runs = append(e.runs, nil)
		} else if err := g.oneRun(e, round); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) oneRun(e *entry, round int) error {
	t, err := g.once(e, g.size, round == 0 || e.isOurs())
	if err != nil {
		if e.tool == native || e.isOurs() || g.m.ctx.Err() != nil {
			return err
		}
		e.failed = err.Error()
		fmt.Printf("  %s: skipped: %v\n", e.name, err)
	}
	e.runs = append(e.runs, t)
	return nil
}

// known reports whether our ratios are known well enough.
func (g *group) known() bool {
	for _, e := range g.entries {
		if e.isOurs() && !spreadOf(ratios(cpuTimes(e.runs), cpuTimes(g.entries[0].runs))).within(wellEnough) {
			return false
		}
	}
	return true
}

// runIdle measures runs without work: what is taken off where a tool has a part
// of the work, and starts that are told.
func (g *group) runIdle(rounds int) error {
	for _, e := range g.entries {
		if g.size == fast.size(g.w, g.m.quick) && e.tool != native && !e.isOurs() && !slices.Contains(deeper, e.tool) {
			continue
		}
		for range e.rounds(g.m, rounds) {
			if t, err := g.once(e, 0, false); err == nil {
				e.idle = append(e.idle, t)
			} else if e.tool == native || e.isOurs() {
				return err
			}
		}
	}
	return nil
}
