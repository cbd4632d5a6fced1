package keep

import "github.com/dynprof/dynprof/internal/x86"

// look is what the function's code, with what is known of others, tells of them.
func (f *flow) look() {
	if len(f.list) == 0 {
		return
	}
	f.first, f.exit = false, f.sum[f.function].exit
	f.liveness()
	f.define()
	f.report()
}

// report tells what is read behind calls of others.
func (f *flow) report() {
	for k := range f.list {
		st := &f.list[k]
		switch {
		case st.kind == x86.Call:
			if to := st.callee; to >= 0 {
				f.tell(to, f.next(k).And(st.defined.Or(f.sum[to].written)))
			}
		case st.leaves() && st.kind != x86.JmpInd && st.kind != x86.CallInd:
			f.reportJump(f.leadsTo(st), st.callee < 0)
		}
	}
	f.reportJump(f.behind(), false)
}

// reportJump is for a jump to function to. What is behind its return is behind this
// one's; a cold part's is its function's.
func (f *flow) reportJump(to int32, middle bool) {
	m := &f.sum[f.function]
	switch {
	case to < 0 || int(to) == f.function:
	case f.isAnyPart(to):
		f.tell(to, m.exit)
	case f.isAnyPart(int32(f.function)) && middle: // back to where it came from
	default:
		f.tell(to, m.relied)
	}
}

// tell says that registers are read behind function to.
func (f *flow) tell(to int32, is x86.RegSet) {
	m := &f.sum[to]
	if m.unseen && !f.isAnyPart(to) {
		return
	}
	if !is.Without(m.relied).Empty() {
		f.news = append(f.news, news{to, is})
	}
}
