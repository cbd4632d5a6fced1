package table

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// readLedger reads objects, functions and their names. Each section is read
// in pieces and every entry checked as it comes, and no genuine section has
// an entry of zeros: a hole that pretends to be a huge section ends the read
// at its first piece.
func (t *Table) readLedger() error {
	names, err := t.readStrings()
	if err != nil {
		return err
	}
	if err := t.readObjects(names.at); err != nil {
		return err
	}
	aliases, err := t.readAliases(names)
	if err != nil {
		return err
	}
	if err := t.readFunctions(names, aliases); err != nil {
		return err
	}
	t.indexCounters()
	return nil
}

// stringTable is the strings section: one string, so that names share it.
type stringTable string

func (t *Table) readStrings() (stringTable, error) {
	var all strings.Builder
	last := byte(1) // the first byte alone is a NUL that ends nothing
	err := t.EachChunk(t.Geometry.Strings, func(b []byte) error {
		if last == 0 && b[0] == 0 || bytes.Contains(b, []byte{0, 0}) {
			return layout.Corrupt("an empty string among the strings")
		}
		last = b[len(b)-1]
		all.Write(b)
		return nil
	})
	return stringTable(all.String()), err
}

// at returns the string at off; 0 is the empty one.
func (s stringTable) at(off uint32) (string, error) {
	if off == 0 {
		return "", nil
	}
	n, err := longest(off, uint32(len(s)))
	if err != nil {
		return "", err
	}
	return ended(string(s[off:off+n]), off)
}

// longest is how many bytes of all there may be of a string at off, its NUL included.
func longest(off, all uint32) (uint32, error) {
	if off >= all {
		return 0, layout.Corrupt("string at %d of %d", off, all)
	}
	return min(all-off, layout.MaxString+1), nil
}

// ended cuts the string at off where it ends.
func ended(tail string, off uint32) (string, error) {
	s, _, ok := strings.Cut(tail, "\x00")
	if !ok {
		return "", layout.Corrupt("string at %d has no end", off)
	}
	return s, nil
}

func (t *Table) readObjects(name func(offset uint32) (string, error)) error {
	return t.EachEntry(t.Geometry.Objects, func(b []byte) error {
		if layout.AllZero(b[:layout.LeastObjEntrySize]) {
			return layout.Corrupt("object %d is empty", len(t.Objects))
		}
		o := layout.DecodeObject(b)
		var err error
		if o.Path, err = name(le.Uint32(b[layout.ObjPath:])); err != nil {
			return err
		}
		if o.BuildID, err = name(le.Uint32(b[layout.ObjBuildID:])); err != nil {
			return err
		}
		t.Objects = append(t.Objects, o)
		return nil
	})
}

// aliasTable is the aliases section. Lists are slices of names.
type aliasTable struct {
	names []string // "" where a list ends
	ends  []uint32 // indices of the ends, rising
}

func (t *Table) readAliases(names stringTable) (*aliasTable, error) {
	a := &aliasTable{}
	err := t.EachEntry(t.Geometry.Aliases, func(b []byte) error {
		name, err := names.at(le.Uint32(b))
		if err != nil {
			return err
		}
		if i := uint32(len(a.names)); name == "" {
			if n := len(a.ends); n > 0 && a.ends[n-1]+1 == i {
				return layout.Corrupt("alias list at %d is empty", i)
			}
			a.ends = append(a.ends, i)
		}
		a.names = append(a.names, name)
		return nil
	})
	return a, err
}

// list returns the list that starts at index i; 0 is none.
func (a *aliasTable) list(i uint32) ([]string, error) {
	if i == 0 {
		return nil, nil
	}
	end, found := slices.BinarySearch(a.ends, i)
	if found || end == len(a.ends) {
		return nil, layout.Corrupt("no alias list at %d", i)
	}
	return a.names[i:a.ends[end]:a.ends[end]], nil
}

func (t *Table) readFunctions(names stringTable, aliases *aliasTable) error {
	t.Functions = make([]layout.Function, 0, min(t.Geometry.Functions.Count, layout.Chunk/layout.FnEntrySize))
	return t.EachEntry(t.Geometry.Functions, func(b []byte) error {
		if layout.AllZero(b[:layout.FnEntrySize]) {
			return layout.Corrupt("function %d is empty", len(t.Functions))
		}
		f := layout.DecodeFunction(b)
		if int(f.Object) >= len(t.Objects) || f.Counter != layout.NoCounter && f.Counter >= t.Counters {
			return layout.Corrupt("function %d has object %d of %d, counter %d of %d",
				len(t.Functions), f.Object, len(t.Objects), f.Counter, t.Counters)
		}
		var err error
		if f.Name, err = names.at(le.Uint32(b[layout.FnName:])); err != nil {
			return err
		}
		if f.Aliases, err = aliases.list(le.Uint32(b[layout.FnAliases:])); err != nil {
			return err
		}
		t.Functions = append(t.Functions, f)
		return nil
	})
}

// indexCounters sorts the functions that have a counter by it, so that a row
// is read in one pass and memory follows the functions, not the counters that
// a header claims.
func (t *Table) indexCounters() {
	for i := range t.Functions {
		if t.Functions[i].Counter != layout.NoCounter {
			t.byCounter = append(t.byCounter, uint32(i))
		}
	}
	slices.SortFunc(t.byCounter, func(a, b uint32) int {
		return cmp.Compare(t.Functions[a].Counter, t.Functions[b].Counter)
	})
}
