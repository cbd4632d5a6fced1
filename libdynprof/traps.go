package main

import (
	"slices"

	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

// Traps (traps.c), in the planner.

// findSignals finds the signal sites of all objects, and reports whether traps
// can be used: SIGTRAP has to stay handled, so there must be the site by which
// programs change that. Objects that come later are told by the first ones.
func findSignals(in *input, all []*object, listed []loaded) bool {
	handled := in.traps
	for i, o := range all {
		text := o.text(listed[i].bias)
		o.signals = stubgen.FindSignalSites(text)
		handled = handled || !in.late && (slices.ContainsFunc(o.signals, isSigaction) ||
			slices.ContainsFunc(stubgen.FindKernelSites(text), isAction))
	}
	if !handled {
		for _, o := range all {
			o.signals = nil
		}
	}
	return handled
}

func isSigaction(s stubgen.SignalSite) bool { return s.NR == stubgen.SysSigaction }

func isAction(s stubgen.KernelSite) bool { return s.IsAction() }

// countTraps is the number of traps that the plans of o need at most.
func (o *object) countTraps() (n int) {
	for i := range o.plans {
		if o.plans[i].Counted() {
			n += patcher.TrapsOf(&o.plans[i])
		}
	}
	return n
}

// writeTraps writes the arena's list of traps.
func (a *arena) writeTraps() {
	var list []patcher.Trap
	for _, o := range a.objects {
		for i := range o.plans {
			if p := &o.plans[i]; p.Counted() {
				list = patcher.AppendTraps(list, o.code, p, &o.stubs[i])
			}
		}
	}
	a.trapsCount = len(list)
	patcher.WriteTraps(a.buf[a.traps:], list)
}
