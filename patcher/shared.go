package patcher

import (
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Programs that use the GS segment themselves. No register leads a thread of
// theirs to its row, so that all share row 0, and count there with locked
// instructions, as do those that make threads and processes where nobody could give
// them a row, by int $0x80. The row's pages are mapped once more behind every arena:
//
//	arena | view of row 0
//
// An object that uses GS and comes when threads find their rows by it already
// ends the counting (libdynprof/resident/sites/gs.c).

// view is where the stubs of an arena find the counters of the shared row: some
// of the row's pages. It is empty where each thread has a row of its own.
type view struct {
	at     uint64 // run address
	offset uint64 // in the row
	size   uint64
}

// viewOf is the part of the row that has counters first to end; where it will be
// is not known yet.
func viewOf(first, end uint32) view {
	from := (layout.RowCounters + 8*uint64(first)) &^ (pageSize - 1)
	to := uint64(align(layout.RowCounters+8*int(end), pageSize))
	return view{offset: from, size: to - from}
}

// counter is the run address of a counter; 0 if there is no view.
func (v *view) counter(i uint32) x86.RunAddr {
	if v.size == 0 {
		return 0
	}
	return x86.RunAddr(v.at - v.offset + layout.RowCounters + 8*uint64(i))
}

// share decides how the run counts: at the start as its objects need it, later
// as it does already, unless that has to end. If objects that come later would not
// be seen, one of them might use GS; what static programs load is a libc's. Traps keep a word for each thread in
// its row, so there are none where all share one.
func (p *Plan) share() decision {
	users, unseen := false, false
	for _, o := range p.all {
		users, unseen = users || o.gs, unseen || o.oldBirths()
	}
	how := p.how
	how.blind = !p.Late && !p.Static && !slices.ContainsFunc(p.all, func(o *object) bool { return o.hook != 0 })
	switch {
	case how.shared || !users && !how.blind && (p.Late || !unseen):
		return how
	case p.Late:
		p.Stop()
		p.dropCached()
		for _, o := range p.all {
			o.refuse(ledger.ReasonUsesGS)
			o.sites, o.transfers = nil, nil
		}
		return how
	}
	how.shared, how.redirectable, how.traps, how.notes, how.trips = true, false, false, false, false // stubs have another size
	p.dropCached()
	for _, o := range p.all {
		o.signals = nil
		p.decide(o, how)
	}
	return how
}

// usesGS finds out whether the object uses the GS segment. Code in which no
// function is known tells by its bytes whether it sets the base. What cannot be
// looked at may.
func (o *object) usesGS() bool {
	if o.unseen() || o.survey != nil && o.survey.UsesGS() {
		return true
	}
	return survey.SetsGS(o.text())
}

// oldBirths reports whether the object may make threads and processes unseen. One that
// comes later counts as it is: the report says so.
func (o *object) oldBirths() bool { return o.survey != nil && o.survey.OldBirths() }

// unseen reports whether the object, as it came, has code that cannot be read.
func (o *object) unseen() bool {
	return o.span.Low == o.span.High || slices.ContainsFunc(o.exec, func(m procmaps.Mapping) bool { return m.Prot&procmaps.ProtRead == 0 })
}

// refuse takes back the plans of all functions.
func (o *object) refuse(why ledger.Reason) {
	o.taken, o.patches = true, 0
	for i := range o.plans {
		if o.plans[i].Counted() {
			o.plans[i] = entry.Refuse(i, why)
		}
	}
}

// countersOf is how many counters the objects need at most.
func countersOf(all []*object) (n uint32) {
	for _, o := range all {
		for i := range o.plans {
			if o.plans[i].Counted() {
				n++
			}
		}
		if o.copies != nil {
			n += o.copies.counters
		}
		if o.bySite {
			n += uint32(o.sitesAtMost())
		}
	}
	return n
}
