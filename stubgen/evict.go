package stubgen

import (
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// Where no free text is in reach of a short branch, instructions of a
// neighbour are moved to make some (Duck, Gao, Roychoudhury, "Binary Rewriting
// without Control Flow Recovery", PLDI 2020: neighbour eviction):
//
//	        before                  after
//	at:     mov  8(%rsp), %rax      jmp  copy         ; in the arena
//	        add  $1, %rax           island: jmp stub
//	        mov  %rax, 8(%rsp)
//	behind: ...                     ...
//
// The copy in the arena ends with a jump to behind. A short branch that must
// lead into the stub may also move itself, with what runs before it; then there
// is no island.

// Eviction is a run of a neighbour's instructions that moves to the arena.
type Eviction struct {
	Addr   uint64 // link-time, of its first instruction; the island is 5 bytes behind
	To     uint64 // of a run that ends with a branch: where that must lead in the stub, as Lead.To; else 0
	Offset uint16 // of the copy, from the start of the stub
	Len    uint8  // bytes
	Size   uint8  // bytes of the copy, with the jump behind it
	Trap   bool   // an int3 sends arrivals to the copy, not a jump
}

const (
	evictSize  = windowSize + islandSize         // room for the jump to the copy and for the island
	evictAfter = endbrLen + windowSize + maxInst // behind an entry: nothing there is displaced
	maxHost    = 1 << 16                         // bytes of a function that is searched
)

func (e *Eviction) overlaps(low, high uint64) bool {
	return e.Addr < high && low < e.Addr+uint64(e.Len)
}

func overlapAny(all []Eviction, low, high uint64) bool {
	return slices.ContainsFunc(all, func(e Eviction) bool { return e.overlaps(low, high) })
}

// evict makes an island for a short branch that ends at end.
func (d *detours) evict(end uint64) (at uint64, ok bool) {
	low, high := reach(end)
	var best Eviction
	cost := int32(-1)
	for j := d.obj.function(high); j >= 0; j-- {
		if h := d.host(j); h != nil {
			d.search(h, low, high, &best, &cost)
		}
		if d.obj.Functions[j].Addr <= low {
			break
		}
	}
	if cost < 0 {
		return 0, false
	}
	d.detour.Evicted = append(d.detour.Evicted, best)
	return best.Addr + windowSize, true
}

// evictBranch moves the short branch at from, which must lead to the copy of
// what is at to.
func (d *detours) evictBranch(from site, to uint64) bool {
	h := d.host(d.obj.function(from.addr))
	if h == nil {
		return false
	}
	var in x86.Inst
	code := d.obj.Code(from.addr)
	decodeAgain(code, &in)
	k := h.first(from.addr)
	if k == len(h.insts) || h.insts[k].addr != from.addr || !h.insts[k].reached || !movable(&in, code) {
		return false
	}
	size, length := d.obj.movedSize(&in, from.addr), in.Len
	if !endsFlow(&in, code) {
		size += jumpSize
	}
	for ; length < windowSize; k-- {
		if k == 0 || h.insts[k].arrived {
			return false
		}
		before := &h.insts[k-1]
		if !before.movable || !before.reached || before.faults && d.obj.Go {
			return false
		}
		size, length = size+int(before.len), length+before.len
	}
	e := Eviction{Addr: h.insts[k].addr, To: to, Len: length, Size: uint8(size)}
	if !d.evictable(e) {
		return false
	}
	d.detour.Evicted = append(d.detour.Evicted, e)
	return true
}

// search looks for a run of the host whose island would lie in [low, high], and
// that costs less than the best so far.
func (d *detours) search(h *host, low, high uint64, best *Eviction, cost *int32) {
	for k := h.first(low - windowSize); k < len(h.insts) && h.insts[k].addr+windowSize <= high; k++ {
		e, c := h.run(k)
		if e.Len == 0 || *cost >= 0 && c >= *cost || c%2 != 0 && d.obj.Go {
			continue
		}
		if d.evictable(e) {
			*best, *cost = e, c
		}
	}
}

// evictable asks whether nobody else arrives in e or has plans for it.
func (d *detours) evictable(e Eviction) bool {
	end := e.Addr + uint64(e.Len)
	return d.entries.untouched(e.Addr+1, end) && !d.overlapsEvicted(e) && !d.siteIn(e.Addr, end) && d.fixedIn(e.Addr, end) == ledger.ReasonNone
}

// overlapsEvicted reports whether instructions of e give way already.
func (d *detours) overlapsEvicted(e Eviction) bool {
	end := e.Addr + uint64(e.Len)
	if overlapAny(d.detour.Evicted, e.Addr, end) {
		return true
	}
	for bucket := e.Addr/evictBucket - 1; bucket <= end/evictBucket; bucket++ {
		if overlapAny(d.evicted[bucket], e.Addr, end) {
			return true
		}
	}
	return false
}

// evictBucket is the bytes of text that share a list of evictions.
const evictBucket = 256

// keep notes an eviction of a plan that is made.
func (d *detours) keep(e Eviction) {
	d.evicted[e.Addr/evictBucket] = append(d.evicted[e.Addr/evictBucket], e)
}
