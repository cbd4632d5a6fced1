package regions

import (
	"sync/atomic"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Ring is memory that the program has mapped, behind a shadow that says where regions are. It
// has no name, and is there when the program is gone.
type Ring struct {
	shadow *heat.Shadow
	words  []uint64
	bytes  []byte
	tail   uint64
}

// New makes shadows that have rings.
func New() (*heat.Shadows, error) { return heat.NewWith(layout.RgSize) }

// Beginning is how recording begins.
type Beginning struct {
	Turns bool // it may be off at times, so that windows are told apart
	Waits bool // so it is until it is time
	Times bool // are noted
}

// Prepare says so of all of them, before the program is started.
func Prepare(all *heat.Shadows, b Beginning) error {
	var off uint64
	if b.Turns {
		off |= layout.OffTurns
	}
	if b.Waits {
		off |= layout.OffTime | layout.OffTurns
	}
	if b.Times {
		off |= layout.OffTimes
	}
	if off == 0 {
		return nil
	}
	return all.Put(layout.RgOff, off)
}

// Of is the ring behind a shadow.
func Of(s *heat.Shadow) *Ring {
	return &Ring{shadow: s, bytes: s.More(), words: mem.Values[uint64](s.More())}
}

// Table is the nonce of the program's table; 0: there is none yet.
func (r *Ring) Table() [16]byte { return r.shadow.Table() }

// Had reports whether the program has had it.
func (r *Ring) Had() bool { return r.shadow.Had() }

func (r *Ring) get(at int) uint64 { return atomic.LoadUint64(&r.words[at/8]) }

// Time says whether it is the time to record.
func (r *Ring) Time(is bool) {
	off := &r.words[layout.RgOff/8]
	if !is {
		atomic.OrUint64(off, layout.OffTime|layout.OffTurns)
		return
	}
	atomic.AddUint64(&r.words[layout.RgTurns/8], 1) // first: what is recorded next is of the next window
	atomic.AndUint64(off, ^uint64(layout.OffTime))
}

// Beat says that somebody takes records.
func (r *Ring) Beat() { atomic.AddUint64(&r.words[layout.RgBeats/8], 1) }

// Has reports whether so many records have come that are not taken yet, or more; at most as
// many as the ring has room for.
func (r *Ring) Has(n uint64) bool {
	last := r.tail + n - 1
	low := atomic.LoadUint64(&r.words[layout.RgRing/8+2*(last%layout.RgRecords)])
	return low>>layout.RecAddressBits == tagOf(last)
}

func tagOf(number uint64) uint64 {
	return (number/layout.RgRecords + 1) & (1<<layout.RecTagBits - 1)
}

// next adds records that come next, one behind the other in the ring and no more than most, to
// others. They stay there until they are taken.
func (r *Ring) next(to []byte, most int) []byte {
	first, tag := int(r.tail%layout.RgRecords), tagOf(r.tail)
	from := r.words[layout.RgRing/8:][2*first : 2*min(first+most, layout.RgRecords)]
	for ; len(from) > 0; from = from[2:] {
		low := atomic.LoadUint64(&from[0])
		if low>>layout.RecAddressBits != tag {
			break
		}
		to = le.AppendUint64(le.AppendUint64(to, low), from[1]) // both came at once
	}
	return to
}

// take gives the places of so many back.
func (r *Ring) take(n int) {
	r.tail += uint64(n)
	atomic.StoreUint64(&r.words[layout.RgTail/8], r.tail)
}

// site is what a number of a site stands for; 0: nothing.
func (r *Ring) site(n uint32) uint64 {
	if n >= layout.RgSiteMax {
		return 0
	}
	return r.get(layout.RgSites + 8*int(n))
}

// markName is that of marks, by its number.
func (r *Ring) markName(n uint32) string {
	if n >= layout.RgNameMax {
		return ""
	}
	at := layout.RgNames + int(n)*layout.NameSize
	return name(r.bytes[at+layout.NameText : at+layout.NameSize])
}

// tell tells the program what has been taken of a region so far: behind the records of which
// it is, and in front of their being given back.
func (r *Ring) tell(number uint32, d *done) {
	at := layout.RgDone + int(number)*layout.DoneSize
	for i, v := range [...]uint64{d.accesses, d.loads, d.stores, d.bytes, uint64(len(d.threads)), d.first, d.last} {
		atomic.StoreUint64(&r.words[at/8+i], v)
	}
}

// fail tells the program that what is taken cannot be written any more.
func (r *Ring) fail() { atomic.StoreUint64(&r.words[layout.RgFailed/8], 1) }

// Names reports whether a region of that name has begun.
func (r *Ring) Names(text string) bool {
	const most = layout.LogSize - layout.LogName - 1
	text = text[:min(len(text), most)]
	for n := uint64(1); ; n++ {
		g, ok := r.region(n)
		if !ok || g.Name == text {
			return ok
		}
	}
}

// region is one of those that there have been; false: it is not there yet.
func (r *Ring) region(number uint64) (g Region, ok bool) {
	if number == 0 || number >= layout.RgLogs {
		return g, false
	}
	at := layout.RgLog + int(number)*layout.LogSize
	begin, end := r.get(at+layout.LogBegin), r.get(at+layout.LogEnd)
	if begin == 0 {
		return g, false
	}
	bytes := r.get(at + layout.LogBytes)
	g = Region{Number: number, Address: r.get(at + layout.LogAddress), Bytes: bytes & (1<<layout.LogKinds - 1), Kinds: Kinds(bytes >> layout.LogKinds), Begin: begin - 1, Name: name(r.bytes[at+layout.LogName : at+layout.LogSize])}
	if end > 0 {
		g.End, g.Removed = end-1, true
	}
	if g.Bytes == 0 { // no other region has none
		g.Asked = r.asked(number)
	}
	return g, true
}

// asked is what was asked for at a site so far.
func (r *Ring) asked(number uint64) *Asked {
	for i := range layout.RgAsks {
		at := layout.RgAsked + i*layout.AskSize
		if r.get(at+layout.AskNumber) == number {
			return &Asked{
				Blocks: r.get(at + layout.AskBlocks), Bytes: r.get(at + layout.AskBytes), Freed: r.get(at + layout.AskFreed),
				Peak: r.get(at + layout.AskPeak), Most: r.get(at + layout.AskMost), Unheld: r.get(at + layout.AskUnheld), Unled: r.get(at + layout.AskUnled),
			}
		}
	}
	return &Asked{}
}

// total is what the ring knows of it.
func (r *Ring) total() Total {
	clock := Clock{r.get(layout.RgFrom), r.get(layout.RgFrom + 8), r.get(layout.RgUntil), r.get(layout.RgUntil + 8)}
	return Total{Clock: clock, Waits: r.get(layout.RgWaits), Waited: r.get(layout.RgWaited), Lost: r.get(layout.RgLost), Untold: r.get(layout.RgUntold), Unmade: r.get(layout.RgUnmade)}
}
