package patcher

import "github.com/dynprof/dynprof/patcher/place"

// placer finds room for arenas.
type placer interface {
	Place(span place.Span, size uint64) (at uint64, ok bool)
	PlaceAnywhere(near place.Span, size uint64) (at uint64, ok bool)
	HeapEnd() uint64
}

// taker is a placer that may be asked for an address.
type taker interface {
	Take(span place.Span, at, size uint64) bool
}

// freeSpace is where arenas may lie that are planned now.
func (p *Plan) freeSpace() placer {
	if p.cached != nil {
		return p.cached
	}
	return p.space()
}

// space is where arenas may lie, if plans of earlier starts do not matter.
func (p *Plan) space() placer {
	t, lowest := p.target, p.target.Lowest()
	if !p.Late {
		return place.NewSpace(p.maps, lowest, t.Growth())
	}
	known := func() (*place.Space, error) {
		maps, err := t.Maps()
		return place.NewSpace(maps, lowest, t.Growth()), err
	}
	return &place.Held{Span: p.Held, Else: place.Trial{Lowest: lowest, Hold: t.Hold, Known: known}}
}
