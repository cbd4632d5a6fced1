package keep

import "github.com/dynprof/dynprof/internal/x86"

// liveIn is what the function reads before it writes it. What its callers read
// behind it is not among that. first says that of other functions nothing is known
// yet; then it also reports whether that matters.
func (f *flow) liveIn(first bool) (is x86.RegSet, guessed bool) {
	if len(f.list) == 0 {
		return x86.RegSet{}, false
	}
	f.first, f.exit = first, x86.RegSet{}
	f.liveness()
	is = f.list[0].live
	return is, first && is.And(x86.Arguments).Without(x86.RegSet{G: 1<<x86.RDI | 1<<x86.RSI | 1<<x86.RDX}) != x86.RegSet{}
}

// liveness finds what is live in front of each instruction.
func (f *flow) liveness() {
	for k := range f.list {
		f.list[k].live = x86.RegSet{}
	}
	for again := true; again; {
		again = false
		for k := len(f.list) - 1; k >= 0; k-- {
			st := &f.list[k]
			live := st.Read.Or(f.liveBehind(k).Without(st.Killed))
			if live != st.live {
				st.live = live
				again = again || st.looped
			}
		}
	}
}

// liveBehind is what is read behind instruction k and what it calls.
func (f *flow) liveBehind(k int) x86.RegSet {
	st := &f.list[k]
	switch st.kind {
	case x86.Ret:
		return f.exit
	case x86.Trap:
		return x86.RegSet{}
	case x86.Call, x86.CallInd:
		return f.through(st.callee, f.next(k))
	case x86.JmpInd:
		if st.tail {
			return f.through(-1, f.exit)
		}
		return f.sum[f.function].exposed.Or(f.exit)
	case x86.Jmp:
		return f.there(st)
	case x86.Jcc, x86.Loop, x86.Xbegin:
		return f.there(st).Or(f.next(k))
	}
	return f.next(k)
}

// through is what is read by function i, -1 if it is not known, and behind it.
func (f *flow) through(i int32, behind x86.RegSet) x86.RegSet {
	if i < 0 || f.first && int(i) != f.function {
		return f.sum[f.function].narrow(x86.Arguments).Or(behind.Without(x86.CallerSaved))
	}
	to := &f.sum[i]
	return to.liveIn.Or(behind.Without(to.written))
}

// next is what is live behind instruction k, where code goes on.
func (f *flow) next(k int) x86.RegSet {
	if k+1 < len(f.list) {
		return f.list[k+1].live
	}
	if to := f.behind(); to >= 0 {
		return f.through(to, f.exit)
	}
	return x86.RegSet{}
}

// there is what is live where a direct jump leads. In the middle of another
// function it is all that may be.
func (f *flow) there(st *step) x86.RegSet {
	switch {
	case st.to >= 0:
		return f.list[st.to].live
	case st.callee >= 0 && f.isAnyPart(st.callee) && !f.first:
		return f.sum[st.callee].liveIn.Or(f.exit)
	case st.callee >= 0 && !f.isAnyPart(st.callee):
		return f.through(st.callee, f.exit)
	}
	if j := f.owner(st.target); j >= 0 && !f.first {
		return f.sum[j].exposed.Or(f.exit)
	}
	return f.sum[f.function].narrow(x86.Arguments).Or(f.exit)
}
