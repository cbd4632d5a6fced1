package report

import (
	"cmp"
	"slices"
	"strings"
)

// Object is the functions of one object together.
type Object struct {
	Object    string `json:"object"`
	BuildID   string `json:"build_id"`
	Functions int    `json:"functions"` // found
	Counted   int    `json:"counted"`
	Called    int    `json:"called"`
	Calls     uint64 `json:"calls"`
	*SelfTime        // nil if no CPU time was sampled
}

// ByObject adds up the functions of each object, in the order of --sort:
// most calls, most functions ("size"), or name.
func (r *Report) ByObject(order string) []*Object {
	byKey := map[[2]string]*Object{}
	var all []*Object
	functions := map[*Object][]*Function{}
	for _, f := range r.Functions {
		k := [2]string{f.Object, f.BuildID}
		o := byKey[k]
		if o == nil {
			o = &Object{Object: f.Object, BuildID: f.BuildID}
			byKey[k] = o
			all = append(all, o)
		}
		if r.HasTime() {
			functions[o] = append(functions[o], f)
		}
		o.Functions++
		o.Calls += f.Calls
		if f.Counted() {
			o.Counted++
		}
		if f.Calls > 0 {
			o.Called++
		}
	}
	r.addObjectTimes(all, functions)
	slices.SortFunc(all, func(a, b *Object) int {
		var first int
		switch order {
		case "calls":
			first = cmp.Compare(b.Calls, a.Calls)
		case "size":
			first = cmp.Compare(b.Functions, a.Functions)
		case "time":
			first = cmp.Compare(b.self(), a.self())
		}
		return cmp.Or(first, strings.Compare(a.Object, b.Object), strings.Compare(a.BuildID, b.BuildID))
	})
	return all
}

// self is -1 where no time was sampled.
func (o *Object) self() int64 {
	if o.SelfTime == nil {
		return -1
	}
	return int64(o.Self)
}
