package lines

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// Function is what debug information tells of a function.
type Function struct {
	File    string
	Line    int      // of its entry; 0 if it is not known
	Inlined []string // names of those that were inlined into it, each once, as they come
}

// mostInlined is how many of a function are told.
const mostInlined = 1 << 10

// Functions are those at these addresses, as far as there is debug information of them. What
// cannot be read is left out, with an error.
func (f *File) Functions(entries []uint64) (all map[uint64]Function, err error) {
	entries = slices.Clone(entries)
	slices.Sort(entries)
	all = map[uint64]Function{}
	var failed error
	o := f.origins(time.Now().Add(patience))
	for start, info := uint64(0), f.sections["info"]; len(info) > 0; {
		size := unitSize(info)
		if size > uint64(len(info)) {
			failed = errors.New("damaged debug information: a unit is larger than all")
			break
		}
		if time.Now().After(o.until) {
			failed = errors.New("it takes too long to find all functions' lines")
			break
		}
		if err := f.addUnit(all, o, start, info[:size], entries); err != nil {
			failed = err // other units may be sound
		}
		start, info = start+size, info[size:]
	}
	if failed = cmp.Or(failed, o.failed); failed != nil {
		failed = fmt.Errorf("%s: %w", f.Path, failed)
	}
	return all, failed
}

// addUnit adds the functions of a unit. Package dwarf may panic over what is damaged.
func (f *File) addUnit(all map[uint64]Function, o *origins, start uint64, info []byte, entries []uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	u, err := o.own.read(start, info)
	if err != nil {
		return err
	}
	d, r := u.data, u.data.Reader()
	unit, err := r.Next()
	if err != nil || unit == nil || unit.Tag != dwarf.TagCompileUnit {
		return err
	}
	ranges, err := d.Ranges(unit)
	if err != nil {
		return err
	}
	ranges = disjoint(ranges)
	low, high, some := span(ranges, entries)
	if !some {
		return nil
	}
	rows, err := f.rows(d, unit, low, high+1)
	inlined := o.inlined(u, r, entries)
	for _, at := range ranges {
		for _, e := range entries[sort.Search(len(entries), func(i int) bool { return entries[i] >= at[0] }):] {
			if e >= at[1] {
				break
			}
			one := Function{Inlined: inlined[e]}
			one.File, one.Line = rows.Entry(e)
			all[e] = one
		}
	}
	return err
}

// disjoint are ranges without what others have, too: each address is looked at once.
func disjoint(ranges [][2]uint64) (all [][2]uint64) {
	slices.SortFunc(ranges, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	end := uint64(0)
	for _, r := range ranges {
		if r[0] = max(r[0], end); r[0] < r[1] {
			all, end = append(all, r), r[1]
		}
	}
	return all
}

// span is where the entries in some ranges begin and end.
func span(ranges [][2]uint64, entries []uint64) (low, high uint64, some bool) {
	for _, at := range ranges {
		i := sort.Search(len(entries), func(i int) bool { return entries[i] >= at[0] })
		k := sort.Search(len(entries), func(i int) bool { return entries[i] >= at[1] })
		if i >= k {
			continue
		}
		if !some || entries[i] < low {
			low = entries[i]
		}
		high, some = max(high, entries[k-1]), true
	}
	return low, high, some
}

// rows are the lines of a unit's addresses.
func (f *File) rows(d *dwarf.Data, unit *dwarf.Entry, low, high uint64) (Rows, error) {
	dir := text(unit.AttrField(dwarf.AttrCompDir), f.shared)
	absolute, err := check(f.sections, unit, len(dir))
	if err != nil {
		return nil, err
	}
	reader, err := d.LineReader(unit)
	if err != nil || reader == nil {
		return nil, err
	}
	return read(reader, paths{dir, map[*dwarf.LineFile]string{}, absolute}, low, high)
}

// inlined are the names of what was inlined into functions of a unit, by entry.
func (o *origins) inlined(u *unit, r *dwarf.Reader, entries []uint64) map[uint64][]string {
	all := map[uint64][]string{}
	var function uint64
	depth, end := 0, -1 // of the function that is being read; -1: none is
	for range u.info {  // each entry has a byte: package dwarf reads one that has no end for ever
		e, err := r.Next()
		if e == nil || err != nil {
			break
		}
		switch {
		case e.Tag == 0:
			if depth--; depth == end {
				end = -1
			}
			continue
		case e.Tag == dwarf.TagSubprogram && end < 0:
			low, ok := entryOf(u.data, e)
			if _, wanted := slices.BinarySearch(entries, low); ok && wanted && e.Children {
				function, end = low, depth
			}
		case e.Tag == dwarf.TagInlinedSubroutine && end >= 0:
			if name := o.name(u, e, 0); name != "" && len(all[function]) < mostInlined && !slices.Contains(all[function], name) {
				all[function] = append(all[function], name)
			}
		}
		if e.Children {
			depth++
		}
	}
	return all
}

func entryOf(d *dwarf.Data, e *dwarf.Entry) (uint64, bool) {
	if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok {
		return low, true
	}
	ranges, err := d.Ranges(e)
	if err != nil || len(ranges) == 0 {
		return 0, false
	}
	return ranges[0][0], true
}
