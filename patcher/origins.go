package patcher

import (
	"cmp"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// islandsOf lists the islands of the arena's objects, in address order.
func (a *arena) islandsOf() (list []entry.Island) {
	for _, o := range a.objects {
		for i := range o.plans {
			if p := &o.plans[i]; p.Counted() {
				list = entry.AppendIslands(list, o.code, p, o.leadsOf(p))
				list = o.copyIslands(list, i)
			}
		}
	}
	slices.SortFunc(list, func(a, b entry.Island) int { return cmp.Compare(a.At, b.At) })
	return list
}

// layOrigins puts what the code of all arenas stands for into pages of their
// own, which are mapped as one more arena, with a list of the arenas in front.
func (p *Plan) layOrigins(space placer) error {
	arenas := p.arenas
	if len(arenas) == 0 {
		return nil
	}
	room := p.reserve[p.used:p.used:p.ReserveSize] // written where it shall be
	all := append(room, make([]byte, emit.ArenaListSize(len(arenas)))...)
	for _, a := range arenas {
		a.origins = a.appendOrigins(&all)
	}
	size := uint64(align(len(all), pageSize))
	if p.used+size > p.ReserveSize || len(all) > cap(room) {
		return p.tooSmall()
	}
	at, ok := space.PlaceAnywhere(arenas[0].objects[0].span, size)
	if !ok {
		return errors.New("there is no room for what the stubs stand for")
	}
	var list []emit.ArenaRef
	for _, a := range arenas {
		o := &a.origins
		for _, field := range []*uint64{&o.Records, &o.Lengths, &o.ByText, &o.Islands} {
			*field += at
		}
		list = append(list, emit.ArenaRef{At: a.at, Size: a.size, Cold: a.at + uint64(a.cold), Records: o.Records, Lengths: o.Lengths, Count: o.Count, LengthsSize: o.LengthsSize})
	}
	emit.AppendArenaList(all[:0], list)
	pages := &arena{at: at, offset: p.used, size: size}
	p.used += size
	p.arenas, p.originPages = append(arenas, pages), pages
	return nil
}

// appendOrigins appends what the arena's code stands for, each part aligned, and
// returns where in all the parts are.
func (a *arena) appendOrigins(all *[]byte) (o Origins) {
	if c := a.objects[0].cached; c != nil {
		return a.cachedOrigins(all, c)
	}
	part := func() uint64 {
		*all = append(*all, make([]byte, align(len(*all), emit.OriginSize)-len(*all))...)
		return uint64(len(*all))
	}
	lengths := 0
	o.Records = part()
	for i := range a.code {
		a.code[i].Behind(lengths)
		*all = append(*all, a.code[i].Records...)
		lengths += len(a.code[i].Lengths)
	}
	order := emit.ByText((*all)[o.Records:])
	o.Lengths = part()
	for i := range a.code {
		*all = append(*all, a.code[i].Lengths...)
	}
	a.code, o.LengthsSize = nil, uint64(lengths)
	o.ByText = part()
	for _, i := range order {
		*all = binary.LittleEndian.AppendUint32(*all, i)
	}
	list := a.islandsOf()
	o.Count, o.IslandsCount = uint64(len(order)), uint64(len(list))
	o.Islands = part()
	for _, l := range list {
		*all = binary.LittleEndian.AppendUint64(*all, uint64(l.At))
		*all = binary.LittleEndian.AppendUint64(*all, uint64(l.From))
	}
	return o
}

// hasActionSite reports whether we stand in for libc's sigaction, which the Go
// runtime calls in every program that can be preloaded, or, in a static one, for its own.
func (p *Plan) hasActionSite() bool {
	if p.Static {
		return slices.ContainsFunc(p.all[0].sites, isAction)
	}
	maps := p.maps
	if p.Late {
		maps, _ = p.target.Maps() // libc has been here; without /proc it is not found
	}
	return slices.ContainsFunc(maps, func(m procmaps.Mapping) bool {
		const wanted = procmaps.ProtExec | procmaps.ProtRead
		if filepath.Base(m.Path) != "libc.so.6" || m.Prot&wanted != wanted {
			return false
		}
		text := stubgen.Segment{Addr: m.Start, Code: p.target.View(m.Start, int(m.End-m.Start))}
		return slices.ContainsFunc(survey.FindKernelSites([]stubgen.Segment{text}), isAction)
	})
}
