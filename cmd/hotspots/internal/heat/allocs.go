package heat

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// Site is a call that asks for blocks, and what was done with these.
type Site struct {
	Asker
	Back      report.Address `json:"address"` // where the call returns to
	Blocks    uint64         `json:"blocks"`  // so far, and
	Bytes     uint64         `json:"bytes"`   // their bytes
	Live      uint64         `json:"live"`    // blocks that were not given back, and
	LiveBytes uint64         `json:"live_bytes"`
	Peak      uint64         `json:"peak"`  // the most bytes at a time
	Known     uint64         `json:"known"` // blocks of which it is known where and when they were:
	Granules  uint64         `json:"granules"`
	Touched   uint64         `json:"touched"` // granules of those that were touched while the block was there, at most
	Read      uint64         `json:"read"`
	Written   uint64         `json:"written"`
	Untouched uint64         `json:"untouched_bytes"` // in others, which nothing that is seen touched
	Unread    uint64         `json:"unread_bytes"`    // in those that were written meanwhile, and not read
	Most      Idle           `json:"most"`            // the most of these at a time, of which it is sure
}

// Idle is bytes of blocks that are there, and have not been of use as long as they were.
type Idle struct {
	Untouched uint64 `json:"untouched_bytes"`
	Unmade    uint64 `json:"untouched_pages"` // whole pages of these
	Unread    uint64 `json:"unread_bytes"`
}

func (i *Idle) add(j Idle) {
	i.Untouched, i.Unmade, i.Unread = i.Untouched+j.Untouched, i.Unmade+j.Unmade, i.Unread+j.Unread
}

// Allocs are the blocks of malloc of a program, and who has asked for them.
type Allocs struct {
	*heat.Allocs
	Sites []Site // by number of the caller
}

// allocsOf are those of a table; nil: they were not noted.
func allocsOf(t *table.Table, f *heat.File, y *Symbols) (*Allocs, error) {
	all, err := heat.ReadAllocs(t.Path(), t.Nonce)
	if errors.Is(err, heat.ErrNoAllocs) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := &Allocs{Allocs: all}
	for _, c := range all.Callers {
		a.Sites = append(a.Sites, Site{Asker: y.Asker(c.Back), Back: report.Address(c.Back), Blocks: c.Blocks, Bytes: c.Bytes, Live: c.Blocks - c.Freed, LiveBytes: c.Bytes - c.Gone, Peak: c.Peak})
	}
	a.touch(f.In(f.Noted))
	return a, nil
}

// lasts is in which slices granules of a page were read and written last, from 1.
type lasts struct{ read, written []uint32 }

// touch finds out what was touched of each block while it was there: in slices that end when it came or later, up
// to the first that ends when it was given back or later.
func (a *Allocs) touch(f *heat.File) {
	var ends []uint64
	f.Each(func(s *heat.Slice) { ends = append(ends, s.Time) })
	order := make([]int, len(a.Blocks)) // by the slice that they end with
	last := make([]int, len(a.Blocks))
	for i := range a.Blocks {
		b := &a.Blocks[i]
		order[i], last[i] = i, len(ends)
		if !b.Live {
			last[i] = min(sliceAt(ends, b.Died), len(ends))
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(last[x], last[y]) })
	pages := map[uint64]*lasts{}
	number := 0
	comes := make([][]change, len(ends)+3) // by slice; behind the last one is the end
	settle := func() {
		for ; len(order) > 0 && last[order[0]] <= number; order = order[1:] {
			b := &a.Blocks[order[0]]
			first := sliceAt(ends, b.Born)
			idle := a.settle(b, uint32(first), pages, f.Noted)
			// It is sure that it was there at the end of a slice behind that in which it came at the latest, and
			// in front of that in which it went at the earliest.
			from, to := min(first+1, len(ends)+1), last[order[0]]-1
			if b.Live {
				to = len(ends) + 2
			}
			if from < to && idle != (Idle{}) {
				comes[from] = append(comes[from], change{b.Caller, idle})
				comes[to] = append(comes[to], change{b.Caller, Idle{-idle.Untouched, -idle.Unmade, -idle.Unread}})
			}
		}
	}
	f.Each(func(s *heat.Slice) {
		number++
		for _, r := range s.Ranges {
			note(pages, r, uint32(number), f.Noted)
		}
		settle()
	})
	settle()
	a.most(comes)
}

