package regions

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/x86"
)

// places finds what lies where in a program.
type places struct {
	table   *table.Table
	mangled bool
	byPlace map[uint16][]int // by object: its functions, by address
	images  map[uint16]*objcode.Image
	files   map[uint16]*objcode.Object // of objects that are not counted
	symbols map[uint16]debugfile.Symbols
}

// unknown is an object, or a function, that is not known.
const unknown = "?"

// place is an instruction.
type place struct {
	address          uint64 // in its object's file
	object, function string
	code             string
}

func newPlaces(t *table.Table, mangled bool) *places {
	p := &places{table: t, mangled: mangled, byPlace: map[uint16][]int{}, images: map[uint16]*objcode.Image{}, files: map[uint16]*objcode.Object{}, symbols: map[uint16]debugfile.Symbols{}}
	for i := range t.Functions {
		o := t.Functions[i].Object
		p.byPlace[o] = append(p.byPlace[o], i)
	}
	for _, list := range p.byPlace {
		slices.SortFunc(list, func(i, k int) int {
			if t.Functions[i].Address < t.Functions[k].Address {
				return -1
			}
			return 1
		})
	}
	return p
}

// before is how many functions of a list begin at an address or in front of it.
func (p *places) before(list []int, at uint64) int {
	n, _ := slices.BinarySearchFunc(list, at+1, func(f int, to uint64) int {
		if p.table.Functions[f].Address < to {
			return -1
		}
		return 1
	})
	return n
}

// function is the number of the one at an address of the program; -1: it is in an object that is
// not counted, or in none of its functions. known: it is in an object.
func (p *places) function(at uint64) (n int, known bool) {
	for i := range p.table.Objects {
		o := &p.table.Objects[i]
		if at < o.Low || at >= o.High {
			continue
		}
		list := p.byPlace[uint16(i)]
		if n := p.before(list, at-o.Bias); n > 0 {
			return list[n-1], true
		}
		return -1, true
	}
	return -1, false
}

// named is the function at an address of an object that is not counted.
func (p *places) named(object uint16, at uint64) string {
	o := &p.table.Objects[object]
	f, looked := p.files[object]
	if !looked {
		f, _ = objcode.LoadFile(o.Path) // without it there are no names
		p.files[object] = f
	}
	name, inside := "", at
	if f != nil {
		n, _ := slices.BinarySearchFunc(f.Functions, at+1, func(f elfscan.Function, to uint64) int { return cmp.Compare(f.Addr, to) })
		if n > 0 && at < f.Functions[n-1].Addr+f.Functions[n-1].Size {
			name, at = f.Functions[n-1].Name, f.Functions[n-1].Addr
		}
	}
	if name == "" {
		symbols, looked := p.symbols[object]
		if !looked {
			of := *o
			if f != nil {
				of.BuildID = hex.EncodeToString(f.BuildID)
			}
			symbols, _ = (&debugfile.Finder{Root: debugfile.System}).Symbols(&of, p.table.Realtime)
			p.symbols[object] = symbols
		}
		for start, all := range symbols { // unwind data may tell of several as one
			if start >= at && start <= inside && len(all) > 0 {
				name, at = all[0], start
			}
		}
	}
	return symname.Display(name, o.Path, at, !p.mangled)
}

// of is the place at an address of the program.
func (p *places) of(at uint64) place {
	for i := range p.table.Objects {
		o := &p.table.Objects[i]
		if at < o.Low || at >= o.High {
			continue
		}
		r := place{address: at - o.Bias, object: symname.Clean(o.Path), function: unknown}
		list := p.byPlace[uint16(i)]
		if n := p.before(list, r.address); n > 0 {
			f := &p.table.Functions[list[n-1]]
			r.function = symname.Display(f.Name, o.Path, f.Address, !p.mangled)
		} else if len(list) == 0 {
			r.function = p.named(uint16(i), r.address)
		}
		m, looked := p.images[uint16(i)]
		if !looked {
			m, _ = objcode.Load(o) // without it there is no code to show
			p.images[uint16(i)] = m
		}
		if f := p.files[uint16(i)]; m == nil && f != nil {
			m = f.Image
		}
		if m != nil {
			for _, code := range m.Instructions(r.address, x86.MaxLen) {
				r.code = x86.Text(code, r.address)
				break
			}
		}
		return r
	}
	return place{address: at, object: unknown, function: unknown}
}
