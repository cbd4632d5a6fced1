package audit

import (
	"cmp"
	"slices"
	"sync"

	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// access is one that was seen, or recorded: that of a record is equal in all to the one that was
// seen, or it is another.
type access struct {
	thread      uint32
	size        uint32
	load, store bool
	home, at    uint64 // the instruction, where it always was; the memory
}

// how is what the program text tells of an access.
type how struct {
	form   string
	copied bool
}

const threadMask = 1<<layout.RecThreadBits - 1

// matcher compares accesses with records. The order in which either comes does not matter.
type matcher struct {
	mu     sync.Mutex
	ring   *regions.Ring
	diff   map[access]int // times seen less times recorded, but 0
	hows   map[access]how // thread and at are 0
	known  map[uint32]bool
	open   map[uint32]bool   // threads that run while pages are open
	last   map[uint32]access // what each thread has recorded last: it may not be made yet,
	flight map[uint32]access // as when pages were closed again
	result regions.Audit
}

func newMatcher(r *regions.Ring) *matcher {
	return &matcher{ring: r, diff: map[access]int{}, hows: map[access]how{}, known: map[uint32]bool{}, open: map[uint32]bool{}, last: map[uint32]access{}, flight: map[uint32]access{}}
}

func (m *matcher) count(a access, n int) {
	if n += m.diff[a]; n == 0 {
		delete(m.diff, a)
	} else {
		m.diff[a] = n
	}
}

// seen notes an access to a protected page.
func (m *matcher) seen(a access, h how) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.thread &= threadMask
	if last, is := m.flight[a.thread]; is {
		delete(m.flight, a.thread)
		if last == a && m.diff[a] >= 0 {
			return // its record was not compared
		}
	}
	m.result.Seen++
	m.count(a, 1)
	a.thread, a.at = 0, 0
	m.hows[a] = h
}

// Recorded notes records, as the ring has them.
func (m *matcher) Recorded(records []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring.Decode(records, func(r *regions.Access, s *regions.Site) {
		a := access{r.Thread, s.Size, s.Load, s.Store, s.Address, r.Address}
		m.last[r.Thread] = a
		if m.open[r.Thread] || !m.known[r.Region] {
			m.result.Unchecked++
			return
		}
		m.count(a, -1)
	})
}

// watch says which regions are protected from now on.
func (m *matcher) watch(live []regions.Region) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = map[uint32]bool{}
	for _, r := range live {
		m.known[uint32(r.Number)] = true
	}
	for tid, a := range m.last {
		m.flight[tid] = a
	}
}

// opened says that threads run while pages are open. The access of which one has put a record
// down last may be made then.
func (m *matcher) opened(tids []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tid := range tids {
		tid &= threadMask
		m.open[tid] = true
		if a, is := m.last[tid]; is && m.diff[a] < 0 {
			m.count(a, 1)
			m.result.Unchecked++
		}
		delete(m.last, tid)
	}
}

// closed says that pages are closed again. The access of a record that is not compared may be
// made now.
func (m *matcher) closed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tid := range m.open {
		if a, is := m.last[tid]; is {
			m.flight[tid] = a
		}
	}
	m.open = map[uint32]bool{}
}

// isInFlight reports whether such an access may be to come.
func (m *matcher) isInFlight(tid uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, is := m.flight[tid&threadMask]
	return is
}

// sum works out the result, when there is no more. Of records at addresses that were never
// protected no access could be seen.
func (m *matcher) sum(isBare func(low, high uint64) bool) *regions.Audit {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.result
	missed, spare := map[access]uint64{}, map[access]uint64{}
	for a, n := range m.diff {
		site := a
		site.thread, site.at = 0, 0
		switch {
		case n > 0:
			missed[site] += uint64(n)
			r.Missed += uint64(n)
		case isBare(a.at, a.at+uint64(a.size)):
			r.Unchecked += uint64(-n)
		default:
			spare[site] += uint64(-n)
			r.Unseen += uint64(-n)
		}
	}
	r.Recorded = r.Seen - r.Missed
	r.Misses, r.Spare = m.sites(missed), m.sites(spare)
	return &r
}

func (m *matcher) sites(of map[access]uint64) []regions.AuditSite {
	all := []regions.AuditSite{}
	for a, n := range of {
		h := m.hows[a]
		all = append(all, regions.AuditSite{Address: a.home, Size: a.size, Load: a.load, Store: a.store, Form: h.form, Copied: h.copied, Accesses: n})
	}
	slices.SortFunc(all, func(a, b regions.AuditSite) int {
		return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Size, b.Size))
	})
	return all
}
