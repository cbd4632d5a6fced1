package patcher

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
)

// fill writes everything into the arena.
func (a *arena) fill(p *Plan) error {
	if a.objects[0].cached != nil {
		a.restore(p)
		return nil
	}
	for at, to := range map[int]uint64{emit.CommonSlow: p.Entries.Cold, emit.CommonHook: p.Entries.Changed, emit.CommonKeeper: p.Entries.Keep, emit.CommonRecord: p.Entries.Record} {
		if err := emit.EmitCommon(a.buf[at:at+emit.CommonSize], x86.RunAddr(a.at).Add(at), to); err != nil {
			return err
		}
	}
	for k, o := range a.objects {
		sites := emit.Origins{Base: x86.RunAddr(a.at)}
		for i, site := range o.sites {
			at := a.thunks[k] + i*emit.ThunkSize
			err := emit.EmitThunk(o.code, site, a.buf[at:at+emit.ThunkSize], x86.RunAddr(a.at).Add(at), p.slowOf(o, &site))
			if err != nil {
				return err
			}
			sites.AddThunk(o.code, site, x86.RunAddr(a.at).Add(at))
		}
		for i, site := range o.signals {
			at := a.thunks[k] + (len(o.sites)+i)*emit.ThunkSize
			err := emit.EmitSignalThunk(o.code, site, a.buf[at:at+emit.ThunkSize], x86.RunAddr(a.at).Add(at), p.Entries.Signal)
			if err != nil {
				return err
			}
			sites.AddSignalThunk(o.code, site, x86.RunAddr(a.at).Add(at))
		}
		if err := a.emitTransfers(k, p, &sites); err != nil {
			return err
		}
		if err := a.emitAllocators(k, p, &sites); err != nil {
			return err
		}
		a.code = append(a.code, sites)
		a.emit(k, p)
		a.emitKeeps(k)
		o.dropGuests()
		a.emitCalls(k)
	}
	a.writeTraps()
	return nil
}

// dropGuests takes back plans that use the body of a function which, in the
// end, is not moved.
func (o *object) dropGuests() {
	for again := true; again; {
		again = false
		for i := range o.plans {
			p := &o.plans[i]
			if !p.Counted() {
				continue
			}
			for _, host := range p.Hosts() {
				if !o.plans[host].Counted() {
					o.plans[i] = entry.Refuse(i, ledger.ReasonOutOfReach)
					again = true
					break
				}
			}
		}
	}
}

// emit writes the stubs of object k. A function whose stub cannot reach what it
// refers to loses its plan and keeps an unused counter.
func (a *arena) emit(k int, plan *Plan) {
	o := a.objects[k]
	parts := make([]emit.Origins, len(o.plans)/grain+1)
	parallel.Ranges(len(o.plans), grain, 0, func(_, first, end int) {
		part := &parts[first/grain]
		part.Base = x86.RunAddr(a.at)
		e := emit.Emitter{Origins: part}
		list := o.byPlace(first, end)
		part.Grow(len(list))
		for _, i := range list {
			p := &o.plans[i]
			at := int(o.stubs[i].At)
			c := emit.Count{Counter: int32(layout.RowCounters + 8*o.counters[i]), Index: int32(o.counters[i])}
			c.Shared = a.view.counter(o.counters[i])
			if p.Has(entry.Checks) {
				number := a.colds[k] + int(o.counters[i]-o.first)
				cold := a.cold + number*emit.ColdSize
				c.Threshold = int32(plan.threshold(o, i))
				c.Cold, c.ColdAt = a.buf[cold:cold+emit.ColdSize], x86.RunAddr(a.at).Add(cold)
				c.ColdCommon = x86.RunAddr(a.at).Add(emit.CommonSlow)
				if front := p.Front(); front > 0 {
					pointers := int(a.size) + number*emit.PointersSize
					c.Front = a.buf[at-front : at]
					c.Pointers, c.PointersAt = a.buf[pointers:pointers+emit.PointersSize], x86.RunAddr(a.at).Add(pointers)
				}
				if c.Threshold == 0 {
					c.Threshold = symname.MaxThreshold // until it is armed
				}
			}
			spec := p.Spec(o.code)
			spec.Sites = a.movedSites(o, i)
			done := o.writeCopy(i, &a.view, &spec, plan)
			stub, err := e.Emit(o.code, &spec, a.buf[at:at+int(p.Size)], x86.RunAddr(a.at).Add(at), c)
			if errors.Is(err, x86.ErrReach) {
				*p = entry.Refuse(i, ledger.ReasonOutOfReach)
			} else if err != nil {
				panic("BUG: " + err.Error())
			}
			o.stubs[i] = stub
			done()
		}
		plan.progress.add(o, end-first)
	})
	a.code = append(a.code, parts...)
}

// emitKeeps writes the keep blocks of object k.
func (a *arena) emitKeeps(k int) {
	o, at := a.objects[k], a.keep[k]
	for i := range o.plans {
		if !o.needsKeep(i) {
			continue
		}
		pointers := int(a.size) + (a.colds[k]+int(o.counters[i]-o.first))*emit.PointersSize
		err := o.keeps[i].EmitKeep(a.buf[at:at+emit.KeepSize], x86.RunAddr(a.at).Add(at),
			a.buf[pointers:pointers+emit.PointersSize], x86.RunAddr(a.at).Add(pointers), a.keeper())
		if err != nil {
			panic("BUG: " + err.Error())
		}
		at += emit.KeepSize
	}
}

// byPlace lists the counted functions from first to end by where their stubs are.
func (o *object) byPlace(first, end int) []int {
	var list []int
	for i := first; i < end; i++ {
		if o.plans[i].Counted() {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(i, j int) int { return cmp.Compare(o.stubs[i].At, o.stubs[j].At) })
	return list
}
