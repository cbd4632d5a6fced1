package callgraph

import (
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// resolver tells which function an address, or a word of a GOT, stands for.
type resolver struct {
	objects   []layout.Object
	functions []layout.Function
	files     Files
	known     map[Place]int             // numbers in functions
	scope     []int                     // objects that symbols are looked for in, in this order
	late      []int                     // those that came later, of each file the first
	again     map[int]bool              // of those: it came more than once
	names     map[int]map[uint64]string // exported symbols of objects, by address, as far as they were asked for
}

// callee is a function that is called.
type callee struct {
	Place
	symbol string // by which it was found; empty if it was by its address
}

func calleeOf(p Place) callee { return callee{Place: p} }

func newResolver(objects []layout.Object, functions []layout.Function, files Files) *resolver {
	r := &resolver{objects: objects, functions: functions, files: files, known: map[Place]int{}, names: map[int]map[uint64]string{}, again: map[int]bool{}}
	for i := range functions {
		if f := &functions[i]; !f.Reason.Excluded() {
			r.known[entryOf(f)] = i
		}
	}
	for i := range objects {
		o := &objects[i]
		if o.Flags&layout.ObjLate != 0 {
			if first := slices.IndexFunc(r.late, func(k int) bool { return r.isSame(i, k) }); first < 0 {
				r.late = append(r.late, i)
			} else {
				r.again[r.late[first]] = true
			}
		} else if !strings.HasPrefix(o.Path, "[") { // no file: the vDSO
			r.scope = append(r.scope, i)
		}
	}
	return r
}

// at is the function whose entry is at an address, or which the PLT entry there stands for.
func (r *resolver) at(p Place) (callee, bool) {
	if _, ok := r.known[p]; ok {
		return calleeOf(p), true
	}
	img, err := r.files.Image(p.Object)
	if err != nil {
		return callee{}, false
	}
	slot, ok := img.StubSlot(p.Address)
	if !ok {
		return callee{}, false
	}
	return r.behind(Place{Object: p.Object, Address: slot})
}

// pointed is the function at a run address that an object has called by a pointer; false if
// no object is there. Where several were, one after the other, as of libraries that are closed,
// the caller's own was there; of others it is not told which.
func (r *resolver) pointed(addr uint64, by int) (callee, bool) {
	isIn := func(i int) bool { return addr >= r.objects[i].Low && addr < r.objects[i].High }
	at := by
	if !isIn(by) {
		at = -1
		for i := range r.objects {
			if !isIn(i) {
				continue
			}
			if at >= 0 {
				return callee{}, false
			}
			at = i
		}
	}
	if at < 0 {
		return callee{}, false
	}
	p := Place{Object: at, Address: addr - r.objects[at].Bias}
	if c, ok := r.at(p); ok {
		return c, true
	}
	return callee{p, r.exported(p)}, true
}

// exported is a symbol of its object that is at an address, the first by name; empty if
// there is none.
func (r *resolver) exported(p Place) (symbol string) {
	names, ok := r.names[p.Object]
	if !ok {
		names = map[uint64]string{}
		if links, err := r.files.Links(p.Object); err == nil {
			for name, exports := range links.Exports {
				for _, e := range exports {
					if old, is := names[e.Address]; !is || name < old {
						names[e.Address] = name
					}
				}
			}
		}
		r.names[p.Object] = names
	}
	return names[p.Address]
}

// behind is the function that the dynamic linker has put into a word of a GOT, by what its
// relocation asks for: glibc, elf/dl-lookup.c. It is found if all objects up to the first
// that has the symbol can be read.
func (r *resolver) behind(slot Place) (callee, bool) {
	links, err := r.files.Links(slot.Object)
	if err != nil {
		return callee{}, false
	}
	ref, ok := links.Slots[slot.Address]
	switch {
	case !ok:
		return callee{}, false
	case ref.Own != 0:
		return callee{Place{Object: slot.Object, Address: ref.Own}, ref.Name}, true
	}
	if r.objects[slot.Object].Flags&layout.ObjLate != 0 && !links.Symbolic {
		return r.asked(slot.Object, ref.Name, ref.Version)
	}
	scope := r.scope
	if links.Symbolic {
		scope = append([]int{slot.Object}, scope...)
	}
	for _, i := range scope {
		links, err := r.files.Links(i)
		if err != nil {
			return callee{}, false
		}
		switch e, found := match(links.Exports[ref.Name], ref.Version); {
		case found == unsure:
			return callee{}, false
		case found == yes:
			return callee{Place{i, e.Address, e.Indirect}, ref.Name}, true
		}
	}
	return callee{}, false
}

// asked is the function of a symbol that an object which came later asks for. In which order
// the dynamic linker looked depends on how it was loaded: so one object alone must have it.
func (r *resolver) asked(by int, name, version string) (found callee, ok bool) {
	at := -1
	for _, i := range slices.Concat(r.scope, r.late) {
		links, err := r.files.Links(i)
		if err != nil {
			return callee{}, false
		}
		e, is := match(links.Exports[name], version)
		if is == no {
			continue
		}
		if is == unsure || at >= 0 {
			return callee{}, false
		}
		at, found = i, callee{Place{i, e.Address, e.Indirect}, name}
	}
	switch {
	case at < 0:
		return callee{}, false
	case r.isSame(at, by):
		found.Object = by
	case r.again[at]:
		return callee{}, false
	}
	return found, true
}

// isSame reports whether two objects are of one file.
func (r *resolver) isSame(i, k int) bool {
	a, b := &r.objects[i], &r.objects[k]
	return a.Path == b.Path && a.BuildID == b.BuildID
}

type answer uint8

const (
	no answer = iota
	yes
	unsure
)

// match is which of an object's definitions of a symbol is the one asked for. Who asks for
// no version gets one without. Which of several, or of those with a version, the dynamic
// linker takes is left open.
func match(exports []objcode.Export, version string) (best objcode.Export, found answer) {
	for _, e := range exports {
		fits := !e.Versioned || e.Version == version || e.Version == "" && !e.Hidden
		switch {
		case fits && found == no:
			best, found = e, yes
		case fits && e.Address != best.Address, version == "":
			return objcode.Export{}, unsure
		}
	}
	return best, found
}