// change is what the idle bytes of a site's blocks become more by, or, modulo 2^64, fewer.
type change struct {
	site uint32
	by   Idle
}

// most finds out what the most was at a time, by what comes and goes at the end of each slice. What came and went
// in one is in none.
func (a *Allocs) most(comes [][]change) {
	now := make([]Idle, len(a.Sites))
	for _, all := range comes {
		for _, c := range all {
			now[c.site].add(c.by)
		}
		for _, c := range all {
			n, most := &now[c.site], &a.Sites[c.site].Most
			if n.Untouched > most.Untouched {
				most.Untouched, most.Unmade = n.Untouched, n.Unmade
			}
			most.Unread = max(most.Unread, n.Unread)
		}
	}
}

// sliceAt is the first slice that ends at a time or later, from 1.
func sliceAt(ends []uint64, at uint64) int {
	return sort.Search(len(ends), func(i int) bool { return ends[i] >= at }) + 1
}

// note notes in which slice granules were touched.
func note(pages map[uint64]*lasts, r heat.Range, slice uint32, g heat.Granule) {
	if r.What&(heat.WasRead|heat.WasWritten) == 0 {
		return
	}
	each := uint64(1) << (heat.Page - g)
	for n := r.First; n < r.First+r.Pages; n++ {
		l := pages[n/each]
		if l == nil {
			l = &lasts{make([]uint32, each), make([]uint32, each)}
			pages[n/each] = l
		}
		if r.What&heat.WasRead != 0 {
			l.read[n%each] = slice
		}
		if r.What&heat.WasWritten != 0 {
			l.written[n%each] = slice
		}
	}
}

// settle adds what was done with a block since a slice to what its site has, and says what was not.
func (a *Allocs) settle(b *heat.Block, since uint32, pages map[uint64]*lasts, g heat.Granule) (idle Idle) {
	s := &a.Sites[b.Caller]
	s.Known++
	if b.Bytes == 0 {
		return idle
	}
	each := uint64(1) << (heat.Page - g)
	first, end := b.Address>>g, (b.Address+b.Bytes-1)>>g+1
	s.Granules += end - first
	used := uint64(0)
	whole := func(page uint64) uint64 {
		at := page << heat.Page
		return uint64(bit(at >= b.Address && at+heat.PageSize <= b.Address+b.Bytes))
	}
	for n := first; n < end; {
		page := n / each
		l := pages[page]
		if l == nil {
			n = (page + 1) * each
			idle.Unmade += whole(page)
			continue
		}
		before := s.Touched
		for ; n < min(end, (page+1)*each); n++ {
			read, written := l.read[n%each] >= since, l.written[n%each] >= since
			bytes := min((n+1)<<g, b.Address+b.Bytes) - max(n<<g, b.Address)
			if read || written {
				s.Touched++
				used += bytes
			}
			if written && !read && bytes == g.Size() { // else who has what is beside it may have written that
				idle.Unread += bytes
			}
			s.Read += uint64(bit(read))
			s.Written += uint64(bit(written))
		}
		if s.Touched == before {
			idle.Unmade += whole(page)
		}
	}
	idle.Untouched = b.Bytes - used
	s.Untouched, s.Unread = s.Untouched+idle.Untouched, s.Unread+idle.Unread
	return idle
}

