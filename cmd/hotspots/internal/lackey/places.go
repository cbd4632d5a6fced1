package lackey

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// A log has no names of memory. So what lies near each other has one, by where it begins, but files.
const (
	chunk      = 1 << 20 // bytes
	mostPlaces = 256     // with names
	unnamed    = "["     // until it is known where it begins
)

// places are what of each chunk of memory was touched: addresses of the first granule, and behind the
// last one, by number of the chunk.
type places map[uint64][2]uint64

// add adds what was touched in a slice.
func (p *places) add(ranges []heat.Range, g heat.Granule) {
	if *p == nil {
		*p = places{}
	}
	for _, r := range ranges {
		from, to := r.First<<g, (r.First+r.Pages)<<g
		for from < to {
			n := from / chunk
			end := min(to, (n+1)*chunk)
			if old, is := (*p)[n]; is {
				(*p)[n] = [2]uint64{min(old[0], from), max(old[1], end)}
			} else {
				(*p)[n] = [2]uint64{from, end}
			}
			from = end
		}
	}
}

// maps is where files were mapped, as far as that is known, and where else something was touched: places
// that are less than a chunk apart are one, or, where there are too many, less than more.
func (p places) maps(files *heat.Maps) *heat.Maps {
	chunks := slices.Sorted(maps.Keys(p))
	var list []heat.Mapping
	for apart := uint64(chunk); ; apart *= 2 {
		list = nil
		for _, n := range chunks {
			from, to := p[n][0]&^(heat.PageSize-1), (p[n][1]+heat.PageSize-1)&^(heat.PageSize-1)
			if k := len(list) - 1; k >= 0 && from-list[k].End < apart {
				list[k].End = to
			} else {
				list = append(list, heat.Mapping{Start: from, End: to, Path: unnamed})
			}
		}
		if len(list) <= mostPlaces {
			break
		}
	}
	all := (&heat.Maps{Mappings: list}).Add(files)
	for k := range all.Mappings {
		if one := &all.Mappings[k]; one.Path == unnamed {
			one.Path = fmt.Sprintf("[%#x]", one.Start)
		}
	}
	return all
}
