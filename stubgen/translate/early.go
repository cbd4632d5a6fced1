package translate

import (
	"cmp"
	"slices"
)

// A block that ends with what stays home goes there as soon as it can: what runs in front of
// the call runs at home, too, if nothing is counted or noted in between and its old bytes are
// still there. So the copy is shorter, and lines of home are used that hold the call anyway:
//
//	home                           copy
//	                               inc   qword gs:[counter]
//	        mov   rdi, rbx         mov   rdi, rbx
//	1:      mov   esi, 1           jmp   1b
//	        call  foo
//
// An instruction that a count is directly in front of has a copy, unless it is the call: who is
// struck at home and goes on at that address later counts it (libdynprof/resident/signals/signals.c).

// stayEarly has all blocks do so. It comes behind what adds operations, and may come again.
func (c *Code) stayEarly() {
	held := c.Home.held()
	ops, end := c.Ops[:0], len(c.Ops)
	for k := range c.Begins {
		first, next := int(c.Begins[k]), end
		if k+1 < len(c.Begins) {
			next = int(c.Begins[k+1])
		}
		c.Begins[k] = int32(len(ops))
		old := c.Ops[first:next]
		ops = append(ops, old[:c.homeward(old, held)]...)
	}
	c.Ops = ops
}

// homeward makes operations of a block one, if it ends at home, and returns how many it has.
func (c *Code) homeward(ops []Op, list []held) int {
	g, last := c.Home.Graph, len(ops)-1
	if last < 0 || ops[last].Kind != Stay {
		return len(ops)
	}
	low := uint64(0)
	if i, _ := slices.BinarySearchFunc(list, g.Insts[ops[last].Inst].Addr, func(h held, at uint64) int { return cmp.Compare(h.low, at) }); i > 0 {
		low = list[i-1].high
	}
	at := last
	for at > 0 && ops[at-1].Kind == Same && g.Insts[ops[at-1].Inst].Addr >= low {
		at--
	}
	if at > 0 && at < last && ops[at-1].Kind == Count {
		at++
	}
	ops[at] = Op{Kind: Stay, Inst: ops[at].Inst}
	return at + 1
}

// held lists what of the old body is overwritten, in order.
func (h *Home) held() []held {
	entry := h.Graph.Unit.Entry()
	list := []held{{entry, h.Open}}
	for _, l := range h.Landings {
		at := h.Graph.Insts[l.Inst].Addr
		if l.Island == 0 {
			list = append(list, held{at, at + jumpSize})
		} else {
			list = append(list, held{at, at + shortSize}, held{l.Island, l.Island + jumpSize})
		}
	}
	slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.low, b.low) })
	return list
}
