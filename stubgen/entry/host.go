package entry

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// host is a function whose instructions may be evicted.
type host struct {
	insts []hostInst // in order
}

// hostInst is an instruction. They are many: it is kept small.
type hostInst struct {
	addr    uint64
	to      int32 // number of the instruction it branches to, -1 for none
	loops   int32 // that it runs in, by branches back over it
	len     uint8
	movable bool // it means the same elsewhere
	faults  bool // it may fault: a signal handler sees that it is elsewhere
	ends    bool // nothing runs behind it
	reached bool // from the entry, by direct branches: it is code, not data
	arrived bool // one of the function's branches leads to it
}

// first is the number of the first instruction at or behind addr.
func (h *host) first(addr uint64) int {
	k, _ := slices.BinarySearchFunc(h.insts, addr, func(in hostInst, addr uint64) int { return cmp.Compare(in.addr, addr) })
	return k
}

// run is the shortest run from instruction k on that is long enough, a Len of
// 0 if there is none. Its cost is twice the loops that it runs in, and odd if
// it may fault.
func (h *host) run(k int) (e emit.Eviction, cost int32) {
	e.Addr = h.insts[k].addr
	size, loops, faults := uint8(0), int32(0), false
	for n := k; size < evictSize; n++ {
		if n == len(h.insts) {
			return e, 0
		}
		in := &h.insts[n]
		if !in.movable || !in.reached || in.arrived && n > k {
			return e, 0
		}
		size += in.len
		loops = max(loops, in.loops)
		faults = faults || in.faults
	}
	if e.Len, cost = size, 2*loops; faults {
		cost++
	}
	e.Size = e.Len + emit.JumpSize
	return e, cost
}

// host returns function j if its instructions may be evicted, else nil: all
// ways into it must be known.
func (d *detours) host(j int) *host {
	h, known := d.hosts[int32(j)]
	if known {
		return h
	}
	if len(d.hosts) >= 64 {
		clear(d.hosts) // the next functions have other neighbours
	}
	if d.isHost(j) {
		h = d.decodeHost(j)
	}
	d.hosts[int32(j)] = h
	return h
}

func (d *detours) isHost(j int) bool {
	size := d.obj.Functions[j].Size
	if size > maxHost || size < evictAfter+evictSize || !d.survey.MayGiveWay(j) {
		return false
	}
	return d.plans[j].Tactic != ledger.TacticWholeBody // its body is dead, and served by freeText
}

// decodeHost decodes function j. It returns nil if that branches between
// instructions or calls itself elsewhere than at the entry: what follows such a
// call may be data.
func (d *detours) decodeHost(j int) *host {
	code, low := d.obj.Body(j), d.obj.Functions[j].Addr
	h := &host{}
	number := make([]int32, len(code)) // by offset: of the instruction there, from 1
	var in x86.Inst
	for at := 0; at < len(code); at += int(in.Len) {
		x86.DecodeAgain(code[at:], &in)
		pc := low + uint64(at)
		to := in.BranchTarget(code[at:], pc) - low
		if in.Kind == x86.Call && to-1 < uint64(len(code))-1 {
			return nil
		}
		if to >= uint64(len(code)) || in.Kind == x86.Call {
			to = outside
		}
		h.insts = append(h.insts, hostInst{
			addr: pc, to: int32(to), len: in.Len,
			movable: at >= evictAfter && in.Kind == x86.Plain && emit.Movable(&in, code[at:]) && !in.UsesGS(),
			faults:  mayFault(&in, code[at:]),
			ends:    in.Kind != x86.Call && in.Kind != x86.CallInd && emit.EndsFlow(&in, code[at:]),
		})
		number[at] = int32(len(h.insts))
	}
	if !h.link(number) {
		return nil
	}
	h.reach()
	return h
}

const outside = 1<<32 - 1 // as an int32 it is -1

// link turns the offsets that branches lead to into numbers of instructions,
// and counts the loops. It reports false for a branch between instructions.
func (h *host) link(number []int32) bool {
	for k := range h.insts {
		in := &h.insts[k]
		if in.to < 0 {
			continue
		}
		in.to = number[in.to] - 1
		if in.to < 0 {
			return false
		}
		h.insts[in.to].arrived = true
		if int(in.to) <= k {
			h.insts[in.to].loops++
			if k+1 < len(h.insts) {
				h.insts[k+1].loops--
			}
		}
	}
	for k := 1; k < len(h.insts); k++ {
		h.insts[k].loops += h.insts[k-1].loops
	}
	return true
}

// reach marks the instructions that direct branches lead to from the entry.
func (h *host) reach() {
	todo := []int32{0}
	for len(todo) > 0 {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for ; int(k) < len(h.insts) && !h.insts[k].reached; k++ {
			in := &h.insts[k]
			in.reached = true
			if in.to >= 0 {
				todo = append(todo, in.to)
			}
			if in.ends {
				break
			}
		}
	}
}
