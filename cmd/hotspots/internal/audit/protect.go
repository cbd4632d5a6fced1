package audit

import (
	"slices"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// Pages of regions, as these change.

// changed takes notice that there are other regions.
func (a *Auditor) changed(t *thread) {
	if a.ended != "" {
		return
	}
	a.take() // what there is of new ones is not compared
	a.live = nil
	var all []regions.Region
	if !t.rests {
		all = a.ring.Live()
	}
	for _, r := range all {
		a.live = append(a.live, area{low: r.Address, high: r.Address + r.Bytes})
	}
	a.recorded = all
	for s := range a.spaces {
		s.stale = true
	}
	a.refresh(t)
	a.watch(all)
	for s := range a.spaces {
		if !s.stale {
			continue
		}
		for _, o := range a.threads { // another process
			if o.space == s && o.runs && !o.inCall && o.Interrupt() == nil {
				break
			}
		}
	}
}

// isLive reports whether memory is of a region.
func (a *Auditor) isLive(low, high uint64) bool { return overlap(a.live, low, high) }

// isRecorded reports whether an access is recorded, of the kinds that a region has.
func (a *Auditor) isRecorded(low, high uint64, load, store bool) bool {
	return slices.ContainsFunc(a.recorded, func(r regions.Region) bool {
		return low < r.Address+r.Bytes && high > r.Address && r.Kinds.Has(load, store)
	})
}

// protect protects the pages of regions, which are open; so does it for those that other threads
// have made meanwhile. Other threads are held.
func (a *Auditor) protect(t *thread) {
	s := t.space
	for _, o := range a.threads {
		if o.space == s && o.regs.Fs_base != 0 {
			s.stripThread(o)
		}
	}
	s.stripThread(t)
	s.stale = false
	pages, bare := s.lay(a.live)
	a.result.Pages, a.result.Bare = max(a.result.Pages, pages), max(a.result.Bare, bare+s.bareIn(a.live))
	if len(s.areas) == 0 {
		s.open = false
		a.noteBare(s)
		return
	}
	if s.at == 0 {
		a.end("no system calls can be made in it")
		s.areas = nil
		return
	}
	if s.actions == nil {
		a.readActions(t)
	}
	kept := s.areas[:0]
	for _, x := range s.areas {
		if _, ok := a.call(t, ptrace.CallMprotect, x.low, x.high-x.low, 0); ok {
			kept = append(kept, x)
		} else {
			a.result.Bare += (x.high - x.low) / pageSize
		}
	}
	s.areas, s.open = kept, false
	a.noteBare(s)
}

// unprotect opens all.
func (a *Auditor) unprotect(t *thread) {
	s := t.space
	if s.open {
		return
	}
	for _, x := range s.areas {
		a.call(t, ptrace.CallMprotect, x.low, x.high-x.low, uint64(x.prot))
	}
	s.open = true
}

// noteBare notes what is not protected, and of whose records no access is seen.
func (a *Auditor) noteBare(s *space) {
	const most = 1 << 12
	for _, r := range a.live {
		for i := range s.maps {
			at, end := max(r.low, s.maps[i].Start), min(r.high, s.maps[i].End)
			for _, x := range s.areas {
				if x.low > at && at < end {
					a.bare = append(a.bare, area{low: at, high: min(x.low, end)})
				}
				if x.high > at && x.low < end {
					at = x.high
				}
			}
			if at < end {
				a.bare = append(a.bare, area{low: at, high: end})
			}
		}
	}
	if len(a.bare) > most {
		a.bare = mergeAreas(a.bare)
	}
}
