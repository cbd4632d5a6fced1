package elfscan

import (
	"debug/elf"
	"fmt"
	"math"
	"strings"
)

// goTable is the table by which a Go runtime finds the function of an address.
// Programs that are stripped have it, too, and no unwind data beside it. Its
// layout has changed thrice (internal/abi and debug/gosym of the Go library):
//
//	u32 magic; u8 0, 0, 1, 8 (least instruction, pointer)
//	u64 functions
//	from Go 1.16 on   u64 files
//	from Go 1.18 on   u64 start of the text; 0 from Go 1.26 on
//	from Go 1.16 on   u64 where names, units, files, tables of PCs, functions are
//
// There, before Go 1.16 right here, is a pair {entry, where its record is} for
// each function, and the end of the last; words of 8 bytes, and from Go 1.18 on
// of 4, entries from the start of the text. A record is {entry, u32 name,
// arguments, deferreturn, pcsp, …}.
type goTable struct {
	data string
	addr uint64
	n    uint64 // functions
	word uint64 // size of an entry
	text uint64 // what entries count from

	names, pcs, funcs, pairs uint64 // in data
}

const (
	goMagic12  = 0xfffffffb
	goMagic116 = 0xfffffffa
	goMagic118 = 0xfffffff0
	goMagic120 = 0xfffffff1

	goMagicTail = 1<<16 | 8<<24 // the four bytes behind the magic
)

// isGoMagic reports whether a Go table starts with v.
func isGoMagic(v uint64) bool {
	if v>>32 != goMagicTail {
		return false
	}
	switch uint32(v) {
	case goMagic12, goMagic116, goMagic118, goMagic120:
		return true
	}
	return false
}

// word32 and word64 return the word at off, 0 if s ends before.
func word32(s string, off uint64) uint64 {
	if n := uint64(len(s)); n < 4 || off > n-4 {
		return 0
	}
	b := s[off : off+4]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24
}

func word64(s string, off uint64) uint64 {
	if n := uint64(len(s)); n < 8 || off > n-8 {
		return 0
	}
	return word32(s, off) | word32(s, off+4)<<32
}

// newGoTable reads a table's header; false if there is none.
func newGoTable(data string, addr uint64) (t goTable, ok bool) {
	if !isGoMagic(word64(data, 0)) {
		return t, false
	}
	t = goTable{data: data, addr: addr, n: word64(data, 8), word: 8}
	offsets := uint64(24)
	switch word32(data, 0) {
	case goMagic12:
		t.pairs = 16
	case goMagic118, goMagic120:
		t.word, offsets = 4, 32
		fallthrough
	default:
		t.names, t.pcs, t.funcs = word64(data, offsets), word64(data, offsets+24), word64(data, offsets+32)
		t.pairs = t.funcs
	}
	size := uint64(len(data))
	ok = size <= math.MaxUint32 && max(t.names, t.pcs, t.funcs, t.pairs) <= size &&
		t.n > 0 && t.n < (size-t.pairs)/(2*t.word)
	return t, ok
}

// entry returns the address of function i, of the end if i is n.
func (t *goTable) entry(i uint64) uint64 {
	at := t.pairs + 2*t.word*i
	if t.word == 8 {
		return word64(t.data, at)
	}
	return t.text + word32(t.data, at)
}

// record returns where the record of function i is, behind its entry.
func (t *goTable) record(i uint64) uint64 {
	at := t.pairs + 2*t.word*i + t.word
	if t.word == 8 {
		return t.funcs + word64(t.data, at)&math.MaxUint32 + t.word
	}
	return t.funcs + word32(t.data, at) + t.word
}

// name returns where the name of a record is, and how long it is; 0 if it is
// longer than is read.
func (t *goTable) name(record uint64) (at uint32, length uint16) {
	off := t.names + word32(t.data, record)
	name := cstring(t.data, off, maxSymbolName)
	if name == "" {
		return 0, 0
	}
	return uint32(off), uint16(len(name))
}

