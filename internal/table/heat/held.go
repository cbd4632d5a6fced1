package heat

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Held is the blocks of malloc that a program has, in memory behind its shadow that it has mapped
// (libdynprof/resident/table/held.c). hotspots run looks at them now and then: which look a block came behind
// is when it came.
type Held struct {
	shadow *Shadow
	bytes  []byte
	words  []uint64
	tail   uint64
	begun  time.Time
	looks  []time.Duration // since begun: when each was
	lived  gone            // blocks that were given back: those that a look has seen,
	brief  gone            // and others
}

// Bounds of what is kept of blocks that were given back: the last ones.
const (
	mostLived = 1 << 20
	mostBrief = 1 << 16
)

// gone is the last blocks of those that were given back.
type gone struct {
	list    []heldBlock
	next    int // that the next takes the place of, if there are as many as may be
	dropped uint64
}

func (g *gone) add(b heldBlock, most int) {
	if len(g.list) < most {
		g.list = append(g.list, b)
		return
	}
	g.list[g.next] = b
	g.next, g.dropped = (g.next+1)%most, g.dropped+1
}

// heldBlock is one as the program notes it, and behind which look it was given back; 0: it was not.
type heldBlock struct {
	what, size uint64
	died       uint32
}

// NamedWithBlocks is Named, with blocks of malloc behind each.
func NamedWithBlocks(name string) (*Shadows, error) {
	s, err := named(name, layout.AlSize)
	if err != nil {
		return nil, err
	}
	s.blocks = true
	for at, word := range map[int64]uint64{layout.AlLook: 1, layout.AlBrief: layout.AlBriefs} {
		if err == nil {
			err = s.Put(at, word)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Held is what blocks a program has; nil if they are not noted.
func (s *Shadow) Held() (*Held, error) {
	if !s.blocks {
		return nil, nil
	}
	b, err := s.mapAt(s.at+int64(s.MoreAt()), s.more)
	if err != nil {
		return nil, err
	}
	return &Held{shadow: s, bytes: b, words: mem.Values[uint64](b), begun: time.Now(), looks: []time.Duration{0}}, nil
}

// Leave gives its address space back; nothing is asked of it any more.
func (h *Held) Leave() {
	if h.bytes != nil {
		unix.Munmap(h.bytes)
		h.bytes, h.words = nil, nil
	}
}

func (h *Held) get(at int) uint64 { return atomic.LoadUint64(&h.words[at/8]) }

// Look begins what comes next, and takes what was given back before: whatever was done with these blocks is
// in what the shadow has by now.
func (h *Held) Look() {
	h.looks = append(h.looks, time.Since(h.begun))
	now := uint64(len(h.looks))
	atomic.StoreUint64(&h.words[layout.AlLook/8], now)
	for {
		at := layout.AlRing/8 + 2*int(h.tail%layout.AlRingMax)
		what := atomic.LoadUint64(&h.words[at])
		if what>>layout.HeldState&3 != (h.tail/layout.AlRingMax+1)&3 {
			break
		}
		b := heldBlock{what, h.words[at+1], uint32(now)} // both came at once
		if b.born() < uint32(now)-1 {
			h.lived.add(b, mostLived)
		} else {
			h.brief.add(b, mostBrief)
		}
		h.tail++
	}
	atomic.StoreUint64(&h.words[layout.AlTail/8], h.tail)
	atomic.StoreUint64(&h.words[layout.AlBrief/8], layout.AlBriefs)
}

func (b *heldBlock) born() uint32 { return uint32(b.size >> layout.HeldLook) }

// each calls use with the words of [from, to) that the file has, so many at a time: to read a hole would fill it.
func (h *Held) each(from, to, size int, use func(at int, words []uint64)) error {
	begin := h.shadow.at + int64(h.shadow.MoreAt())
	for at := int64(from); at < int64(to); {
		data, hole, err := nextData(int(h.shadow.file.Fd()), begin+at)
		if err == unix.ENXIO || err == nil && data >= begin+int64(to) {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		at = min(hole-begin, int64(to))
		for k := int(data - begin); k < int(at); k += size {
			use(k, h.words[k/8:(k+size)/8])
		}
	}
	return nil
}

// Allocs is all that is known now, times by those since the program's start.
func (h *Held) Allocs(start time.Time) (*Allocs, error) {
	a := &Allocs{
		Untold: h.get(layout.AlUntold), Short: h.get(layout.AlShort), Dropped: h.lived.dropped + h.brief.dropped,
		Unled: h.get(layout.AlUnled), Children: h.get(layout.AlChildren),
	}
	before := start.Sub(h.begun) // of what came then it is the start
	when := func(look uint32) uint64 {
		if look == 0 || int(look) > len(h.looks) {
			return 0
		}
		return uint64(max(0, h.looks[look-1]-before))
	}
	callers := map[uint64]uint32{}
	caller := func(what uint64) uint32 {
		n := what >> layout.HeldCaller & (layout.AlCallerMax - 1)
		i, known := callers[n]
		if !known {
			i = uint32(len(a.Callers))
			callers[n] = i
			at := layout.AlCallers + int(n)*layout.CallerSize
			a.Callers = append(a.Callers, Caller{
				Back: h.get(at + layout.CallerBack), Blocks: h.get(at + layout.CallerBlocks), Bytes: h.get(at + layout.CallerBytes), Freed: h.get(at + layout.CallerFreed),
				Gone: h.get(at + layout.CallerGone), Peak: h.get(at + layout.CallerPeak), Unheld: h.get(at + layout.CallerUnheld),
			})
		}
		return i
	}
	add := func(b heldBlock, live bool) {
		one := Block{Address: b.what & (1<<layout.HeldCaller - 1) << layout.HeldUnit, Bytes: b.size & (1<<layout.HeldLook - 1), Caller: caller(b.what), Born: when(b.born()), Live: live}
		if !live {
			one.Died = max(when(b.died), one.Born)
		}
		a.Blocks = append(a.Blocks, one)
	}
	err := h.each(layout.AlCallers, layout.AlCallers+layout.AlCallerMax*layout.CallerSize, layout.CallerSize, func(at int, words []uint64) {
		if atomic.LoadUint64(&words[layout.CallerBlocks/8]) > 0 {
			caller(uint64(at-layout.AlCallers) / layout.CallerSize << layout.HeldCaller)
		}
	})
	if err != nil {
		return nil, err
	}
	err = h.each(layout.AlSlots, layout.AlSlots+layout.AlSlotMax*16, 16, func(_ int, words []uint64) {
		for {
			b := heldBlock{what: atomic.LoadUint64(&words[0]), size: atomic.LoadUint64(&words[1])}
			if atomic.LoadUint64(&words[0]) != b.what {
				continue // it is another by now
			}
			if b.what>>layout.HeldState&3 == layout.HeldTaken {
				add(b, true)
			}
			return
		}
	})
	for _, list := range [][]heldBlock{h.lived.list, h.brief.list} {
		for _, b := range list {
			add(b, false)
		}
	}
	a.sort()
	return a, err
}
