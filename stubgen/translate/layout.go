package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Jumps within a copy are short where they reach. That is decided by the most bytes that each
// part can take, wherever the copy will lie: what is between a jump and its target is never
// more. So a copy that is made twice has the same jumps, and its size is known before its place.

// jump is one within the copy.
type jump struct {
	gap   int32 // bytes between it and the one in front of it
	to    int32 // number of a label
	long  int8  // its size,
	near  int8  // and if it is short
	short *bool
}

// size is that of the jump as it is.
func (j *jump) size() int32 {
	if *j.short {
		return int32(j.near)
	}
	return int32(j.long)
}

// label is a place that a jump may lead to.
type label struct {
	jumps  int32 // that are in front of it,
	behind int32 // and bytes between the last of these and the label
}

// mostRounds is how often it is looked whether more jumps can be short, as others that are have
// brought their targets nearer. More than four times are rare.
const mostRounds = 8

// layout goes through a copy as Writer.write does.
type layout struct {
	*Code
	obj     *stubgen.Object
	shared  bool
	slots   []bool  // by block: in front of it is a slot (emit.Switch); nil: nowhere
	jumps   []jump  // in the order in which they are written
	labels  []label // by block, and behind these by detour
	behind  int32   // bytes behind the last jump
	data    int     // bytes behind the code
	slotted int     // bytes in front of it, and in it, that SwitchSize has
	nops    int     // that there may be in front of counts (emit.Runs)
}

// layOut finds what goes home early and which jumps are short, and returns the most bytes that
// the copy takes, behind its function's count. It may come again, and finds the same. Paired says
// that it is one of a Pair, whose slots SwitchSize has.
func (c *Code) layOut(o *stubgen.Object, shared, paired bool) int {
	c.stayEarly()
	l := layout{Code: c, obj: o, shared: shared}
	if paired {
		l.slots = make([]bool, len(c.Home.Graph.Blocks))
		for _, at := range c.Home.Landings {
			l.slots[c.Home.Graph.BlockOf(at.Inst)] = true
		}
	}
	l.code()
	size := l.shorten() - l.nops
	return size + min(l.nops, mostNops(size)) + l.data - l.slotted
}

// mostNops is how many nops there can be in code of so many bytes without them: each is the last
// byte of a line, which are one more with each 63 others.
func mostNops(size int) int { return size/(emit.FetchLine-1) + 2 }

func (l *layout) code() {
	g := l.Home.Graph
	l.labels = make([]label, len(g.Blocks)+len(l.Detours))
	ahead := l.aheadOf()
	if l.Start != NoCounter {
		l.counted(emit.TripStartSize)
	}
	for i := range g.Blocks {
		k := (g.Entry + i) % len(g.Blocks)
		if d := ahead[k]; d != 0 {
			l.detour(int(d - 1))
		}
		if l.Lands[k] == 0 {
			l.slot(k)
		}
		l.bind(k)
		ops := l.ops(k)
		for i := range ops {
			l.op(&ops[i])
		}
	}
	if l.goesRound() {
		l.jump(int32(g.Entry), emit.JumpSize, shortSize, &l.RoundShort)
	}
	for i := range l.Detours {
		if d := &l.Detours[i]; !d.Ahead {
			l.detour(i)
			l.jumpTo(d.To, 0, emit.JumpSize, shortSize, &d.Short)
		}
	}
	for i, first := range l.alike(l.obj) {
		if i == first {
			l.data += tableAlign - 1 + l.Tables[i].Size()
		}
	}
	if l.usesMask() {
		l.data += maskSize - 1 + maskSize
	}
}

// goesRound reports whether the block that is written last goes on at the entry.
func (c *Code) goesRound() bool {
	g := c.Home.Graph
	return c.Falls[(g.Entry+len(g.Blocks)-1)%len(g.Blocks)]
}

// aheadOf is by block the number + 1 of the detour in front of it.
func (c *Code) aheadOf() []int32 {
	ahead := make([]int32, len(c.Home.Graph.Blocks))
	for i := range c.Detours {
		if d := &c.Detours[i]; d.Ahead {
			ahead[d.To] = int32(i) + 1
		}
	}
	return ahead
}