// size returns how long the code of a record's function is, which has the room
// up to the next entry; 0 if the table does not tell, as of code that a linker
// took from object files of C.
//
// A function's first table of PCs, pairs of the difference of a value and that
// of an address, goes up to the end of its code.
func (t *goTable) size(record, room uint64) uint64 {
	pcsp := word32(t.data, record+12)
	if pcsp == 0 {
		return 0
	}
	at, size := t.pcs+pcsp, uint64(0)
	for size < room { // and size rises
		value, next := t.uvarint(at)
		if value == 0 && size > 0 {
			return size
		}
		var step uint64
		if step, at = t.uvarint(next); step == 0 {
			break
		}
		size += step
	}
	return room
}

// uvarint reads a number of at most five bytes, and returns what is behind it.
func (t *goTable) uvarint(at uint64) (v, next uint64) {
	for shift := 0; shift < 35 && at < uint64(len(t.data)); shift += 7 {
		b := t.data[at]
		at++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v, at
}

// readGoTable adds the functions of the Go table to t, if the file has one.
func (f *file) readGoTable(t *symbols, dyn *dynamic) error {
	tab, ok, err := f.findGoTable()
	if !ok || err != nil {
		return err
	}
	if tab.word == 4 {
		if tab.text, ok = f.goText(&tab, dyn); !ok {
			return fmt.Errorf("%w: where the code of its Go table starts", ErrTruncated)
		}
	}
	t.goNames = tab.data
	t.grow(tab.n*symSize, f.size)
	entry := tab.entry(0)
	for i := range tab.n {
		next := tab.entry(i + 1)
		if next < entry {
			return fmt.Errorf("%w: Go table: function %d", ErrTruncated, i)
		}
		if addr, ok := f.rel(entry); ok && next > entry {
			t.addGo(&tab, addr, tab.record(i), next-entry)
		}
		entry = next
	}
	return nil
}

// addGo adds one function. No part of Go code has an entry of its own, whatever
// the name is.
func (t *symbols) addGo(tab *goTable, addr uint32, record, room uint64) {
	s := symbol{addr: addr, rank: rankGo}
	s.name, s.nameLen = tab.name(record)
	s.size = uint32(min(tab.size(record, room), math.MaxUint32))
	if s.size == 0 {
		s.reason = reasonOfName(tab.data[s.name:][:s.nameLen])
	}
	t.list = append(t.list, s)
}

// findGoTable finds the table by its section. In a Go program without section
// headers, or where the C linker has put it among other data, as in
// position-independent ones up to Go 1.25, it is looked for: its start is at a
// multiple of eight.
func (f *file) findGoTable() (tab goTable, ok bool, err error) {
	const what = "Go table"
	for i := range f.sections {
		s := &f.sections[i]
		if strings.HasSuffix(s.name, ".gopclntab") && elf.SectionType(s.Type) != elf.SHT_NOBITS {
			data, err := f.readString(s.Off, s.Size, what)
			if err != nil {
				return tab, false, err
			}
			tab, ok = newGoTable(data, s.Addr)
			return tab, ok, nil
		}
	}
	if !f.golang {
		return tab, false, nil
	}
	for _, addr := range f.words(0, isGoMagic) {
		off, rest, _ := f.offset(addr)
		data, err := f.readString(off, rest, what)
		if err != nil {
			return tab, false, err
		}
		if tab, ok = newGoTable(data, addr); ok {
			return tab, true, nil
		}
	}
	return tab, false, nil
}

// maxWords is how many words are told that look like what is looked for; a
// second one is chance.
const maxWords = 8

// words returns the addresses of the first words, at multiples of eight, in
// segments with the given flag that want takes.
func (f *file) words(flag elf.ProgFlag, want func(uint64) bool) (found []uint64) {
	for _, s := range f.segments {
		if s.Flags&flag != flag || s.Offset >= f.size {
			continue
		}
		size, skip := min(s.FileSize, f.size-s.Offset), -s.Addr&7
		if size < skip {
			continue
		}
		at := s.Addr + skip
		err := f.entries(s.Offset+skip, size-skip, 8, "words", func(b []byte) {
			if want(le.Uint64(b)) && len(found) < maxWords {
				found = append(found, at)
			}
			at += 8
		})
		if err != nil {
			f.problem(err)
		}
	}
	return found
}
