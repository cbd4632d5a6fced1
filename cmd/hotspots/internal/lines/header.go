package lines

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"path"
)

// Package dwarf makes room for as many files as a line table claims to have, and a path for
// each. So what it is given is looked at before.

const (
	maxTable = 64 << 20 // bytes of a unit's line table
	maxPaths = 64 << 20 // bytes of the paths in it
)

var errTable = errors.New("damaged line table")

// cursor reads a line table. Behind its end there are zeros, and it is bad.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) fixed(n uint64) uint64 {
	var word [8]byte
	copy(word[:], c.bytes(n))
	return binary.LittleEndian.Uint64(word[:])
}

// word passes over the length of a unit and returns how many bytes its offsets have.
func (c *cursor) word() uint64 {
	if c.fixed(4) == 0xffffffff {
		c.fixed(8)
		return 8
	}
	return 4
}

// uleb reads a ULEB128, or passes over an SLEB128.
func (c *cursor) uleb() (v uint64) {
	for shift := 0; !c.bad; shift += 7 {
		b := c.fixed(1)
		if v |= b & 0x7f << shift; b < 0x80 {
			break
		}
	}
	return v
}

// text reads a string.
func (c *cursor) text() []byte {
	n := bytes.IndexByte(c.b, 0)
	if n < 0 {
		c.b, c.bad = nil, true
		return nil
	}
	return c.bytes(uint64(n + 1))[:n]
}

// header is what of a line table's header leads to its parts.
type header struct {
	version  uint64
	word     uint64 // bytes of an offset
	lengths  []byte // of the standard opcodes, from 1 on
	program  []byte
	sections map[string][]byte
	paths    int // bytes of the paths so far
	longest  int // directory
	absolute map[string]string
}

// check refuses the line table of a unit that would take package dwarf too much memory. dir
// is the length of the unit's directory. It returns the files that are absolute, but have a directory,
// as clang writes them, by what package dwarf makes of the two.
func check(sections map[string][]byte, unit *dwarf.Entry, dir int) (absolute map[string]string, err error) {
	at, ok := unit.Val(dwarf.AttrStmtList).(int64)
	table := sections["line"]
	if !ok {
		return nil, nil // it has none
	}
	if at < 0 || at > int64(len(table)) {
		return nil, errTable
	}
	table = table[at:]
	size := unitSize(table)
	if size > uint64(len(table)) {
		return nil, errTable
	}
	if size > maxTable {
		return nil, errors.New("the line table is too large")
	}
	c := &cursor{b: table[:size]}
	h := &header{sections: sections, longest: dir, absolute: map[string]string{}}
	h.begin(c)
	if h.version >= 5 {
		h.listed(c)
	} else {
		h.inline(c, dir)
	}
	if c.bad || h.paths > maxPaths || definesFiles(&cursor{b: h.program}, h.lengths) {
		return nil, errTable
	}
	return h.absolute, nil
}

// begin reads up to the directories.
func (h *header) begin(c *cursor) {
	h.word = c.word()
	if h.version = c.fixed(2); h.version >= 5 {
		c.fixed(2) // sizes of an address and a selector
	}
	if length := c.fixed(h.word); length <= uint64(len(c.b)) {
		h.program = c.b[length:]
	} else {
		c.bad = true
	}
	c.fixed(1)
	if h.version >= 4 {
		c.fixed(1)
	}
	c.fixed(3) // whether rows are statements, line base and range
	h.lengths = c.bytes(max(c.fixed(1), 1) - 1)
}

// path notes a path or a directory, which may be joined to the longest directory.
func (h *header) path(c *cursor, n int) {
	if h.paths += n + h.longest; h.paths > maxPaths {
		c.bad = true
	}
}

// inline reads the directories and files of versions 2 to 4.
func (h *header) inline(c *cursor, dir int) {
	longest := 0
	for n := len(c.text()); n > 0 && !c.bad; n = len(c.text()) {
		h.path(c, n)
		longest = max(longest, n+1+dir)
	}
	h.longest = max(h.longest, longest)
	for n := len(c.text()); n > 0 && !c.bad; n = len(c.text()) {
		h.path(c, n)
		c.uleb()
		c.uleb()
		c.uleb()
	}
}

