package entry

import (
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
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

const (
	evictSize   = stubgen.WindowSize + islandSize               // room for the jump to the copy and for the island
	evictAfter  = maxHostHead + stubgen.WindowSize + x86.MaxLen // behind an entry: nothing there is displaced
	maxHostHead = 4                                             // in front of a host's window: an endbr64
	maxHost     = 1 << 16                                       // bytes of a function that is searched
)

func overlaps(e *emit.Eviction, low, high uint64) bool {
	return e.Addr < high && low < e.Addr+uint64(e.Len)
}

func overlapAny(all []emit.Eviction, low, high uint64) bool {
	return slices.ContainsFunc(all, func(e emit.Eviction) bool { return overlaps(&e, low, high) })
}

// evict makes an island for a short branch that ends at end.
func (d *detours) evict(end uint64) (at uint64, ok bool) {
	low, high := reach(end)
	var best emit.Eviction
	cost := int32(-1)
	for j := d.obj.FunctionAt(high); j >= 0; j-- {
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
	return best.Addr + stubgen.WindowSize, true
}

// evictBranch moves the short branch at from, which must lead to the copy of
// what is at to.
func (d *detours) evictBranch(from survey.Site, to uint64) bool {
	h := d.host(d.obj.FunctionAt(from.Addr))
	if h == nil {
		return false
	}
	var in x86.Inst
	code := d.obj.Code(from.Addr)
	x86.DecodeAgain(code, &in)
	k := h.first(from.Addr)
	if k == len(h.insts) || h.insts[k].addr != from.Addr || !h.insts[k].reached || !emit.Movable(&in, code) {
		return false
	}
	size, length := d.movedAlone(&in, code, from.Addr), in.Len
	for ; length < stubgen.WindowSize; k-- {
		if k == 0 || h.insts[k].arrived {
			return false
		}
		before := &h.insts[k-1]
		if !before.movable || !before.reached || before.faults && d.obj.Go {
			return false
		}
		size, length = size+int(before.len), length+before.len
	}
	e := emit.Eviction{Addr: h.insts[k].addr, To: to, Len: length, Size: uint8(size)}
	if !d.evictable(e) {
		return false
	}
	d.detour.Evicted = append(d.detour.Evicted, e)
	return true
}

// movedAlone is the size of the copy of one instruction, with the jump behind it if
// it needs one.
func (d *detours) movedAlone(in *x86.Inst, code []byte, pc uint64) int {
	var extent emit.Extent
	extent.Add(d.obj, in, code, pc)
	return extent.Code()
}

// search looks for a run of the host whose island would lie in [low, high], and
// that costs less than the best so far.
func (d *detours) search(h *host, low, high uint64, best *emit.Eviction, cost *int32) {
	for k := h.first(low - stubgen.WindowSize); k < len(h.insts) && h.insts[k].addr+stubgen.WindowSize <= high; k++ {
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
func (d *detours) evictable(e emit.Eviction) bool {
	end := e.Addr + uint64(e.Len)
	return d.survey.Untouched(e.Addr+1, end) && !d.obj.MayBeHeld(e.Addr+1, end) && !d.overlapsEvicted(e) && !d.survey.HasSite(e.Addr, end) && d.survey.FixedIn(e.Addr, end) == ledger.ReasonNone
}

// overlapsEvicted reports whether instructions of e give way already.
func (d *detours) overlapsEvicted(e emit.Eviction) bool {
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
func (d *detours) keep(e emit.Eviction) {
	d.evicted[e.Addr/evictBucket] = append(d.evicted[e.Addr/evictBucket], e)
}
