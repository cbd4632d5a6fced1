package heat

import (
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

func (s *Sums) count(r heat.Range) {
	of := func(is heat.What) uint64 {
		if r.What&is != 0 {
			return r.Pages
		}
		return 0
	}
	s.add(&Sums{Touched: r.Pages, Read: of(heat.WasRead), Written: of(heat.WasWritten), Executed: of(heat.WasExecuted)})
}

// add adds units to an area, behind those that it has: pages by how many lines of each were
// touched.
func (m *Map) add(a *Area, r heat.Range) {
	a.count(r)
	if a.First == 0 || r.Begin > 0 && r.Begin < a.First {
		a.First = r.Begin
	}
	a.Last = max(a.Last, r.End)
	for r.Pages > 0 {
		one := Range{
			Address: report.Address(r.First * m.unit.Size()), Read: r.What&heat.WasRead != 0, Written: r.What&heat.WasWritten != 0, Executed: r.What&heat.WasExecuted != 0,
			First: r.Begin, Last: r.End,
		}
		same := r
		same.Pages, one.Kinds = m.takeKinds(&r)
		units, who := m.takeWho(&same)
		same.Pages = units
		one.Whose = m.threads.Of(who)
		same.Pages, one.Lasts = m.takeLast(&same)
		n := same.Pages
		if m.unit == heat.Page {
			n, one.Lines = m.takeLines(&same)
			one.Pages = n
		}
		one.Bytes = n * m.unit.Size()
		a.Lines += n * one.Lines
		a.addWho(who, n)
		a.put(one)
		r.First, r.Pages = r.First+n, r.Pages-n
	}
}

// takeKinds is when each thing was done with the first unit of a range, and with how many it was
// then.
func (m *Map) takeKinds(r *heat.Range) (units uint64, k Kinds) {
	units = r.Pages
	for bit, list := range m.kinds {
		for len(list) > 0 && list[0].First+list[0].Pages <= r.First {
			list = list[1:]
		}
		if m.kinds[bit] = list; len(list) == 0 {
			continue
		}
		if list[0].First > r.First {
			units = min(units, list[0].First-r.First)
			continue
		}
		units = min(units, list[0].First+list[0].Pages-r.First)
		first, last := k.of(bit)
		*first, *last = list[0].Begin, list[0].End
	}
	return units, k
}

// name gives ranges of objects the names of what lies in them.
func (m *Map) name() {
	for i := range m.Areas {
		a := &m.Areas[i]
		if m.symbols == nil || !slices.ContainsFunc(m.symbols.Objects, func(o layout.Object) bool { return symname.Clean(o.Path) == a.Name }) {
			continue
		}
		for k := range a.Ranges {
			r := &a.Ranges[k]
			r.Symbols, r.More = m.symbols.Names(uint64(r.Address), uint64(r.Address)+r.Bytes, mostSymbols)
		}
	}
}

// takeLines is how many lines of the first page of a range were touched, and of how many pages
// this is so.
func (m *Map) takeLines(r *heat.Range) (pages, lines uint64) {
	const each = heat.PageSize >> heat.Line
	if len(m.lines) == 0 {
		return r.Pages, 0
	}
	at := r.First * each
	for len(m.lines) > 0 && m.lines[0].First < at { // of what is not shown
		l := &m.lines[0]
		n := min(l.Pages, at-l.First)
		if l.First, l.Pages = l.First+n, l.Pages-n; l.Pages == 0 {
			m.lines = m.lines[1:]
		}
	}
	pages = 1
	for len(m.lines) > 0 && m.lines[0].First < at+each {
		l := &m.lines[0]
		n := min(l.Pages, at+each-l.First)
		if n == each {
			pages = min(r.Pages, l.Pages/each)
			n *= pages
		}
		lines += n / pages
		if l.First, l.Pages = l.First+n, l.Pages-n; l.Pages == 0 {
			m.lines = m.lines[1:]
		}
		if pages > 1 {
			break
		}
	}
	return pages, lines
}

// put puts a range behind the others, or makes it one with the last.
func (a *Area) put(one Range) {
	if n := len(a.Ranges); n > 0 {
		last := &a.Ranges[n-1]
		if uint64(last.Address)+last.Bytes == uint64(one.Address) && last.is(&one) {
			last.Bytes, last.Pages = last.Bytes+one.Bytes, last.Pages+one.Pages
			return
		}
	}
	a.Ranges = append(a.Ranges, one)
}

// is reports whether the same was done with the units of another, and then.
func (r *Range) is(o *Range) bool {
	return r.Lines == o.Lines && r.Read == o.Read && r.Written == o.Written && r.Executed == o.Executed && r.First == o.First && r.Last == o.Last && r.Kinds == o.Kinds && r.whose() == o.whose() && r.lasts() == o.lasts()
}

func (r *Range) lasts() heat.Last {
	if r.Lasts == nil {
		return heat.Last{}
	}
	return r.last
}

func (r *Range) whose() heat.Who {
	if r.Whose == nil {
		return heat.Who{}
	}
	return *r.who
}
