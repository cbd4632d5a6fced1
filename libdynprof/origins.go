package main

import (
	"cmp"
	"encoding/binary"
	"path/filepath"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

// islands lists the islands of all objects, in address order.
func islands(all []*object) (list []stubgen.Island) {
	for _, o := range all {
		for i := range o.plans {
			if p := &o.plans[i]; p.Counted() {
				list = stubgen.AppendIslands(list, o.code, p, o.survey.Leads(p))
			}
		}
	}
	slices.SortFunc(list, func(a, b stubgen.Island) int { return cmp.Compare(a.At, b.At) })
	return list
}

// origins is where the target finds what an arena's code stands for: run
// addresses, and the number of records.
type origins struct{ records, lengths, count uint64 }

// layOrigins puts what the code of all arenas stands for into pages of their
// own, which are mapped as one more arena. Where there is no room for them, signal
// handlers see stubs.
func layOrigins(in *input, arenas []*arena, islands []stubgen.Island, space *patcher.Space, reserve []byte) []*arena {
	if len(arenas) == 0 {
		return arenas
	}
	size := uint64(len(islands) * stubgen.IslandSize)
	for _, a := range arenas {
		size += uint64(len(a.code.Records) + align(len(a.code.Lengths), stubgen.OriginSize))
	}
	size = uint64(align(int(size), pageSize))
	if size == 0 || in.used+size > in.size {
		return arenas
	}
	at, ok := space.Place(arenas[0].objects[0].span, size)
	if !ok {
		return arenas
	}
	pages := &arena{at: at, offset: in.used, size: size}
	to := reserve[in.used : in.used+size]
	in.used += size
	used := 0
	for _, a := range arenas {
		a.origins = origins{at + uint64(used), at + uint64(used+len(a.code.Records)), uint64(len(a.code.Records) / stubgen.OriginSize)}
		used += copy(to[used:], a.code.Records)
		used += align(copy(to[used:], a.code.Lengths), stubgen.OriginSize)
	}
	pages.islands = origins{records: at + uint64(used), count: uint64(len(islands))}
	for _, l := range islands {
		binary.LittleEndian.PutUint64(to[used:], uint64(l.At))
		binary.LittleEndian.PutUint64(to[used+8:], uint64(l.From))
		used += stubgen.IslandSize
	}
	return append(arenas, pages)
}

// hasActionSite reports whether we stand in for libc's sigaction, which the Go
// runtime calls in every program that can be preloaded.
func hasActionSite(maps []mem.Mapping) bool {
	return slices.ContainsFunc(maps, func(m mem.Mapping) bool {
		const wanted = mem.ProtExec | mem.ProtRead
		if filepath.Base(m.Path) != "libc.so.6" || m.Prot&wanted != wanted {
			return false
		}
		text := stubgen.Segment{Addr: m.Start, Code: mem.View(m.Start, int(m.End-m.Start))}
		return slices.ContainsFunc(stubgen.FindKernelSites([]stubgen.Segment{text}), isAction)
	})
}
