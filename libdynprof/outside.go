package main

import (
	"errors"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher"
)

// An outsider (outsider.c) is no copy of the target: what a twin would look up in
// its own process it does not know. Then it plans nothing, and a twin does.

var errOutside = errors.New("only a copy of the process can tell")

// selfMaps are the target's mappings.
func selfMaps(in *input) ([]procmaps.Mapping, error) {
	if in.outside {
		return nil, errOutside
	}
	return procmaps.Of("self")
}

// space is where arenas may lie.
func (in *input) space(maps []procmaps.Mapping) placer {
	lowest := lowestAddress()
	switch {
	case !in.late:
		return patcher.NewSpace(maps, lowest, growth())
	case in.outside:
		asked := func(uint64, uint64) bool { in.outOfHeld = true; return false }
		return &patcher.Held{Span: in.held, Else: patcher.Trial{Lowest: lowest, Hold: asked}}
	}
	return &patcher.Held{Span: in.held, Else: patcher.Trial{Lowest: lowest, Hold: mem.Hold, Known: knownSpace}}
}

// outsiderMay is nil if the plan is what a twin's would be: all arenas lie where the
// shim has taken the place, and no Go program asks for the signal handlers of others.
func (in *input) outsiderMay(all []*object) error {
	isGo := func(o *object) bool { return o.code != nil && o.code.Go }
	if in.outside && (in.outOfHeld || slices.ContainsFunc(all, isGo)) {
		return errOutside
	}
	return nil
}
