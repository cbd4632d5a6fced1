package lines

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Place is a line of a source file; 0: it is not known.
type Place struct {
	File string
	Line int
}

// At are the source lines of instructions at some addresses, as far as there is debug information of
// them. What cannot be read is left out, with an error.
func (f *File) At(addresses []uint64) (all map[uint64]Place, err error) {
	addresses = slices.Clone(addresses)
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	all = map[uint64]Place{}
	end := time.Now().Add(patience)
	for info := f.sections["info"]; len(info) > 0 && len(all) < len(addresses); {
		size := unitSize(info)
		if size > uint64(len(info)) {
			err = errors.New("damaged debug information: a unit is larger than all")
			break
		}
		if time.Now().After(end) {
			err = errors.New("it takes too long to find all lines")
			break
		}
		if failed := f.addLines(all, info[:size], addresses); failed != nil {
			err = failed // other units may be sound
		}
		info = info[size:]
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Path, err)
	}
	return all, err
}

// addLines adds those of a unit. Package dwarf may panic over what is damaged.
func (f *File) addLines(all map[uint64]Place, info []byte, addresses []uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	d, err := data(f.sections, info)
	if err != nil {
		return err
	}
	unit, err := d.Reader().Next()
	if err != nil || unit == nil || unit.Tag != dwarf.TagCompileUnit {
		return err
	}
	ranges, err := d.Ranges(unit)
	if err != nil {
		return err
	}
	low, high, some := span(disjoint(ranges), addresses)
	if !some {
		return nil
	}
	rows, err := f.rows(d, unit, low, high+1)
	for _, at := range addresses {
		if file, line := rows.At(at); line > 0 {
			all[at] = Place{file, line}
		}
	}
	return err
}
