package heatview

import "github.com/dynprof/dynprof/internal/table/heat"

// Point is what is known of a slice of time, as hotspots heat --curve has it.
type Point struct {
	Instructions, Nanoseconds, Resident uint64
	Touched                             uint64 // pages, in it
	Used                                uint64 // by its end
	WorkingSet                          uint64 // touched within Curve.Window instructions before its end
	Minor, Major                        uint64 // page faults, by its end
	Threads                             uint64
	Counting                            heat.Counting
}

// Curve is that of all slices, which takes them as they come.
type Curve struct {
	Points []Point
	Window uint64 // instructions; of points that came while it was another, it was that

	last  map[uint64]*[chunk]int32 // by page: one more than the slice that touched it last
	pages []uint64                 // by slice: those that it was the last to touch
}

// chunk is how many pages are kept together.
const chunk = 512

// usualWindow is the part of all instructions that is the window.
const usualWindow = 20

// Add adds slices of a file behind a cursor, by whose end so many instructions have run.
func (c *Curve) Add(f *heat.File, at *heat.Cursor, executed uint64) {
	if c.last == nil {
		c.last = map[uint64]*[chunk]int32{}
	}
	c.Window = max(1, executed/usualWindow)
	f.From(at, func(s *heat.Slice, _ *heat.Cursor) bool {
		c.add(s)
		return true
	})
}

func (c *Curve) add(s *heat.Slice) {
	k := int32(len(c.Points))
	p := Point{Instructions: s.Executed, Nanoseconds: s.Time, Resident: s.Resident, Minor: s.Minor, Major: s.Major, Threads: s.Threads, Counting: s.Counting}
	if k > 0 {
		before := &c.Points[k-1]
		p.Used, p.Minor, p.Major = before.Used, before.Minor+s.Minor, before.Major+s.Major
	}
	c.pages = append(c.pages, 0)
	for _, r := range s.Ranges {
		for first, end := r.First, r.First+r.Pages; first < end; {
			list := c.last[first/chunk]
			if list == nil {
				list = new([chunk]int32)
				c.last[first/chunk] = list
			}
			part := list[first%chunk : min(chunk, first%chunk+end-first)]
			for i, last := range part {
				if last == 0 {
					p.Used++
				} else {
					c.pages[last-1]--
				}
				part[i] = k + 1
			}
			first += uint64(len(part))
		}
		p.Touched += r.Pages
	}
	c.pages[k] = p.Touched
	for i := int(k); i >= 0 && (i == int(k) || s.Executed-c.Points[i].Instructions < c.Window); i-- {
		p.WorkingSet += c.pages[i]
	}
	c.Points = append(c.Points, p)
}
