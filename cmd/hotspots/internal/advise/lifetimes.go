package advise

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	noted "github.com/dynprof/dynprof/internal/table/heat"
)

// Place is pages and the frames that they may have: those of others at other times.
type Place struct {
	Address report.Address `json:"address"`
	Pages   uint64         `json:"pages"`
	Frame   uint64         `json:"frame"` // of the first one, from 0
	First   uint32         `json:"first"` // slice in which they were touched first,
	Last    uint32         `json:"last"`  // and last
	Memory  string         `json:"memory"`
}

// stack is what heat calls it: nobody gives its pages back.
const stack = "[stack]"

func (p *Place) page() uint64 { return uint64(p.Address) / noted.PageSize }

// Overlay is which pages could have the same memory, as none was touched any more when the next
// one was first: the least frames that intervals of time take (colouring of an interval graph:
// in the order of their beginnings, each takes one that is free).
type Overlay struct {
	Used   uint64  // pages
	Frames uint64  // most of them that were between their first and their last touch at a time
	At     uint32  // slice in which that was
	Least  uint64  // as many, if within a slice all that ends ends before what begins; what is in one slice alone is there at a time
	Places []Place // by first slice
}

// overlay is that of all pages that were written: others can be had again from their file. The
// stack is left out, as are pages of code.
func overlay(m *heat.Map) *Overlay {
	o := &Overlay{}
	for i := range m.Bands {
		b := &m.Bands[i]
		if b.Name == stack {
			continue
		}
		for _, r := range b.Ranges {
			if r.What&noted.WasWritten != 0 && r.What&noted.WasExecuted == 0 && r.Begin > 0 {
				o.Used += r.Pages
				o.Places = append(o.Places, Place{report.Address(r.First * noted.PageSize), r.Pages, 0, r.Begin, r.End, b.Name})
			}
		}
	}
	slices.SortFunc(o.Places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Address, b.Address))
	})
	o.colour()
	o.Least = o.least()
	return o
}

// least counts the places that are between their first and their last slice, in each slice and
// between each two.
func (o *Overlay) least() (most uint64) {
	type change struct {
		at    uint64 // twice a slice, or one more between it and the next
		pages uint64 // modulo 2^64: those that begin, less those that ended before
	}
	changes := make([]change, 0, 2*len(o.Places))
	for i := range o.Places {
		p := &o.Places[i]
		from, to := 2*uint64(p.First), 2*uint64(p.Last)
		if from < to {
			from, to = from+1, to-1
		}
		changes = append(changes, change{from, p.Pages}, change{to + 1, -p.Pages})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	now := uint64(0)
	for i, c := range changes {
		now += c.pages
		if i+1 == len(changes) || changes[i+1].at != c.at {
			most = max(most, now)
		}
	}
	return most
}

// frames is some, one behind the other.
type frames struct{ first, count uint64 }

// colour gives each place its frames, in pieces where these are not next to each other.
func (o *Overlay) colour() {
	var placed []Place
	var free []frames
	ends, ended := map[uint32][]frames{}, uint32(0) // by slice: what is free behind it
	for _, p := range o.Places {
		for ; ended+1 < p.First; ended++ {
			free = append(free, ends[ended+1]...)
			delete(ends, ended+1)
		}
		for left := p.Pages; left > 0; {
			f := frames{o.Frames, left}
			if n := len(free); n > 0 {
				f = frames{free[n-1].first, min(left, free[n-1].count)}
				if free[n-1].first, free[n-1].count = f.first+f.count, free[n-1].count-f.count; free[n-1].count == 0 {
					free = free[:n-1]
				}
			} else {
				o.Frames, o.At = o.Frames+left, p.First
			}
			piece := p
			piece.Address += report.Address((p.Pages - left) * noted.PageSize)
			piece.Pages, piece.Frame = f.count, f.first
			placed, ends[p.Last] = append(placed, piece), append(ends[p.Last], f)
			left -= f.count
		}
	}
	o.Places = placed
}

// mostReplayed is the pages that replay takes.
const mostReplayed = 1 << 22

// Errors of replay.
var (
	errTooLarge = errors.New("there are more than 4 million pages")
	errClash    = errors.New("BUG: a page finds what another has written")
)

// replay goes through the slices with what each page has in its frame, and finds each page what
// it had there when it was touched last.
func (o *Overlay) replay(m *heat.Map) error {
	if o.Used > mostReplayed {
		return errTooLarge
	}
	type placed struct {
		page, frame uint64
		had         bool
	}
	all := make([]placed, 0, o.Used)
	for i := range o.Places {
		p := &o.Places[i]
		for n := range p.Pages {
			all = append(all, placed{page: p.page() + n, frame: p.Frame + n})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.page, b.page) })
	owner := make([]uint64, o.Frames) // page + 1
	clash := false
	m.Each(func(s *noted.Slice) {
		for _, r := range s.Ranges {
			i, _ := slices.BinarySearchFunc(all, r.First, func(p placed, page uint64) int { return cmp.Compare(p.page, page) })
			for ; i < len(all) && all[i].page < r.First+r.Pages; i++ {
				p := &all[i]
				clash = clash || p.had && owner[p.frame] != p.page+1
				owner[p.frame], p.had = p.page+1, true
			}
		}
	})
	if clash {
		return errClash
	}
	return nil
}

