package patcher

import (
	"encoding/hex"
	"math"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Ledger is what the table says of the plan: every object, and every function of
// those that were selected.
func (p *Plan) Ledger() *build.Spec {
	spec := &build.Spec{Threshold: uint64(p.Options.Threshold.All)}
	if p.Options.Threshold.Any() || p.how.redirectable {
		spec.Flags |= layout.FlagThreshold
	}
	if p.how.redirectable {
		spec.Flags |= layout.FlagTranslator
	}
	if p.Keep {
		spec.Reserve, spec.ReserveUsed = p.ReserveSize, p.used
	}
	if p.how.shared {
		spec.Flags |= layout.FlagShared
	}
	switch {
	case p.how.records:
		spec.Flags |= layout.FlagRegions
	case p.how.heat:
		spec.Flags |= layout.FlagMemory
	}
	if p.how.heat && p.how.bases {
		spec.Flags |= layout.FlagBases
	}
	if p.how.blind {
		spec.Flags |= layout.FlagBlind
	}
	if p.how.trips {
		spec.Flags |= layout.FlagTrips
	}
	if p.how.switched {
		spec.Flags |= layout.FlagSwitched
	}
	if p.how.switched && p.Options.Hot {
		spec.Flags |= layout.FlagHot
	}
	if p.how.switched {
		spec.Overhead = p.Options.Overhead
	}
	if p.Options.On[setting.Lock] {
		spec.Flags |= layout.FlagLock
	}
	for _, o := range p.fitting {
		e := o.entry()
		if o.selected && o.code != nil && o.code.Go && p.Options.On[setting.Blocks] {
			e.Flags |= layout.ObjGo
		}
		if p.Late {
			e.Flags |= layout.ObjLate
		}
		spec.Objects = append(spec.Objects, e)
	}
	if p.Options.On[setting.Blocks] {
		spec.Blocks = &build.Blocks{Each: p.blocks(), Ways: p.ways(), Loops: p.loops(), Counters: p.blockCounters()}
	}
	if p.how.sites {
		spec.Sites = &build.Sites{Each: p.sites(), Counters: p.blockCounters()}
	}
	spec.Stream = func(yield func(*layout.Function) bool) {
		for i, o := range p.fitting {
			if !p.functions(o, uint16(p.base.objects+i), yield) {
				return
			}
		}
	}
	return spec
}

func (o *object) entry() layout.Object {
	e := layout.Object{Path: o.path, Low: o.span.Low, High: o.span.High, Reason: o.reason}
	if o.cached != nil {
		o.tellCached(&e)
	}
	if o.code != nil {
		e.Bias = o.code.Bias
	}
	if o.scan != nil {
		e.BuildID = hex.EncodeToString(o.scan.BuildID)
	}
	if o.survey != nil {
		e.Code, e.Untold = o.code.CodeSize(), o.survey.Untold()
	}
	if len(o.transfers) > 0 {
		e.Flags |= layout.ObjTransfers
	}
	if e.Sets = o.setsOfSlots(); e.Sets > 0 {
		e.Slots = o.slots()
	}
	if o.toldCodes > 0 {
		e.Codes, e.CodeCount = o.codes.First, o.toldCodes
	}
	if o.arena != nil {
		e.Arena = o.arena.at
		if o.arena.kept {
			e.Reserve = o.arena.offset + 1
		}
	}
	if o.main {
		e.Flags |= layout.ObjMain
	}
	if o.gs {
		e.Flags |= layout.ObjUsesGS
	}
	if o.oldBirths() {
		e.Flags |= layout.ObjOldBirth
	}
	if o.byCall {
		e.Flags |= layout.ObjByCall
	}
	if o.selected {
		e.Flags |= layout.ObjSelected
	} else if e.Reason == ledger.ReasonNone {
		e.Reason = ledger.ReasonNotSelected
	}
	return e
}

// functions yields the ledger entries of o, object number of the table. It
// reports false where yield does.
func (p *Plan) functions(o *object, number uint16, yield func(*layout.Function) bool) bool {
	if o.cached != nil {
		return o.cachedFunctions(number, yield)
	}
	var t layout.Function // one for all: yield keeps none
	for i := range o.plans {
		f, plan := &o.code.Functions[i], &o.plans[i]
		t = layout.Function{
			Address: f.Addr,
			Size:    uint32(min(f.Size, math.MaxUint32)),
			Name:    f.Name,
			Aliases: f.Aliases,
			Counter: layout.NoCounter,
			Object:  number,
			Source:  f.Source,
			Tactic:  plan.Tactic,
			Reason:  plan.Reason,
		}
		if plan.Counted() {
			t.Counter = o.counters[i]
			t.Threshold = p.threshold(o, i)
			t.Stub = uint32(uint64(o.stubs[i].At) - o.arena.at)
			t.StubSize = uint16(min(o.stubs[i].Len, math.MaxUint16))
			t.Count = uint8(o.stubs[i].Body)
			t.Blocks = o.whyNoBlocks(i)
		}
		if !yield(&t) {
			return false
		}
	}
	return true
}
