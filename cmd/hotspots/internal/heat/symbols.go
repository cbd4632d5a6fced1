package heat

import (
	"cmp"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Symbols are the names of what lies where in a program. Those of an object's variables are read
// when they are asked for.
type Symbols struct {
	Objects []layout.Object
	Name    func(i int) string // of a function
	Mangled bool               // names as they are in the file

	functions []place                    // by address
	owners    []uint16                   // by function: its object
	variables map[int][]objcode.Variable // by object
	askers    askers
}

type place struct {
	from, to uint64 // addresses
	i        int    // function
}

// Symbol is a function or a variable.
type Symbol struct {
	Name     string `json:"name"`
	Memory   string `json:"memory,omitempty"` // of Variables: the object's path
	From     uint64 `json:"from"`             // addresses
	To       uint64 `json:"to"`
	Variable bool   `json:"variable"`
	Constant bool   `json:"-"` // it is a variable that cannot be written
}

// NewSymbols are those of some functions and objects.
func NewSymbols(objects []layout.Object, functions []layout.Function, name func(int) string, mangled bool) *Symbols {
	y := &Symbols{Objects: objects, Name: name, Mangled: mangled, variables: map[int][]objcode.Variable{}}
	for i := range functions {
		f := &functions[i]
		at := objects[f.Object].Bias + f.Address
		y.owners = append(y.owners, f.Object)
		y.functions = append(y.functions, place{at, at + max(uint64(f.Size), 1), i})
	}
	slices.SortFunc(y.functions, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	return y
}

// SymbolsOf are those of a table.
func SymbolsOf(t *table.Table, mangled bool) *Symbols {
	return NewSymbols(t.Objects, t.Functions, func(i int) string {
		f := &t.Functions[i]
		return symname.Display(f.Name, t.Objects[f.Object].Path, f.Address, !mangled)
	}, mangled)
}

// Find are the functions and the variables in some addresses, and how many more there are.
func (y *Symbols) Find(from, to uint64, most int) (list []Symbol, more int) {
	add := func(f Symbol, name func() string) {
		if len(list) < most {
			f.Name = name()
			list = append(list, f)
		} else {
			more++
		}
	}
	i := sort.Search(len(y.functions), func(i int) bool { return y.functions[i].from >= from })
	if i > 0 && y.functions[i-1].to > from {
		i--
	}
	for ; i < len(y.functions) && y.functions[i].from < to; i++ {
		f := &y.functions[i]
		add(Symbol{From: f.from, To: f.to}, func() string { return y.Name(f.i) })
	}
	y.eachVariable(from, to, func(_ *layout.Object, v Symbol, name func() string) { add(v, name) })
	return list, more
}

// eachVariable tells of those that have a byte in some addresses, object by object.
func (y *Symbols) eachVariable(from, to uint64, tell func(o *layout.Object, v Symbol, name func() string)) {
	for n := range y.Objects {
		o := &y.Objects[n]
		if from >= o.High || to <= o.Low {
			continue
		}
		all := y.variablesOf(n)
		k := sort.Search(len(all), func(k int) bool { return all[k].Addr+o.Bias >= from })
		for k > 0 && all[k-1].Addr+all[k-1].Size+o.Bias > from {
			k--
		}
		for ; k < len(all) && all[k].Addr+o.Bias < to; k++ {
			v := &all[k]
			tell(o, Symbol{From: v.Addr + o.Bias, To: v.Addr + v.Size + o.Bias, Variable: true, Constant: v.Constant}, func() string { return symname.Display(v.Name, o.Path, v.Addr, !y.Mangled) })
		}
	}
}

// Names are those of what Find finds.
func (y *Symbols) Names(from, to uint64, most int) (names []string, more int) {
	list, more := y.Find(from, to, most)
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names, more
}
