package heat

import (
	"debug/elf"
	"path/filepath"

	"github.com/dynprof/dynprof/internal/plancache/store"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// heap is what the kernel calls memory that brk(2) gave, and what of an object's data is below it.
const heap = "[heap]"

// extent is where an object lies.
type extent struct {
	path      string
	low, high uint64
	bss       uint64 // where memory behind its file has been given to it up to now; 0: its file's is not mapped
}

// Named is what is mapped with more of names than the kernel has for it: memory without a file behind an
// object's data is its own (.bss), as far as the object reaches; and what is dynprof's own is said to be
// so, of the table at that path.
func Named(list []heat.Mapping, objects []layout.Object, table string) []heat.Mapping {
	m := heat.Maps{Mappings: append([]heat.Mapping(nil), list...)}
	if path, err := filepath.Abs(table); err == nil {
		table = path
	}
	m.MarkOurs(heat.Own{Table: table, Begun: &heat.Maps{Mappings: reserves(list, objects)}})
	return withData(m.Mappings, extentsOf(m.Mappings, objects))
}

// reserves are the mappings that copies of the objects' functions lie in.
func reserves(list []heat.Mapping, objects []layout.Object) (some []heat.Mapping) {
	for i := range list {
		for k := range objects {
			if at := objects[k].Arena; at >= list[i].Start && at < list[i].End {
				some = append(some, list[i])
			}
		}
	}
	return some
}

// extentsOf are those of the objects, and of our library, which is in no table, by its file.
func extentsOf(list []heat.Mapping, objects []layout.Object) (all []extent) {
	for i := range objects {
		all = append(all, extent{path: objects[i].Path, low: objects[i].Low, high: objects[i].High})
	}
	for i := range list {
		if one := &list[i]; one.Ours && one.Path != "" && one.Path[0] == '/' && one.Offset == 0 && !one.IsShared() {
			if size := sizeOf(one.Path); size > 0 {
				all = append(all, extent{path: one.Path, low: one.Start, high: one.Start + size})
			}
		}
	}
	return all
}

// sizeOf is how much memory a shared library takes; 0 if the file is none, or is not there.
func sizeOf(path string) (size uint64) {
	defer func() { recover() }() // debug/elf may panic over a file that is damaged
	f, err := elf.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			size = max(size, p.Vaddr+p.Memsz)
		}
	}
	return size
}

// withData gives objects the memory behind their data, by address. What the kernel has made one with
// what comes behind it is divided: of what is in memory the object's part is told first.
func withData(list []heat.Mapping, objects []extent) (all []heat.Mapping) {
	for _, one := range list {
		o := around(objects, one.Start)
		switch {
		case o == nil:
		case one.Path == o.path || store.IsCopy(filepath.Base(one.Path)): // the latter with its text changed
			one.Path, o.bss = o.path, one.End
		case (one.Path == "" || one.Path == heap) && o.bss == one.Start:
			rest := one
			one.Path, one.End = o.path, min(one.End, (o.high+heat.PageSize-1)&^(heat.PageSize-1))
			one.Ours = ours(all, o.path)
			one.Resident = min(one.Resident, one.End-one.Start)
			if o.bss = one.End; rest.End > one.End {
				rest.Start, rest.Resident = one.End, rest.Resident-one.Resident
				all = append(all, one)
				one = rest
			}
		}
		all = append(all, one)
	}
	return all
}

// ours reports whether the last mapping of that path is dynprof's own.
func ours(list []heat.Mapping, path string) bool {
	n := len(list)
	return n > 0 && list[n-1].Path == path && list[n-1].Ours
}

// around is the object that an address lies in.
func around(objects []extent, at uint64) *extent {
	for i := range objects {
		if o := &objects[i]; at >= o.low && at < (o.high+heat.PageSize-1)&^(heat.PageSize-1) {
			return o
		}
	}
	return nil
}
