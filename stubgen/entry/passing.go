package entry

import (
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// passing is what becomes of the status flags that each function is called with. By the
// System V ABI nothing, but assembly may read them, or call one that leaves them alone
// between what sets and what reads them.
type passing []flagUse

type flagUse uint8

const (
	looked  flagUse = 1 << iota
	reads           // by the function, or behind a call of it
	passes          // to where it returns
	climbed         // its callers were looked at
	behind          // a call of it flags are read
)

// look says what function i itself does, and remembers it.
func (f passing) look(s *survey.Survey, walk *survey.FlagsWalk, i int) flagUse {
	if f[i] == 0 {
		f[i] = looked
		switch live, returned := walk.LiveOrReturned(s.Object(), s.Start(i)); {
		case live:
			f[i] |= reads
		case returned:
			f[i] |= passes
		}
	}
	return f[i]
}

// keep has the functions keep flags that pass some which are read behind a noted call of
// them, or of one that jumps to them or calls them last, and lists them. They are few, or
// none: so it is asked first who passes flags, which is known of each by itself.
func (f passing) keep(s *survey.Survey) (list []int) {
	var walk survey.FlagsWalk
	var found []int
	mark := func(i int) {
		if i >= 0 && f[i]&behind == 0 {
			f[i] |= behind
			found = append(found, i)
		}
	}
	for f.climb(s, &walk, mark) {
	}
	for k := 0; k < len(found); k++ {
		i := found[k]
		if f[i]&(reads|passes) == passes {
			f[i] |= reads
			list = append(list, i)
		}
		to := &s.Object().Functions[i]
		survey.EachBranch(s.Object(), elfscan.Range{Low: to.Addr, High: to.Addr + to.Size}, func(in *x86.Inst, to, next uint64) {
			if in.Kind != x86.Call || walk.LiveToEnd(s.Object(), next) {
				mark(s.Object().FunctionAt(to))
			}
		})
	}
	return list
}

// climb looks behind the calls of those that pass flags, which it has not looked at yet. It
// marks whom flags are read behind a call of, and finds more that pass some: those that jump
// to such a one, or call it last. (What these return with may be flags of their own, and
// whoever does so by a conditional or short jump is not seen.)
func (f passing) climb(s *survey.Survey, walk *survey.FlagsWalk, mark func(i int)) bool {
	var found []int32
	for c := range s.PossibleCalls() {
		if f[c.To]&(passes|climbed) != passes {
			continue
		}
		live, returned := false, true
		if !s.IsTail(c) {
			live, returned = walk.LiveOrReturned(s.Object(), c.At+survey.CallSize)
		}
		if live {
			mark(int(c.To))
		}
		if (live || returned) && f[c.From]&passes == 0 {
			found = append(found, c.From)
		}
	}
	for i := range f {
		if f[i]&passes != 0 {
			f[i] |= climbed
		}
	}
	for _, i := range found {
		f[i] |= passes
	}
	return len(found) > 0
}
