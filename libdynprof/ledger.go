package main

import (
	"encoding/hex"
	"math"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/version"
)

// ledgerOf is what the table says: every object, and every function of those
// that were selected.
func ledgerOf(in *input, choice *config, program string, all []*object) *table.Spec {
	spec := &table.Spec{
		Identity:  table.Identify(in.pid),
		RunID:     choice.runID,
		Threshold: uint64(choice.threshold.All),
		Program:   program,
		Creator:   "dynprof " + version.Version,
		Listen:    serving.listens(),

		ShortSpace: in.shortSpace,
	}
	if choice.followExec {
		spec.Flags |= table.FlagFollowExec
	}
	if choice.threshold.Any() || in.translator {
		spec.Flags |= table.FlagThreshold
	}
	if in.translator {
		spec.Flags |= table.FlagTranslator
	}
	if in.keep {
		spec.Reserve, spec.ReserveUsed = in.size, in.used
	}
	if in.shared {
		spec.Flags |= table.FlagShared
	}
	if in.blind {
		spec.Flags |= table.FlagBlind
	}
	if choice.lock {
		spec.Flags |= table.FlagLock
	}
	for _, o := range all {
		spec.Objects = append(spec.Objects, o.entry())
	}
	spec.Stream = func(yield func(*table.Function) bool) {
		for i, o := range all {
			if !o.functions(uint16(i), choice, yield) {
				return
			}
		}
	}
	return spec
}

func (o *object) entry() table.Object {
	e := table.Object{Path: o.path, Low: o.span.Low, High: o.span.High, Reason: o.reason}
	if o.code != nil {
		e.Bias = o.code.Bias
	}
	if o.scan != nil {
		e.BuildID = hex.EncodeToString(o.scan.BuildID)
	}
	if o.arena != nil {
		e.Arena = o.arena.at
		if o.arena.kept {
			e.Reserve = o.arena.offset + 1
		}
	}
	if o.main {
		e.Flags |= table.ObjMain
	}
	if o.gs {
		e.Flags |= table.ObjUsesGS
	}
	if o.selected {
		e.Flags |= table.ObjSelected
	} else if o.reason == ledger.ReasonNone {
		e.Reason = ledger.ReasonNotSelected
	}
	return e
}

// functions yields the ledger entries of o, object number of the table. It
// reports false where yield does.
func (o *object) functions(number uint16, choice *config, yield func(*table.Function) bool) bool {
	var t table.Function // one for all: yield keeps none
	for i := range o.plans {
		f, p := &o.code.Functions[i], &o.plans[i]
		t = table.Function{
			Address: f.Addr,
			Size:    uint32(min(f.Size, math.MaxUint32)),
			Name:    f.Name,
			Aliases: f.Aliases,
			Counter: table.NoCounter,
			Object:  number,
			Source:  f.Source,
			Tactic:  p.Tactic,
			Reason:  p.Reason,
		}
		if p.Counted() {
			t.Counter = o.counters[i]
			t.Threshold = o.threshold(choice, i)
			t.Stub = uint32(uint64(o.stubs[i].At) - o.arena.at)
			t.StubSize = o.stubs[i].Len
			t.Count = uint8(o.stubs[i].Body)
		}
		if !yield(&t) {
			return false
		}
	}
	return true
}
