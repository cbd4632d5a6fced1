package table

import "github.com/dynprof/dynprof/internal/table/layout"

// Site is a direct call of a function, or a jump to it, and how often it was made. A thread
// counts it before its callee: one that was ended in between makes it one more than the
// callee has calls of it.
type Site struct {
	layout.Site
	Calls uint64
}

// IsCounted reports whether its calls are told from the callee's other calls.
func (s *Site) IsCounted() bool { return s.Counter != layout.NoCounter }

// HasSites reports whether the table counts calls by site: where there are any, and they can be led.
func (t *Table) HasSites() bool { return t.Geometry.Sites.Offset != 0 }

// Sites reads the call sites, by object, function and address.
func (t *Table) Sites() ([]Site, error) {
	if !t.HasSites() || t.HasBlocks() {
		return nil, nil
	}
	c := t.flowCounters()
	if t.BlockCounters.Count > t.Geometry.Sites.Count || c.Count-t.BlockCounters.Count > mostLater {
		return nil, layout.Corrupt("%d counters of %d call sites", c.Count, t.Geometry.Sites.Count)
	}
	var list []Site
	err := t.EachEntry(t.Geometry.Sites, func(b []byte) error {
		s := Site{Site: layout.DecodeSite(b)}
		n := uint32(len(t.Functions))
		if s.Caller >= n || s.Callee >= n || !isCounter(s.Counter, c) || s.IsCounted() && s.Count == 0 || t.Functions[s.Caller].Object != t.Functions[s.Callee].Object {
			return layout.Corrupt("call site %d: %+v", len(list), s.Site)
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	counts, err := t.SumCounters(c.First, c.Count)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if s := &list[i]; s.IsCounted() {
			s.Calls = counts[s.Counter-c.First]
		}
	}
	return list, nil
}
