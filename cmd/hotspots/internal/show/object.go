package show

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/x86"
)

// object is what the file of one says.
type object struct {
	number    int
	image     *objcode.Image
	data      *objcode.Data
	links     *objcode.Links
	functions []int             // of the table, by address
	stubs     map[uint64]string // PLT entries' symbols; empty: it is none
	guesses   map[uint64]string // by address of a function: a string beside a pointer to it
}

// object reads the file of object n.
func (v *View) object(n int) (*object, error) {
	if o := v.objects[n]; o != nil {
		return o, nil
	}
	o := &object{number: n, stubs: map[uint64]string{}}
	var err error
	if o.image, err = v.files.Image(n); err != nil {
		return nil, err
	}
	if o.data, err = objcode.LoadData(&v.table.Objects[n]); err != nil {
		return nil, err
	}
	if o.links, err = v.files.Links(n); err != nil {
		o.links = &objcode.Links{} // names of imports are missing
	}
	for i := range v.table.Functions {
		if int(v.table.Functions[i].Object) == n {
			o.functions = append(o.functions, i)
		}
	}
	slices.SortFunc(o.functions, func(a, b int) int { return cmp.Compare(v.table.Functions[a].Address, v.table.Functions[b].Address) })
	v.guess(o)
	v.objects[n] = o
	return o, nil
}

// guess notes the strings beside pointers to functions: tables of commands, of methods and of
// what scripts may call have names there, mostly in front.
func (v *View) guess(o *object) {
	o.guesses = map[uint64]string{}
	for at, to := range o.data.All() {
		if i, inside := v.at(o, to); i >= 0 && inside == 0 {
			before, behind := o.beside(at)
			if text := cmp.Or(before, behind); text != "" && (o.guesses[to] == "" || text < o.guesses[to]) {
				o.guesses[to] = text
			}
		}
	}
}

// beside are the strings that the words in front of a word and behind it point at.
func (o *object) beside(at uint64) (before, behind string) {
	const word = 8
	text := func(at uint64) string {
		to, ok := o.data.Pointer(at)
		if !ok {
			return ""
		}
		s, _ := o.data.Text(to)
		return s
	}
	return text(at - word), text(at + word)
}

// at is the function that an address is in, and how far; -1 if it is in none.
func (v *View) at(o *object, addr uint64) (function int, inside uint64) {
	all := v.table.Functions
	i := sort.Search(len(o.functions), func(i int) bool { return all[o.functions[i]].Address > addr })
	if i == 0 {
		return -1, 0
	}
	f := &all[o.functions[i-1]]
	if inside := addr - f.Address; inside < uint64(max(f.Size, 1)) {
		return o.functions[i-1], inside
	}
	return -1, 0
}

// stub is the symbol that the PLT entry at an address leads to; empty if it is none.
func (o *object) stub(addr uint64) string {
	name, ok := o.stubs[addr]
	if !ok {
		if slot, ok := o.image.StubSlot(addr); ok {
			name = o.links.Slots[slot].Name
		}
		o.stubs[addr] = name
	}
	return name
}

// name names an address of code, and says whether it is that of a symbol of another object,
// or of this one by way of the dynamic linker.
func (v *View) name(o *object, addr uint64) (name string, symbol bool) {
	i, inside := v.at(o, addr)
	if i < 0 || v.table.Functions[i].Reason.Excluded() {
		if name := o.stub(addr); name != "" {
			return v.clean(name), true
		}
	}
	switch {
	case i < 0:
		return fmt.Sprintf("%#x", addr), false
	case inside > 0:
		return fmt.Sprintf("%s+%#x", v.shown(i), inside), false
	}
	return v.shown(i), false
}

// instructions calls use with each instruction of function i.
func (v *View) instructions(o *object, i int, use func(at uint64, code []byte, in *x86.Inst)) {
	f := &v.table.Functions[i]
	decode(o.image, f.Address, f.Size, use)
}

// all calls use with each instruction of all functions, once: of those that overlap what
// is in front of the next.
func (v *View) all(o *object, use func(function int, at uint64, code []byte, in *x86.Inst)) {
	for k, i := range o.functions {
		f := &v.table.Functions[i]
		size := uint64(f.Size)
		if k+1 < len(o.functions) {
			size = min(size, v.table.Functions[o.functions[k+1]].Address-f.Address)
		}
		decode(o.image, f.Address, uint32(size), func(at uint64, code []byte, in *x86.Inst) { use(i, at, code, in) })
	}
}

func decode(m *objcode.Image, addr uint64, size uint32, use func(at uint64, code []byte, in *x86.Inst)) {
	var in x86.Inst
	for at, code := range m.Instructions(addr, size) {
		if x86.Decode(code, &in) == nil {
			use(at, code, &in)
		}
	}
}