// Dead is pages of an area that were written, were not touched any more behind a part of the
// instructions, and were mapped to the end.
type Dead struct {
	Memory string
	Pages  uint64

	ranges []noted.Range // which ones
}

// dead lists what was touched last when a share of the instructions had run, most pages first.
func dead(m *heat.Map, share float64) (list []Dead) {
	n := len(m.Curve)
	if n == 0 {
		return nil
	}
	until := uint64(share * float64(m.Curve[n-1].Instructions))
	areas := map[string]*Dead{}
	for i := range m.Bands {
		b := &m.Bands[i]
		if b.Mapped == 0 || b.Name == stack {
			continue
		}
		for _, r := range b.Ranges {
			if r.What&noted.WasWritten == 0 || r.End == 0 || int(r.End) > n || m.Curve[r.End-1].Instructions > until {
				continue
			}
			d := areas[b.Name]
			if d == nil {
				d = &Dead{Memory: b.Name}
				areas[b.Name] = d
			}
			d.Pages += r.Pages
			d.ranges = append(d.ranges, r)
		}
	}
	for _, d := range areas {
		list = append(list, *d)
	}
	slices.SortFunc(list, func(a, b Dead) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Memory, b.Memory))
	})
	return list
}

// Untouched is a kind of memory that is resident at the end.
type Untouched struct {
	Memory            string
	Resident, Touched uint64
}

// untouched lists the heap and anonymous memory, mappings of which nothing was touched left out:
// the most of these are dynprof's own.
func untouched(f *noted.File) (list []Untouched) {
	if !f.Ended {
		return nil
	}
	touched := f.Pages()
	for _, one := range f.Mappings {
		first, end, n := one.Start/noted.PageSize, one.End/noted.PageSize, uint64(0)
		for len(touched) > 0 && touched[0].First < end {
			r := &touched[0]
			if from, to := max(r.First, first), min(r.First+r.Pages, end); from < to {
				n += to - from
			}
			if r.First+r.Pages > end {
				break
			}
			touched = touched[1:]
		}
		resident := one.Resident / noted.PageSize
		if one.Path != "" && one.Path != heap || n == 0 || resident <= n {
			continue
		}
		name := heat.NameOf(&one)
		i := slices.IndexFunc(list, func(u Untouched) bool { return u.Memory == name })
		if i < 0 {
			i, list = len(list), append(list, Untouched{Memory: name})
		}
		list[i].Resident, list[i].Touched = list[i].Resident+resident, list[i].Touched+n
	}
	return list
}
