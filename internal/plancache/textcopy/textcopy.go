// Package textcopy makes copies of ELF files in which the text is changed as a cached plan
// says, for a start that maps it in place of the object's (docs/architecture.md, "The plan
// cache"; libdynprof/resident/warm/copy.c). A copy has its object's bytes at the same
// offsets, but for what only a debugger reads, where it has zeros.
package textcopy

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dynprof/dynprof/internal/plancache"
)

// Errors.
var (
	ErrChanged = errors.New("its object has been changed")
	ErrNotCopy = errors.New("it is no copy of the object with the plan's changes")
)

const (
	pageSize = 4096

	// fewest is how many pages have to change for a copy to be worth while: to write to one
	// takes a microsecond or two, to map a file some ten.
	fewest = 32

	// largest is the size of an object that is copied, bytes.
	largest = 256 << 20
)

// Copied is the text that has its changes in a copy: the one with the most; nil: there is
// none.
func Copied(p *plancache.Plan) (most *plancache.Text) {
	for i := range p.Texts {
		if t := &p.Texts[i]; most == nil || t.Listed > most.Listed {
			most = t
		}
	}
	return most
}

// Wanted reports whether a copy makes starts with the plan shorter. Calls by the PLT are not led
// in one: where calls are counted by site those would be from elsewhere.
func Wanted(p *plancache.Plan) bool {
	const read, exec = 4, 1
	copied := Copied(p)
	if copied == nil || p.Counters == 0 || copied.Prot != read|exec || p.File.Size > largest {
		return false
	}
	pages, last := 0, uint32(1)
	for t, c := range p.Changes() {
		if t != copied {
			continue
		}
		if c.BySlot && len(p.Sites) > 0 {
			return false
		}
		if page := c.At &^ (pageSize - 1); page != last {
			pages, last = pages+1, page
		}
	}
	return pages >= fewest
}

// File is a copy's.
type File interface {
	io.WriterAt
	Truncate(size int64) error
}

// Write writes the copy of an object to f, which is empty. Errors: ErrChanged, what reading
// and writing say.
func Write(f File, p *plancache.Plan, object io.ReaderAt) error {
	text, err := Text(p, object)
	if err != nil {
		return err
	}
	end := endOf(p)
	if err := f.Truncate(end + plancache.CopyEndSize); err != nil { // what is not written is a hole
		return err
	}
	for _, s := range parts(object, int64(p.File.Size)) {
		if _, err := io.Copy(io.NewOffsetWriter(f, s.from), io.NewSectionReader(object, s.from, s.to-s.from)); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(text, int64(Copied(p).Offset)); err != nil {
		return err
	}
	_, err = f.WriteAt(trailer(p), end)
	return err
}

// Check reports whether a file is the copy of an object, as far as it is executed. Errors:
// ErrNotCopy, ErrChanged, what reading says.
func Check(f io.ReaderAt, p *plancache.Plan, object io.ReaderAt) error {
	want, err := Text(p, object)
	if err != nil {
		return err
	}
	got, end := make([]byte, len(want)), make([]byte, plancache.CopyEndSize)
	_, err = f.ReadAt(got, int64(Copied(p).Offset))
	_, behind := f.ReadAt(end, endOf(p))
	if err != nil || behind != nil || !bytes.Equal(got, want) || !bytes.Equal(end, trailer(p)) {
		return ErrNotCopy
	}
	return nil
}

// endOf is where the pages of the object's file end.
func endOf(p *plancache.Plan) int64 { return (int64(p.File.Size) + pageSize - 1) &^ (pageSize - 1) }

func trailer(p *plancache.Plan) []byte {
	return binary.LittleEndian.AppendUint64([]byte(plancache.CopyMagic), p.Sum)
}

// span is a part of a file.
type span struct{ from, to int64 }

// parts are those of a file that somebody may look for in a copy: what is loaded, and by
// which tools find names in it. A file that says nothing of its parts has one.
func parts(object io.ReaderAt, size int64) []span {
	f, err := elf.NewFile(object)
	if err != nil {
		return []span{{0, size}}
	}
	const entry = 64
	sections := int64(len(f.Sections)+1) * entry // their headers are mostly the last of a file
	all := []span{{0, pageSize}, {size - sections, size}}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			all = append(all, span{int64(p.Off), int64(p.Off + p.Filesz)})
		}
	}
	for _, s := range f.Sections {
		if isForTools(s) {
			all = append(all, span{int64(s.Offset), int64(s.Offset + s.FileSize)})
		}
	}
	return join(all, size)
}

func isForTools(s *elf.Section) bool {
	switch s.Type {
	case elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_NOTE:
		return true
	}
	return s.Name == ".gnu_debuglink" || s.Name == ".gnu_debugdata"
}

// join makes whole pages of the spans of a file, sorts them, and makes one of those that
// touch.
func join(all []span, size int64) (joined []span) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		s = span{max(s.from, 0) &^ (pageSize - 1), min((s.to+pageSize-1)&^(pageSize-1), size)}
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
		} else if s.from < s.to {
			joined = append(joined, s)
		}
	}
	return joined
}

// Text is the copied text of an object with all changes of its plan made. Errors: ErrChanged, what
// reading says.
func Text(p *plancache.Plan, object io.ReaderAt) ([]byte, error) {
	t := Copied(p)
	if t == nil {
		return nil, ErrChanged
	}
	if t.Size > largest || t.Offset > p.File.Size {
		return nil, fmt.Errorf("%w: %d bytes of text at %d of %d", ErrChanged, t.Size, t.Offset, p.File.Size)
	}
	text := make([]byte, t.Size)
	if _, err := object.ReadAt(text[:min(t.Size, p.File.Size-t.Offset)], int64(t.Offset)); err != nil && err != io.EOF {
		return nil, err
	}
	for of, c := range p.Changes() {
		if of != t || c.Call {
			continue
		}
		window := text[c.At:][:len(c.Old)]
		if !bytes.Equal(window, c.Old) {
			return nil, fmt.Errorf("%w at %#x", ErrChanged, t.Start+uint64(c.At))
		}
		copy(window, c.New)
	}
	// As plans/apply.c has it: calls come last, and those stay that are none any more.
	for of, c := range p.Changes() {
		if of != t || !c.Call || c.BySlot { // where slots lead is known when it starts
			continue
		}
		if window := text[c.At:][:len(c.Old)]; isBranch(text[c.At-1]) && bytes.Equal(window, c.Old) {
			copy(window, c.New)
		}
	}
	return text, nil
}

func isBranch(opcode byte) bool {
	const call, jmp = 0xe8, 0xe9
	return opcode == call || opcode == jmp
}
