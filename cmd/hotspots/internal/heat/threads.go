package heat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Thread is one of those that are told apart, by what touched pages are noted with.
type Thread struct {
	Number  int    `json:"number"`
	Pid     uint32 `json:"pid"` // 0: not known
	Tid     uint32 `json:"tid"`
	Several bool   `json:"several"` // others were it before, one after the other, or are at the same time: the last one is told
}

// Threads are those of a table, and whether there were more than are told apart.
type Threads struct {
	All  []Thread
	More bool
}

// ThreadsOf are those of a table that have counted.
func ThreadsOf(t *table.Table) (threads Threads, err error) {
	at := map[int]int{}
	err = t.EachRow(func(r layout.Row) {
		n := int(r.Index % heat.Threads)
		one := Thread{n, r.Pid, r.Tid, r.Taken > 0 || r.Kind == layout.RowShared}
		if i, is := at[n]; is {
			threads.More = true
			one.Several = true
			threads.All[i] = one
			return
		}
		at[n] = len(threads.All)
		threads.All = append(threads.All, one)
	})
	for _, of := range []int64{layout.HdrThreadsDiscarded, layout.HdrLoose} { // their row has no number
		if n, err := t.U32(of); err == nil && n > 0 {
			threads.More = true
		}
	}
	return threads, err
}

// In lists those of a set.
func (t *Threads) In(s *heat.Set) (list []Thread) {
	for n := range heat.Threads {
		if !s.Has(n) {
			continue
		}
		if i := slices.IndexFunc(t.All, func(o Thread) bool { return o.Number == n }); i >= 0 {
			list = append(list, t.All[i])
		} else {
			list = append(list, Thread{Number: n, Several: true}) // which found no room in the table
		}
	}
	return list
}

// String is its number in the system, or that of what it is here.
func (t *Thread) String() string {
	text := strconv.FormatUint(uint64(t.Tid), 10)
	if t.Tid == 0 {
		text = "?"
	}
	if t.Several {
		text += "+"
	}
	return text
}

// Whose is which threads have touched something, in all of the time.
type Whose struct {
	Threads int      `json:"threads"` // how many
	Readers []string `json:"readers"` // as Thread.String has them
	Writers []string `json:"writers"`

	who *heat.Who
}

// Of is that of what some have touched; nil: that is not known.
func (t *Threads) Of(who *heat.Who) *Whose {
	if who == nil {
		return nil
	}
	all := who.All()
	w := &Whose{Threads: all.Len(), Readers: []string{}, Writers: []string{}, who: who}
	for _, one := range t.In(&who.Read) {
		w.Readers = append(w.Readers, one.String())
	}
	for _, one := range t.In(&who.Written) {
		w.Writers = append(w.Writers, one.String())
	}
	return w
}

// takeWho is who has touched the first unit of a range, and how many more units this is true of.
func (m *Map) takeWho(r *heat.Range) (units uint64, who *heat.Who) {
	units, one := takeFirst(&m.whose, r, func(w *heat.ByWhom) (first, pages uint64) { return w.First, w.Pages })
	if one == nil {
		return units, nil
	}
	return units, one.Who
}

// takeFirst is what a list, by address, has of the first unit of a range, nil if nothing, and how many
// more units this is true of. What lies in front of the range is taken off the list.
func takeFirst[T any](list *[]T, r *heat.Range, lies func(*T) (first, pages uint64)) (units uint64, is *T) {
	for ; len(*list) > 0; *list = (*list)[1:] {
		one := &(*list)[0]
		switch first, pages := lies(one); {
		case first > r.First:
			return min(r.Pages, first-r.First), nil
		case first+pages > r.First:
			return min(r.Pages, first+pages-r.First), one
		}
	}
	return r.Pages, nil
}

// addWho adds who has touched units to those of the area.
func (a *Area) addWho(who *heat.Who, units uint64) {
	if who == nil {
		return
	}
	if a.who == nil {
		a.who = &heat.Who{}
	}
	a.who.Add(who)
	if all := who.All(); all.Len() > 1 {
		a.Shared += units
	}
}

// threadsText is a line about threads.
func (m *Map) threadsText() string {
	if !m.hasThreads {
		return ""
	}
	text := fmt.Sprintf("%d threads are told apart; pages that more than one has touched are shared", len(m.threads.All))
	if m.threads.More {
		text += fmt.Sprintf("; there were more than %d at a time, or some without a row: these stand for several, marked +, and a page of one of these may be shared", heat.Threads)
	}
	return text + ".\n"
}

// threadsCell is how many threads have touched something.
func (w *Whose) threadsCell() string {
	if w == nil {
		return "-"
	}
	return strconv.Itoa(w.Threads)
}

// text says which.
func (w *Whose) text() string {
	const most = 4
	if w == nil {
		return ""
	}
	text := ""
	if len(w.Readers) > 0 {
		text += " read by " + few(w.Readers, most)
	}
	if len(w.Writers) > 0 {
		text += " written by " + few(w.Writers, most)
	}
	return text
}

func few(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], " "), len(list)-most)
}
