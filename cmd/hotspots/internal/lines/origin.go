package lines

import (
	"debug/dwarf"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What was inlined refers to an entry with its name: in the same unit, in another one, as
// link-time optimisation and dwz write it, or in a file that several programs share (dwz -m).
// dwarf.Entry has an offset, and does not say of what; the form does, in the abbreviations.

const (
	formRefAddr     = 0x10 // DW_FORM_*, as all here
	formRefSup4     = 0x1c
	formImplicit    = 0x21
	formRefSup8     = 0x24
	formGNURefAlt   = 0x1f20
	mostUnits       = 64      // are kept in memory of each file
	mostAttributes  = 1 << 10 // of an abbreviation
	mostHops        = 4       // from one entry to the next
	mostOriginNames = 1 << 20 // are kept of each file
)

var errOriginPatience = errors.New("it takes too long to find what was inlined")

// space is the debug information of one file.
type space struct {
	sections map[string][]byte
	starts   []uint64 // of its units, rising; nil until they are asked for
	units    map[uint64]*unit
	names    map[uint64]string // by the offset of an entry
}

// unit is a unit that has been read.
type unit struct {
	of    *space
	start uint64 // offset in .debug_info
	info  []byte
	data  *dwarf.Data
	forms map[uint64][]uint64 // of the attributes, by abbreviation; nil until they are asked for
}

// origins finds names by reference.
type origins struct {
	own, shared *space
	missing     string // the file that is shared, if it is not there
	until       time.Time
	failed      error
}

func (f *File) origins(until time.Time) *origins {
	return &origins{own: newSpace(f.sections), shared: newSpace(f.shared), missing: f.missing, until: until}
}

func newSpace(sections map[string][]byte) *space {
	return &space{sections: sections, units: map[uint64]*unit{}, names: map[uint64]string{}}
}

// unit reads the unit that has an offset; nil if there is none.
func (s *space) unit(at uint64) *unit {
	if s.starts == nil {
		info := s.sections["info"]
		for start := uint64(0); start < uint64(len(info)); start += unitSize(info[start:]) {
			s.starts = append(s.starts, start)
			if unitSize(info[start:]) > uint64(len(info))-start {
				break
			}
		}
	}
	i, found := slices.BinarySearch(s.starts, at)
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	start := s.starts[i]
	if u := s.units[start]; u != nil {
		return u
	}
	info := s.sections["info"][start:]
	if size := unitSize(info); size <= uint64(len(info)) {
		u, err := s.read(start, info[:size])
		if err != nil {
			return nil
		}
		if len(s.units) == mostUnits {
			clear(s.units)
		}
		s.units[start] = u
		return u
	}
	return nil
}

func (s *space) read(start uint64, info []byte) (*unit, error) {
	d, err := data(s.sections, info)
	return &unit{of: s, start: start, info: info, data: d}, err
}

// form is that of an entry's attribute with a number; 0 if it is not known.
func (u *unit) form(e *dwarf.Entry, number int) uint64 {
	if u.forms == nil {
		u.forms = formsOf(abbreviations(u.info, u.of.sections["abbrev"]), u.info)
	}
	if uint64(e.Offset) >= uint64(len(u.info)) {
		return 0
	}
	c := &cursor{b: u.info[e.Offset:]}
	if forms := u.forms[c.uleb()]; number < len(forms) {
		return forms[number]
	}
	return 0
}

// formsOf reads a unit's abbreviations: a code, a tag, whether there are children, then
// attributes with their forms up to a pair of zeros.
func formsOf(all, info []byte) map[uint64][]uint64 {
	forms := map[uint64][]uint64{}
	at := abbreviationsAt(info)
	if at > uint64(len(all)) {
		return forms
	}
	for c := (&cursor{b: all[at:]}); ; {
		code := c.uleb()
		c.uleb()
		c.fixed(1)
		if code == 0 || c.bad {
			return forms
		}
		var list []uint64
		for len(list) < mostAttributes {
			attr, form := c.uleb(), c.uleb()
			if attr == 0 && form == 0 || c.bad {
				break
			}
			if form == formImplicit {
				c.uleb()
			}
			list = append(list, form)
		}
		forms[code] = list
	}
}

// name is the linkage name, or else the name, of what an entry is an instance of.
func (o *origins) name(u *unit, e *dwarf.Entry, hops int) string {
	if e.Tag == dwarf.TagSubprogram {
		for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, dwarf.AttrName} {
			if name := text(e.AttrField(attr), o.shared.sections); name != "" {
				return name
			}
		}
	}
	for i := range e.Field {
		f := &e.Field[i]
		if f.Attr != dwarf.AttrAbstractOrigin && f.Attr != dwarf.AttrSpecification || hops == mostHops {
			continue
		}
		if name := o.follow(u, f, u.form(e, i), hops); name != "" {
			return name
		}
	}
	return ""
}

// follow is the name of what an attribute refers to.
func (o *origins) follow(u *unit, f *dwarf.Field, form uint64, hops int) string {
	s := u.of
	at, ok := number(f.Val)
	if !ok {
		return ""
	}
	switch form {
	case formRefAddr:
	case formGNURefAlt, formRefSup4, formRefSup8:
		if s = o.shared; o.missing != "" {
			o.failed = fmt.Errorf("names of inlined functions are in %s, which is not there", o.missing)
			return ""
		}
	default:
		at += u.start
	}
	name, known := s.names[at]
	if known {
		return name
	}
	if time.Now().After(o.until) {
		o.failed = errOriginPatience
		return ""
	}
	if u.of != s || at-u.start >= uint64(len(u.info)) {
		u = s.unit(at)
	}
	if u != nil {
		r := u.data.Reader()
		r.Seek(dwarf.Offset(at - u.start))
		if next, err := r.Next(); err == nil && next != nil && next.Tag == dwarf.TagSubprogram {
			name = o.name(u, next, hops+1)
		}
	}
	if len(s.names) < mostOriginNames {
		s.names[at] = name
	}
	return name
}

// text is a string, which may be one of the file that is shared.
func text(f *dwarf.Field, shared map[string][]byte) string {
	if f == nil {
		return ""
	}
	if text, ok := f.Val.(string); ok {
		return text
	}
	if at, ok := number(f.Val); ok && (f.Class == dwarf.ClassStringAlt || f.Class == dwarf.ClassString) {
		if all := shared["str"]; at < uint64(len(all)) {
			return string((&cursor{b: all[at:]}).text())
		}
	}
	return ""
}

// number is an offset, of which package dwarf has a type for each form.
func number(v any) (uint64, bool) {
	switch v := v.(type) {
	case dwarf.Offset:
		return uint64(v), true
	case int64:
		return uint64(v), true
	case uint64:
		return v, true
	case uint32:
		return uint64(v), true
	}
	return 0, false
}

// supplement is the file that a file shares with others, and its build ID: from
// .gnu_debugaltlink, or, as DWARF 5 has it, .debug_sup.
func supplement(link, sup []byte) (name, id string) {
	c := &cursor{b: link}
	if len(link) == 0 {
		c.b = sup
		if version, shared := c.fixed(2), c.fixed(1); version != 5 || shared != 0 {
			return "", ""
		}
	}
	name = string(c.text())
	if len(link) == 0 {
		c.b = c.bytes(c.uleb())
	}
	if c.bad || len(c.b) == 0 {
		return "", ""
	}
	return name, hex.EncodeToString(c.b)
}
