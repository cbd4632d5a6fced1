package show

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/x86"
)

// Kinds of references.
const (
	kindCall    = "call"    // by a call instruction, by address or by symbol
	kindJump    = "jump"    // out of the function
	kindAddress = "address" // of a function is taken
	kindString  = "string"
	kindImport  = "import"  // data of another object, or the address of a symbol
	kindPointer = "pointer" // in data
)

// Reference is what an instruction of the function refers to.
type Reference struct {
	At      report.Address  `json:"at"`
	Kind    string          `json:"kind"`
	Address *report.Address `json:"address"` // null: it is a symbol's, which the dynamic linker looks up
	Name    string          `json:"name"`    // of the function or symbol
	Text    string          `json:"text"`    // of the string; of a function its guess
}

// Referrer is who refers to the function, in its object.
type Referrer struct {
	Kind    string         `json:"kind"`
	Address report.Address `json:"address"` // of the function that does; of the word that points at it
	Name    string         `json:"name"`
	Text    string         `json:"text"`  // the function's guess; the string in front of the pointer, or behind it
	Sites   int            `json:"sites"` // instructions that do
}

// clean is a symbol as it is shown.
func (v *View) clean(symbol string) string { return symname.Display(symbol, "", 0, !v.mangled) }

// refer is what an instruction of function i refers to outside of it; false if that is
// nothing that has a name.
func (v *View) refer(o *object, i int, at uint64, code []byte, in *x86.Inst) (Reference, bool) {
	f := &v.table.Functions[i]
	r := Reference{At: report.Address(at)}
	if to := in.BranchTarget(code, at); to != 0 {
		if to-f.Address < uint64(f.Size) && in.Kind != x86.Call {
			return r, false
		}
		return v.branch(o, r, to, in.Kind == x86.Call), true
	}
	to, lea := uint64(0), in.Map == x86.MapLegacy && in.Op == 0x8d
	switch {
	case in.RIPRel():
		to = in.RIPTarget(code, at)
	case o.data.Fixed && in.ImmSize == 4: // an address below 2 GiB
		to, lea = uint64(binary.LittleEndian.Uint32(code[in.ImmOff:])), true
	default:
		return r, false
	}
	if in.Kind == x86.CallInd || in.Kind == x86.JmpInd {
		if s := o.links.Slots[to]; s.Name != "" {
			r.Kind, r.Name = kindJump, v.clean(s.Name)
			if in.Kind == x86.CallInd {
				r.Kind = kindCall
			}
			return r, true
		}
	}
	return v.operand(o, r, to, lea)
}

// branch is a call, or a jump out of the function, to an address.
func (v *View) branch(o *object, r Reference, to uint64, call bool) Reference {
	r.Kind = kindJump
	if call {
		r.Kind = kindCall
	}
	var symbol bool
	if r.Name, symbol = v.name(o, to); !symbol {
		r.Address, r.Text = (*report.Address)(&to), symname.Clean(o.guesses[to])
	}
	return r
}

// operand is what is at an address, or, where an instruction does not take the address
// itself, what the word there points at.
func (v *View) operand(o *object, r Reference, to uint64, itself bool) (Reference, bool) {
	symbol := o.data.Copies[to]
	if symbol == "" && !itself {
		symbol = o.links.Slots[to].Name
	}
	if symbol != "" {
		r.Kind, r.Name = kindImport, v.clean(symbol)
		return r, true
	}
	if !itself {
		pointer, ok := o.data.Pointer(to)
		if !ok {
			return r, false
		}
		to = pointer
	}
	r.Address = (*report.Address)(&to)
	if i, inside := v.at(o, to); i >= 0 && inside == 0 {
		r.Kind, r.Name, r.Text = kindAddress, v.shown(i), symname.Clean(o.guesses[to])
		return r, true
	}
	if text, ok := o.data.Text(to); ok {
		r.Kind, r.Text = kindString, text
		return r, true
	}
	return r, false
}

// referrers are who in its object refers to function i: the code of all functions is read,
// and the pointers in data.
func (v *View) referrers(o *object, i int) []Referrer {
	f := &v.table.Functions[i]
	names := map[string]bool{}
	for _, n := range append([]string{f.Name}, f.Aliases...) {
		names[n] = n != ""
	}
	is := func(to uint64) bool { // also by way of the PLT
		if to == f.Address {
			return true
		}
		if len(o.links.Exports[f.Name]) == 0 || to == 0 {
			return false
		}
		other, inside := v.at(o, to)
		known := other >= 0 && inside == 0 && !v.table.Functions[other].Reason.Excluded()
		return !known && names[o.stub(to)]
	}
	type key struct {
		function int
		kind     string
	}
	sites := map[key]int{}
	v.all(o, func(other int, at uint64, code []byte, in *x86.Inst) {
		to := in.BranchTarget(code, at)
		switch {
		case to != 0 && other != i && in.Kind != x86.Call && is(to):
			sites[key{other, kindJump}]++
		case to != 0 && in.Kind == x86.Call && is(to):
			sites[key{other, kindCall}]++
		case to == 0 && in.RIPRel() && in.RIPTarget(code, at) == f.Address,
			to == 0 && o.data.Fixed && in.ImmSize == 4 && uint64(binary.LittleEndian.Uint32(code[in.ImmOff:])) == f.Address:
			sites[key{other, kindAddress}]++
		}
	})
	all := []Referrer{}
	for k, n := range sites {
		e := &v.table.Functions[k.function]
		all = append(all, Referrer{k.kind, report.Address(e.Address), v.shown(k.function), symname.Clean(o.guesses[e.Address]), n})
	}
	for at, to := range o.data.All() {
		if to == f.Address {
			before, behind := o.beside(at)
			all = append(all, Referrer{Kind: kindPointer, Address: report.Address(at), Text: cmp.Or(before, behind)})
		}
	}
	slices.SortFunc(all, func(a, b Referrer) int {
		return cmp.Or(cmp.Compare(order[a.Kind], order[b.Kind]), cmp.Compare(named(b.Name), named(a.Name)), cmp.Compare(a.Address, b.Address))
	})
	return all
}

// order is that of kinds, as they are shown.
var order = map[string]int{kindPointer: 0, kindString: 1, kindImport: 2, kindAddress: 3, kindCall: 4, kindJump: 5}