func (l *layout) bind(number int) { l.labels[number] = label{int32(len(l.jumps)), l.behind} }

func (l *layout) jump(to int32, long, near int, short *bool) {
	*short = false
	l.jumps = append(l.jumps, jump{l.behind, to, int8(long), int8(near), short})
	l.behind = 0
}

// jumpTo is a jump to a block, which may be in another copy, or to a detour.
func (l *layout) jumpTo(to, via int32, long, near int, short *bool) {
	switch {
	case l.goesFast(to, via):
		*short = false
		l.behind += int32(long)
		return
	case via != 0:
		to = int32(len(l.Home.Graph.Blocks)) + via - 1
	}
	l.jump(to, long, near, short)
}

// slot makes room for the slot that leads to a block.
func (l *layout) slot(k int) {
	if l.slots != nil && l.slots[k] {
		l.behind += emit.SlotRoom
		l.slotted += emit.SlotRoom
	}
}

func (l *layout) detour(i int) {
	d := &l.Detours[i]
	if int(l.Lands[d.To]) == i+1 {
		l.slot(int(d.To))
	}
	l.bind(len(l.Home.Graph.Blocks) + i)
	if d.Start != NoCounter {
		l.counted(emit.TripStartSize)
	}
	if d.Counter != NoCounter {
		l.counted(emit.CountSize(d.Keep, false, l.shared))
	}
}

// counted adds a count, or another part that may have a nop in front of it.
func (l *layout) counted(size int) {
	l.behind += 1 + int32(size)
	l.nops++
}

func (l *layout) op(op *Op) {
	in := &l.Home.Graph.Insts[op.Inst]
	switch op.Kind {
	case Branch:
		near := shortSize
		if in.Kind == x86.Loop {
			near = int(in.Len)
		}
		l.jumpTo(op.To, op.Via, emit.MovedSize(l.obj, &in.Inst, in.Addr), near, &op.Short)
	case Count:
		l.counted(emit.CountSize(op.Keep, false, l.shared))
	case Note:
		l.counted(emit.NoteSize - 1)
		l.data += emit.NoteColdSize
	case Touch:
		t := &l.Touches[op.To]
		front, behind := t.MostSize(), 0
		switch {
		case t.Record != 0:
			behind = t.ColdSize()
		case t.Looks:
			behind = t.ColdTouchSize()
		case t.Check:
			front, behind = guardSizes(t)
		}
		l.counted(front)
		l.data += behind
	case TripStart:
		l.counted(emit.TripStartSize)
	case TripRound:
		l.counted(emit.TripRoundSize)
	case TripForget:
		l.counted(emit.TripForgetSize)
	case TripEnd:
		l.counted(emit.TripEndSize)
		l.data += emit.TripColdEndSize
	case Stay, Follow:
		l.behind += jumpSize
	default:
		l.behind += int32(emit.MovedSize(l.obj, &in.Inst, in.Addr))
		if _, reads := l.table(op.Inst); reads {
			l.behind += displaced
		}
	}
}

// shorten finds the short jumps, and returns the size of the code.
func (l *layout) shorten() int {
	starts := make([]int32, len(l.jumps))
	for round := 0; ; round++ {
		at := int32(0)
		for i := range l.jumps {
			at += l.jumps[i].gap
			starts[i] = at
			at += l.jumps[i].size()
		}
		if round == mostRounds || !l.shortenMore(starts) {
			return int(at + l.behind)
		}
	}
}

// shortenMore has more jumps be short, and reports whether there are any, by where they start.
func (l *layout) shortenMore(starts []int32) (more bool) {
	for i := range l.jumps {
		j := &l.jumps[i]
		if *j.short {
			continue
		}
		to, end := l.labels[j.to], starts[i]+int32(j.near)
		if int(to.jumps) > i {
			end = starts[i] + int32(j.long) // what is in between is as far away then
		}
		place := to.behind
		if n := to.jumps; n > 0 {
			place += starts[n-1] + l.jumps[n-1].size()
		}
		if d := place - end; d == int32(int8(d)) {
			*j.short, more = true, true
		}
	}
	return more
}
