package keep

import (
	"github.com/dynprof/dynprof/internal/x86"
)

// Assembly has calling conventions of its own, and so have Go and, for functions
// that are called once, clang's -enable-ipra: arguments or results are in other registers
// than the ABI's or in flags, or a function does not give back registers that the
// ABI says it must. Compiled code can neither take the place of such a function
// nor call it. What is looked at here is what surely happens: straight code from
// entries, and behind calls.

// calleeSaved are the registers that the ABI lets no function change; RSP is not
// looked at.
var calleeSaved = x86.RegSet{G: 1<<x86.RBX | 1<<x86.RBP | 0xf000}

// foreign are the registers that hold no argument by the ABI.
var foreign = calleeSaved.Or(x86.CallerSaved.Without(x86.Arguments).Without(x86.RegSet{V: 0xff_0000}))

// conventionBudget bounds how many instructions are looked at from an entry.
const conventionBudget = 64

// takesForeign reports whether the function reads, before it writes them,
// registers that hold no argument, or flags.
func (f *flow) takesForeign() bool {
	budget := conventionBudget
	todo := f.points[:0]
	if len(f.list) > 0 {
		todo = append(todo, entryPoint{})
	}
	defer func() { f.points = todo }()
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for ; budget > 0; budget-- {
			st := &f.list[p.at]
			if f.readsForeign(st, &p) {
				return true
			}
			if st.kind == x86.Jcc && st.to > p.at {
				todo = append(todo, entryPoint{st.to, p.written, p.flags})
			}
			if st.kind == x86.Jmp && st.to > p.at {
				p.at = st.to
				continue
			}
			if !st.falls() || st.kind == x86.Call || st.kind == x86.CallInd || st.kind == x86.Syscall || int(p.at)+1 >= len(f.list) {
				break
			}
			p.at++
		}
	}
	return false
}

// entryPoint is a place that a path from the entry, or from a call, comes to.
type entryPoint struct {
	at      int32
	written x86.RegSet
	flags   x86.FlagSet
}

// readsForeign looks at one instruction of a path. To save a register is not to
// use it.
func (f *flow) readsForeign(st *step, p *entryPoint) bool {
	var in x86.Inst
	code := f.code[st.offset:]
	if x86.Decode(code, &in) != nil {
		return false
	}
	read := st.uses().And(foreign).Without(p.written)
	if f.saves(&in) {
		read = read.Without(calleeSaved)
	}
	flags, written := in.Flags()
	if !read.Empty() || flags&^p.flags&^x86.FlagAF != 0 {
		return true
	}
	p.written, p.flags = p.written.Or(st.Written), p.flags|written
	return false
}

// uses is what the instruction reads but for what it only leaves as it was, above or
// beside what it writes.
func (st *step) uses() x86.RegSet { return st.Read.Without(st.Written.Without(st.Killed)) }

// saves reports a push, or a store to memory.
func (f *flow) saves(in *x86.Inst) bool {
	if in.Map != x86.MapLegacy {
		return false
	}
	return in.Op&0xf8 == 0x50 || in.Op == 0x89 && in.ModRM < 0xc0
}

// restores is the callee-saved register that the instruction pops or loads.
func restores(in *x86.Inst) x86.RegSet {
	switch {
	case in.Map != x86.MapLegacy:
	case in.Op&0xf8 == 0x58:
		return x86.RegSet{G: 1 << (in.Op&7 | in.Rex&x86.RexB<<3)}
	case in.Op == 0x8b && in.ModRM < 0xc0:
		return x86.RegSet{G: 1 << (in.ModRM>>3&7 | in.Rex&x86.RexR<<1)}
	case in.Op == 0xc9:
		return x86.RegSet{G: 1 << x86.RBP}
	}
	return x86.RegSet{}
}

// readsBehind tells, of each call of a known function, what is surely read right
// behind it, and whether that are flags.
func (f *flow) readsBehind() {
	const budget = 8
	for k := range f.list {
		st := &f.list[k]
		if st.kind != x86.Call || st.callee < 0 {
			continue
		}
		var written, read x86.RegSet
		var settled x86.FlagSet
		flags := false
		for i := k + 1; i < len(f.list) && i <= k+budget; i++ {
			next := &f.list[i]
			var in x86.Inst
			if x86.Decode(f.code[next.offset:], &in) != nil {
				break
			}
			reads, writes := in.Flags()
			flags = flags || reads&^settled&^x86.FlagAF != 0
			settled |= writes
			if !f.saves(&in) {
				read = read.Or(next.uses().Without(written))
			}
			written = written.Or(next.Written)
			if next.kind != x86.Plain && next.kind != x86.Nop {
				break
			}
		}
		if read = read.And(x86.CallerSaved).Without(x86.Results).Without(x86.RegSet{V: 0xffff_0000}); flags || !read.Empty() {
			f.behindCalls = append(f.behindCalls, behindCall{st.callee, read, flags})
		}
	}
}

// behindCall is what is read right behind a call of a function.
type behindCall struct {
	of    int32
	read  x86.RegSet
	flags bool
}

// convention finds what the function by itself does with callee-saved registers.
func (f *flow) convention(m *summary) {
	m.custom = f.takesForeign()
	for k := range f.list {
		st := &f.list[k]
		m.returns = m.returns || st.kind == x86.Ret || st.leaves() && st.kind != x86.Call && st.kind != x86.CallInd && f.leadsTo(st) < 0
		if !st.Written.And(calleeSaved).Empty() {
			var in x86.Inst
			if x86.Decode(f.code[st.offset:], &in) == nil {
				m.restored = m.restored.Or(restores(&in))
			}
			m.changed = m.changed.Or(st.Written.And(calleeSaved))
		}
	}
	f.readsBehind()
}

// conventions finds the functions with conventions of their own, when it is known what
// all write.
func (r *registers) conventions() {
	for _, l := range r.edges { // a part gives back what its function has saved
		if l.jump && (r.isAnyPart(l.to) || r.isAnyPart(l.from)) {
			to, from := &r.sum[l.to], &r.sum[l.from]
			to.restored, from.restored = to.restored.Or(from.restored), from.restored.Or(to.restored)
		}
	}
	r.findReturns()
	var todo []int32
	for i := range r.sum {
		m := &r.sum[i]
		if !m.returns {
			continue
		}
		if m.changed = m.changed.Without(m.restored); !m.changed.Empty() {
			m.custom = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		from := &r.sum[todo[len(todo)-1]]
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, l := range r.into(i) {
			to := &r.sum[l.from]
			if more := from.changed.Without(to.restored).Without(to.changed); !more.Empty() && to.returns {
				to.changed, to.custom = to.changed.Or(more), true
				todo = append(todo, l.from)
			}
		}
	}
	for w := range r.flows {
		for _, b := range r.flows[w].behindCalls {
			m := &r.sum[b.of]
			m.custom = m.custom || m.returns && (b.flags || !b.read.And(m.written).Empty())
		}
	}
}

// findReturns finds the functions that come back to their callers: what they jump to
// does, or they do.
func (r *registers) findReturns() {
	todo := r.chosen(func(_ int32, m *summary) bool { return m.returns })
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, l := range r.into(i) {
			if l.jump && !r.sum[l.from].returns {
				r.sum[l.from].returns = true
				todo = append(todo, l.from)
			}
		}
	}
}
