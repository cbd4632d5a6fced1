package report

import (
	"fmt"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Observing is what became of a bound within which hot functions were observed.
type Observing struct {
	Bound float64 `json:"bound"` // the share of CPU time that it may cost,
	Share float64 `json:"share"` // and that it cost by estimate, both of the time without it
	Cost  uint64  `json:"cost_ns"`
	Time  uint64  `json:"cpu_ns"` // that the estimate is of

	Hot      int    `json:"hot"`      // functions,
	Observed int    `json:"observed"` // those of them of which some calls were observed,
	Calls    uint64 `json:"calls"`    // calls of all hot ones,
	Seen     uint64 `json:"observed_calls"`

	bound overhead.Bound
}

// observing is that of a table; nil if it has no bound.
func observing(t *table.Table, s *table.Snapshot, executed map[uint32]*ran) *Observing {
	if t.Overhead == 0 {
		return nil
	}
	o := &Observing{bound: overhead.Bound(t.Overhead)}
	cost, err := t.U64(layout.HdrObservingCost)
	if err == nil {
		o.Cost = cost
		o.Time, _ = t.U64(layout.HdrObservingTime)
	}
	for i, calls := range s.Calls {
		if at := t.HotAt(&t.Functions[i]); at == 0 || calls < at {
			continue
		}
		o.Hot++
		o.Calls += calls
		seen := uint64(0)
		if n := executed[uint32(i)]; n != nil {
			if seen = calls; n.some {
				seen = n.calls
			}
		}
		if o.Seen += seen; seen > 0 {
			o.Observed++
		}
	}
	o.shares()
	return o
}

func (o *Observing) shares() {
	o.Bound, o.Share = o.bound.Share(), overhead.Share(float64(o.Cost), float64(o.Time))
}

// add is the sum of two. Of their bounds it has the wider one.
func (o *Observing) add(p *Observing) *Observing {
	if o == nil || p == nil {
		if o == nil {
			return p
		}
		return o
	}
	sum := &Observing{
		Cost: o.Cost + p.Cost, Time: o.Time + p.Time, Hot: o.Hot + p.Hot, Observed: o.Observed + p.Observed,
		Calls: o.Calls + p.Calls, Seen: o.Seen + p.Seen, bound: max(o.bound, p.bound),
	}
	sum.shares()
	return sum
}

// line says so, with a newline in front; empty without a bound.
func (o *Observing) line() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("\nobserving cost about %.1f%% of CPU time by estimate, of %v; %s of %s were observed, in %s of their calls",
		100*o.Share, o.bound, figures.Thousands(uint64(o.Observed)), figures.Count(uint64(o.Hot), "hot function"), figures.Share(o.Seen, o.Calls))
}