// listed reads those of version 5: each list is preceded by what its entries consist of.
func (h *header) listed(c *cursor) {
	var directories []string
	longest := h.longest
	nested := h.entries(c, func(name []byte, _ uint64) {
		directories = append(directories, string(name))
		longest = max(longest, len(name))
	})
	c.bad = c.bad || nested // no producer does so, and each could be longer than the one before
	h.longest = longest
	h.entries(c, func(name []byte, directory uint64) {
		if len(name) > 0 && name[0] == '/' && directory < uint64(len(directories)) {
			h.absolute[path.Join(directories[directory], string(name))] = string(name)
		}
	})
}

// entries reads a list. inside reports whether entries have a directory.
func (h *header) entries(c *cursor, each func(name []byte, directory uint64)) (inside bool) {
	const ofPath, ofDirectory = 1, 2 // DW_LNCT_path, DW_LNCT_directory_index
	var fields [][2]uint64           // kind and form
	for n := c.fixed(1); n > 0; n-- {
		kind := c.uleb()
		inside = inside || kind == ofDirectory
		fields = append(fields, [2]uint64{kind, c.uleb()})
	}
	count := c.uleb()
	if count > uint64(len(c.b)) {
		c.bad = true
	}
	for ; count > 0 && !c.bad; count-- {
		var name []byte
		var directory uint64
		for _, f := range fields {
			text, v := h.form(c, f[1])
			h.path(c, len(text))
			switch f[0] {
			case ofPath:
				name = text
			case ofDirectory:
				directory = v
			}
		}
		each(name, directory)
	}
	return inside
}

// form reads a string, or a number. Package dwarf reads nothing where it does not know the
// form.
func (h *header) form(c *cursor, form uint64) (text []byte, v uint64) {
	switch form {
	case 0x08: // DW_FORM_string
		return c.text(), 0
	case 0x0e: // strp
		return h.stored(c, "str"), 0
	case 0x1f: // line_strp
		return h.stored(c, "line_str"), 0
	case 0x1d: // strp_sup
		c.fixed(h.word)
	case 0x0b: // data1
		return nil, c.fixed(1)
	case 0x05: // data2
		return nil, c.fixed(2)
	case 0x06: // data4
		return nil, c.fixed(4)
	case 0x07: // data8
		return nil, c.fixed(8)
	case 0x0f: // udata
		return nil, c.uleb()
	case 0x1e: // data16
		c.bytes(16)
	case 0x09: // block
		c.bytes(c.uleb())
	case 0x1a: // strx
		c.uleb()
	case 0x25, 0x26, 0x27, 0x28: // strx1 to strx4
		c.fixed(form - 0x24)
	default:
		c.bad = true
	}
	return nil, 0
}

// stored is a string of a section.
func (h *header) stored(c *cursor, section string) []byte {
	b, at := h.sections[section], c.fixed(h.word)
	if at > uint64(len(b)) {
		c.bad = true
		return nil
	}
	s := cursor{b: b[at:]}
	text := s.text()
	c.bad = c.bad || s.bad
	return text
}

// definesFiles reports whether a line program adds files, as none does since DWARF 4.
func definesFiles(c *cursor, lengths []byte) bool {
	const defineFile = 3
	for len(c.b) > 0 {
		switch op := c.fixed(1); {
		case op > uint64(len(lengths)): // special
		case op == 0:
			b := c.bytes(c.uleb())
			if len(b) == 0 {
				return false // here package dwarf ends, too
			}
			if b[0] == defineFile {
				return true
			}
		case op == 9: // fixed_advance_pc
			c.fixed(2)
		case op >= 2 && op <= 5 || op == 12: // advance_pc, advance_line, set_file, set_column, set_isa
			c.uleb()
		case op > 12: // unknown
			for range lengths[op-1] {
				c.uleb()
			}
		}
	}
	return false
}
