package report

import (
	"fmt"
	"math"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
)

// HasTime reports whether CPU time was sampled in both.
func (d *Diff) HasTime() bool { return d.Before.HasTime() && d.After.HasTime() }

// plus adds the time of another function of the same name.
func (t *SelfTime) plus(more *SelfTime) *SelfTime {
	switch {
	case more == nil:
		return t
	case t == nil:
		return more
	}
	self := t.Self + more.Self
	low := math.Hypot(float64(t.Self-t.Low), float64(more.Self-more.Low))
	high := math.Hypot(float64(t.High-t.Self), float64(more.High-more.Self))
	return &SelfTime{self, uint64(max(0, float64(self)-low)), self + uint64(high)}
}

// half is half of the interval's length, and time the middle of what it is about, ns.
func (t *SelfTime) half() float64 {
	if t == nil {
		return 0
	}
	return float64(t.High-t.Low) / 2
}

func (t *SelfTime) nanoseconds() uint64 {
	if t == nil {
		return 0
	}
	return t.Self
}

// timeDelta is how much more time the function took, ns. What one of the two does not have took
// none, but for the kernel, which may not have been sampled.
func (c *Change) timeDelta() int64 {
	if c.Object == kernelName && (c.TimeBefore == nil || c.TimeAfter == nil) {
		return 0
	}
	return int64(c.TimeAfter.nanoseconds() - c.TimeBefore.nanoseconds())
}

// timeError is what the difference may be off by, with 95 % confidence: errors of two
// measurements that are independent, as those of two runs are.
func (c *Change) timeError() float64 { return math.Hypot(c.TimeBefore.half(), c.TimeAfter.half()) }

// timeDiffers reports whether the time differs by more than that.
func (c *Change) timeDiffers() bool { return math.Abs(float64(c.timeDelta())) > c.timeError() }

// times is what text shows: before, after, the difference and what that may be off by.
func (c *Change) times() string {
	one := func(t *SelfTime) string {
		if t == nil {
			return "-"
		}
		return figures.Nanoseconds(float64(t.Self))
	}
	delta, sign := c.timeDelta(), "+"
	if delta < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s\t%s\t%s%s±%s", one(c.TimeBefore), one(c.TimeAfter), sign, figures.Nanoseconds(float64(size(delta))), figures.Nanoseconds(c.timeError()))
}