// text writes a line for each site, those with the most at a time first.
func (a *Allocs) text(w io.Writer, style report.Style, o *Objects) error {
	var sum Site
	var unheld uint64
	list := []*Site{}
	for i := range a.Sites {
		s := &a.Sites[i]
		unheld += a.Callers[i].Unheld
		for _, n := range []struct{ to, of *uint64 }{{&sum.Blocks, &s.Blocks}, {&sum.Bytes, &s.Bytes}, {&sum.Live, &s.Live}, {&sum.LiveBytes, &s.LiveBytes}, {&sum.Known, &s.Known}, {&sum.Granules, &s.Granules}, {&sum.Touched, &s.Touched}, {&sum.Untouched, &s.Untouched}} {
			*n.to += *n.of
		}
		if s.Blocks > 0 {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(x, y *Site) int { return cmp.Compare(y.Peak, x.Peak) })
	if _, err := fmt.Fprintf(w, "\n%s of %s were asked for by %s; %s of %s are there at the end. Of %s it is known where they were: %s of their bytes are in %ss that nothing which is seen touched meanwhile.\n",
		figures.Count(sum.Blocks, "block"), figures.Count(sum.Bytes, "byte"), figures.Count(uint64(len(list)), "call"), figures.Thousands(sum.Live), figures.Count(sum.LiveBytes, "byte"), figures.Thousands(sum.Known), figures.Thousands(sum.Untouched), noun(o.noted)); err != nil {
		return err
	}
	var rows [][3]string
	for _, s := range list {
		rows = append(rows, [3]string{lineOf(s.Blocks, s.Bytes, s.Peak, s.LiveBytes, s.Known, s.Granules, s.Touched, s.Untouched), s.String(), ""})
	}
	if len(rows) > 0 {
		if err := report.Rows(w, style, [3]string{"BLOCKS\tBYTES\tPEAK\tLIVE BYTES\tKNOWN\t" + granules(o.noted) + "\tTOUCHED\tUNTOUCHED BYTES", "ASKED FOR BY", ""}, rows); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, a.missing(unheld))
	return err
}

// missing says of which blocks less is known.
func (a *Allocs) missing(unheld uint64) (text string) {
	for _, m := range []struct {
		n    uint64
		what string
	}{
		{a.Short + a.Untold, "were there between two looks, or given back when many were: of these only sums are known."},
		{unheld, "found no room, or are too large: of these only sums are known."},
		{a.Dropped, "were given back before others that are known: of these only sums are known."},
		{a.Children, "were asked for by children, and are in no sum."},
	} {
		if m.n > 0 {
			text += fmt.Sprintf("%s %s\n", figures.Count(m.n, "block"), m.what)
		}
	}
	if a.Unled > 0 {
		text += fmt.Sprintf("Of %s that came later not all blocks are seen.\n", figures.Count(a.Unled, "library"))
	}
	return text
}

// Told is a block with when it came and went, by instructions.
type Told struct {
	Name  string  `json:"name"` // who has asked for it
	Site  int     `json:"site"`
	From  uint64  `json:"from"` // addresses
	To    uint64  `json:"to"`
	Born  uint64  `json:"born"`           // instructions: not before so many,
	By    uint64  `json:"by"`             // and not behind these,
	Died  *uint64 `json:"died,omitempty"` // and it was given back after no more than so many; null: it was not
	Slice int     `json:"slice"`          // that it came in
}

// Times are when slices end, to find out what was when.
type Times struct{ ns, executed []uint64 }

// TimesOf are those of a file.
func TimesOf(f *heat.File) *Times {
	t := &Times{}
	f.Each(func(s *heat.Slice) { t.ns, t.executed = append(t.ns, s.Time), append(t.executed, s.Executed) })
	return t
}

// Told is what is known of a block.
func (t *Times) Told(b *heat.Block) Told {
	one := Told{Site: int(b.Caller), From: b.Address, To: b.Address + b.Bytes, Slice: min(sliceAt(t.ns, b.Born), len(t.ns))}
	if n := one.Slice - 1; n >= 0 {
		if one.By = t.executed[n]; n > 0 {
			one.Born = t.executed[n-1]
		}
	}
	if !b.Live {
		at := uint64(0)
		if n := min(sliceAt(t.ns, b.Died), len(t.ns)); n > 0 {
			at = t.executed[n-1]
		}
		one.Died = &at
	}
	return one
}

// Within reports whether a block was there, or may have been, when more than so many instructions had run, and before
// more than others had.
func (b *Told) Within(after, before uint64) bool {
	return b.Born < before && (b.Died == nil || *b.Died > after)
}
