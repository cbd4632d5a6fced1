package patcher

import (
	"slices"

	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Traps (libdynprof/resident/signals/traps.c), in the planner.

// findSignals finds the signal sites of all objects, and reports whether traps
// can be used: SIGTRAP has to stay handled, so there must be the site by which
// programs change that. Objects that come later are told by the first ones.
func (p *Plan) findSignals() bool {
	handled := p.Traps
	for _, o := range p.all {
		text := o.text()
		o.signals = survey.FindSignalSites(text)
		handled = handled || !p.Late && (slices.ContainsFunc(o.signals, isSigaction) ||
			slices.ContainsFunc(survey.FindKernelSites(text), isAction))
	}
	if !handled {
		for _, o := range p.all {
			o.signals = nil
		}
	}
	return handled
}

func isSigaction(s stubgen.SignalSite) bool { return s.NR == survey.SysSigaction }

func isAction(s stubgen.KernelSite) bool { return survey.SetsHandlers(&s) }

// countTraps is the number of traps that the plans of o need at most.
func (o *object) countTraps() (n int) {
	for i := range o.plans {
		if o.plans[i].Counted() {
			n += patch.TrapsOf(&o.plans[i])
		}
	}
	return n
}

// writeTraps writes the arena's list of traps.
func (a *arena) writeTraps() {
	var list []patch.Trap
	for _, o := range a.objects {
		for i := range o.plans {
			if p := &o.plans[i]; p.Counted() {
				list = patch.AppendTraps(list, o.code, p, &o.stubs[i])
			}
		}
	}
	a.trapsCount = len(list)
	patch.WriteTraps(a.buf[a.traps:], list)
}
