package keep

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// define finds which registers may have a value, in front of each instruction. All
// have at the start, and where another function jumps to.
func (f *flow) define() {
	for k := range f.list {
		f.list[k].defined = x86.RegSet{}
	}
	f.list[0].defined = x86.CallerSaved.Or(f.sum[f.function].narrow(x86.CallerSaved))
	joins := f.registers.joins
	for n, _ := slices.BinarySearch(joins, f.low); n < len(joins) && joins[n] < f.high; n++ {
		if k := f.at[joins[n]-f.low]; k >= 0 {
			f.list[k].defined = f.list[0].defined
		}
	}
	for again := true; again; {
		again = false
		give := func(k int32, is x86.RegSet) {
			if int(k) < len(f.list) && !is.Without(f.list[k].defined).Empty() {
				f.list[k].defined, again = f.list[k].defined.Or(is), true
			}
		}
		for k := range f.list {
			st := &f.list[k]
			is := st.defined.Or(st.Written)
			switch {
			case st.kind == x86.Call && st.callee >= 0 && !f.sum[st.callee].unseen:
				is = is.Or(f.sum[st.callee].written)
			case st.kind == x86.Call, st.kind == x86.CallInd:
				is = is.Without(x86.CallerSaved).Or(x86.Results)
			case st.kind == x86.JmpInd && !st.tail:
				f.scatter(is, give)
			}
			if st.to >= 0 {
				give(st.to, is)
			}
			if st.falls() {
				give(int32(k+1), is)
			}
		}
	}
}

// scatter gives what a jump by a table hands on to where it may lead: behind each
// instruction that does not go on to the next, and behind calls, which may not.
// Where other code goes on to a case it has what the case reads as well.
func (f *flow) scatter(is x86.RegSet, give func(int32, x86.RegSet)) {
	for k := range f.list {
		if st := &f.list[k]; !st.falls() || st.kind == x86.Call || st.kind == x86.CallInd {
			give(int32(k+1), is)
		}
	}
}
