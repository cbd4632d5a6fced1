package regions

import (
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
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
}

// place is an instruction.
type place struct {
	address          uint64 // in its object's file
	object, function string
	code             string
}

func newPlaces(t *table.Table, mangled bool) *places {
	p := &places{table: t, mangled: mangled, byPlace: map[uint16][]int{}, images: map[uint16]*objcode.Image{}}
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

// of is the place at an address of the program.
func (p *places) of(at uint64) place {
	for i := range p.table.Objects {
		o := &p.table.Objects[i]
		if at < o.Low || at >= o.High {
			continue
		}
		r := place{address: at - o.Bias, object: symname.Clean(o.Path), function: "?"}
		list := p.byPlace[uint16(i)]
		n, _ := slices.BinarySearchFunc(list, r.address+1, func(f int, to uint64) int {
			if p.table.Functions[f].Address < to {
				return -1
			}
			return 1
		})
		if n > 0 {
			f := &p.table.Functions[list[n-1]]
			r.function = symname.Display(f.Name, o.Path, f.Address, !p.mangled)
		}
		m, looked := p.images[uint16(i)]
		if !looked {
			m, _ = objcode.Load(o) // without it there is no code to show
			p.images[uint16(i)] = m
		}
		if m != nil {
			for _, code := range m.Instructions(r.address, x86.MaxLen) {
				r.code = x86.Text(code, r.address)
				break
			}
		}
		return r
	}
	return place{address: at, object: "?", function: "?"}
}
