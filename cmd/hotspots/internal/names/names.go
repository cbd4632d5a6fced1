// Package names gives names to functions of tables that have none: from separate files of
// debug information, from a user's file, and from other builds by their code (docs/names.md).
package names

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bodyhash"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Namer names functions.
type Namer struct {
	Find  *debugfile.Finder
	Files []*File
	// Mangled: names of D and Swift stay as they are.
	Mangled bool
	// Say is told what could not be read: a line each, once.
	Say func(format string, args ...any)

	symbols map[string]debugfile.Symbols // by build ID
	said    map[string]bool

	demangled map[string]string // names of D and Swift that were asked for; "" where there is no other
}

// Name names what it can of a table's functions that have no name, and what a file names by
// its address.
func (n *Namer) Name(t *table.Table) {
	byObject := make([][]int, len(t.Objects))
	for i := range t.Functions {
		byObject[t.Functions[i].Object] = append(byObject[t.Functions[i].Object], i)
	}
	for object, functions := range byObject {
		o := &t.Objects[object]
		n.byAddress(t, o, functions)
		nameless := false
		for _, i := range functions {
			nameless = nameless || t.Functions[i].Name == "" && t.Functions[i].Counted()
		}
		if nameless {
			n.bySymbols(t, o, functions)
			n.byCode(t, o, functions)
		}
	}
	if !n.Mangled {
		n.demangle(t)
	}
}

func (n *Namer) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if n.Say == nil || n.said[line] {
		return
	}
	if n.said == nil {
		n.said = map[string]bool{}
	}
	n.said[line] = true
	n.Say("%s", line)
}

// byAddress gives the names of files' lines with addresses.
func (n *Namer) byAddress(t *table.Table, o *layout.Object, functions []int) {
	for _, f := range n.Files {
		names := f.of(o)
		if len(names) == 0 {
			continue
		}
		known := map[uint64]bool{}
		for _, i := range functions {
			e := &t.Functions[i]
			if name, ok := names[e.Address]; ok {
				if e.Name != "" && e.Name != name {
					e.Aliases = append([]string{e.Name}, e.Aliases...)
				}
				e.Name, known[e.Address] = name, true
			}
		}
		for at := range names {
			if missing := len(names) - len(known); !known[at] {
				n.say("%s: %d of its names are of no function's entry in %s", f.path, missing, symname.Clean(o.Path))
				break
			}
		}
	}
}

// bySymbols gives the names of symbol tables.
func (n *Namer) bySymbols(t *table.Table, o *layout.Object, functions []int) {
	if n.Find == nil {
		return
	}
	symbols, known := n.symbols[o.BuildID]
	if !known || o.BuildID == "" {
		var err error
		if symbols, err = n.Find.Symbols(o, t.Realtime); err != nil {
			n.say("names of %s: %v", symname.Clean(o.Path), err)
		}
		if n.symbols == nil {
			n.symbols = map[string]debugfile.Symbols{}
		}
		n.symbols[o.BuildID] = symbols
	}
	for _, i := range functions {
		if f := &t.Functions[i]; f.Name == "" && len(symbols[f.Address]) > 0 {
			f.Name, f.Aliases = symbols[f.Address][0], symbols[f.Address][1:]
		}
	}
}

// byCode gives the names of functions with the same code in another build.
func (n *Namer) byCode(t *table.Table, o *layout.Object, functions []int) {
	var target []match.Function
	var numbers []int
	for _, f := range n.Files {
		for _, build := range f.builds {
			if target == nil {
				var err error
				if target, numbers, err = described(t, o, functions, t.Realtime); err != nil {
					n.say("names by code: %v", err)
					return
				}
			}
			for _, p := range sure(match.Functions(build.functions, target), target) {
				if e := &t.Functions[numbers[p.B]]; e.Name == "" {
					e.Name = build.functions[p.A].Name
				}
			}
		}
	}
}

// described are functions of an object by address, with their code, and their numbers in the table.
func described(t *table.Table, o *layout.Object, functions []int, since time.Time) (all []match.Function, numbers []int, err error) {
	file, err := objcode.LoadCounted(o, since)
	if err != nil {
		return nil, nil, err
	}
	functions = slices.Clone(functions)
	slices.SortFunc(functions, func(i, k int) int { return cmp.Compare(t.Functions[i].Address, t.Functions[k].Address) })
	var list []bodyhash.Function
	for _, i := range functions {
		if e := &t.Functions[i]; !e.Reason.Excluded() {
			list, numbers = append(list, bodyhash.Function{Address: e.Address, Size: e.Size}), append(numbers, i)
			all = append(all, match.Function{Address: e.Address, Size: uint64(e.Size), Name: e.Name})
		}
	}
	for i, b := range bodyhash.Of(file, list) {
		all[i].Body = b
	}
	return all, numbers, nil
}

// leastCode is how many instructions a function has that is known by its code alone: many
// programs have the smallest ones.
const leastCode = 5

// sure leaves those found by code that is large enough, or side by side with such ones on
// both sides.
func sure(pairs []match.Pair, b []match.Function) (all []match.Pair) {
	trusted := map[[2]int]bool{}
	slices.SortFunc(pairs, func(p, q match.Pair) int { return p.A - q.A })
	for _, step := range []int{-1, 1} { // from what is in front, then from what is behind
		for _, p := range pairs {
			if p.By == match.ByName || len(b[p.B].Body.Shape) >= leastCode || trusted[[2]int{p.A + step, p.B + step}] {
				trusted[[2]int{p.A, p.B}] = true
			}
		}
		slices.Reverse(pairs)
	}
	for _, p := range pairs {
		if p.By == match.ByBody && trusted[[2]int{p.A, p.B}] {
			all = append(all, p)
		}
	}
	return all
}
