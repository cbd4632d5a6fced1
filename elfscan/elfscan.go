// Package elfscan finds the functions of an x86-64 ELF file: in its symbol
// tables and, since nearly all distributed programs are stripped, in the
// frame descriptions (FDEs) of .eh_frame and in the table of a Go runtime.
//
// It is pure: it reads from an io.ReaderAt and keeps no state. It reads only
// the parts it needs, mostly the symbol tables, .eh_frame and the
// relocations, and of the text no more than a few bytes.
//
// All addresses are the file's own virtual addresses, as nm prints them.
//
// The formats are those of the System V gABI (ELF), the x86-64 psABI
// (relocations), the Linux Standard Base Core 5.0 chapter 10 (.eh_frame,
// .eh_frame_hdr) and DWARF 5 section 6.4 (call frame instructions).
package elfscan

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"github.com/dynprof/dynprof/internal/ledger"
)

// What is wrong with a file that Scan refuses. Errors of Scan wrap one of
// these or the error of the reader.
var (
	ErrNotELF    = errors.New("not an ELF file")
	ErrClass32   = errors.New("a 32-bit ELF file")
	ErrMachine   = errors.New("not an x86-64 ELF file")
	ErrType      = errors.New("neither an executable nor a shared library")
	ErrTruncated = errors.New("truncated or damaged ELF file")
)

// Object is what an ELF file tells about itself.
type Object struct {
	Type    elf.Type // ET_EXEC or ET_DYN
	Interp  string   // path of the dynamic linker, "" if none is asked for
	Dynamic bool     // has a dynamic section; static-pie programs have one too
	Entry   uint64
	BuildID []byte // contents of the GNU build-id note, nil if none
	Go      bool   // holds a Go runtime
	Soname  string
	Needed  []string

	Segments []Segment // PT_LOAD, in file order
	Code     []Range   // where functions may lie, by rising address

	// DataInText are the sections of data that lie in executable segments, as of
	// programs linked without -z separate-code, by rising address.
	DataInText []Range

	// Functions has one entry for each address, by rising address. Cold parts
	// and entries that must never be patched are included, with Excluded set.
	Functions []Function

	// CodePointers are the addresses in executable segments that the dynamic
	// linker stores in data (relocations RELATIVE, RELR, IRELATIVE and those
	// against a symbol of this file), and exported labels that are not
	// functions; sorted, each once. An indirect branch may arrive there. A
	// program that is not position independent stores most of its code
	// pointers without relocations: these are not here.
	CodePointers []uint64

	// LandingPads are addresses where the unwinder enters functions to catch
	// an exception or clean up, as far as they are close behind an entry or
	// outside the function that they serve; sorted, each once.
	LandingPads []uint64

	IFuncs []IFunc

	// Restartable are the sequences whose descriptors lie in section __rseq_cs.
	Restartable []Restartable

	TextRel        bool // has relocations in its text
	Mono           bool // compiled ahead of time by Mono, whose run time reads calls and what they lead to
	SectionHeaders bool // has section headers that can be read

	// Problems are the parts of the file that could not be read. What they
	// would have told is missing; the rest stands.
	Problems []error
}

// Segment is a PT_LOAD segment.
type Segment struct {
	Addr, MemSize    uint64
	Offset, FileSize uint64
	Flags            elf.ProgFlag
}

// Function is a range of code that starts at Addr.
type Function struct {
	// Size, in bytes, is that of the symbol, which is right where it differs
	// from the FDE's (assembly: clone, poly1305_blocks_avx); without one that
	// of the FDE; else the room up to the next entry. It is never 0 and never
	// reaches past the segment.
	Addr, Size uint64

	// Name is the best of the names of Addr: .symtab before .dynsym, global
	// before weak before local, without leading underscore, the shortest, the
	// first in the alphabet. It is "" if no table names Addr. Aliases are the
	// other names in the same order.
	Name    string
	Aliases []string

	Source        ledger.Source // the best source that knows Addr
	Excluded      ledger.Reason // ReasonNone for a function to count; else mostly no function at all
	HasFDE        bool          // an FDE starts at Addr
	LSDA          bool          // that FDE has a language-specific data area (landing pads)
	IFuncResolver bool
	Guessed       bool // nobody tells its size
}

// IFunc is an indirect function: Resolver returns the implementation to use.
type IFunc struct {
	Slot     uint64 // where the result is stored (R_X86_64_IRELATIVE), or 0
	Name     string // of an exported STT_GNU_IFUNC symbol, or ""
	Resolver uint64
}

// Scan reads the ELF file in r, which is size bytes long.
//
// Whatever the bytes are, a scan reads no more than twice size and 1 MB, and
// allocates a small multiple of that. A file that the kernel could not map is an error;
// parts that cannot be read are left out and listed in Object.Problems.
func Scan(r io.ReaderAt, size int64) (*Object, error) {
	return guarded(func() (*Object, error) { return scan(r, size) })
}

// guarded is the last defence: the caller must go on whatever the file holds.
func guarded[T any](read func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			var none T
			result, err = none, fmt.Errorf("%w: %v", ErrTruncated, p)
		}
	}()
	return read()
}

func scan(r io.ReaderAt, size int64) (*Object, error) {
	f, err := open(r, size)
	if err != nil {
		return nil, err
	}
	o := &Object{
		Type:           elf.Type(f.header.Type),
		Entry:          f.header.Entry,
		SectionHeaders: len(f.sections) > 0,
		Interp:         f.interp(),
		Segments:       f.segments,
	}
	o.BuildID, f.golang = f.notes()
	dyn := f.dynamic()
	if dyn != nil {
		o.Dynamic = true
		o.Soname = dyn.soname
		o.Needed = dyn.needed
		o.TextRel = dyn.textRel
	}
	tables := f.symbolTables(dyn)
	o.Mono = tables.mono
	o.Go = f.golang || tables.goNames != ""
	frames, pads := f.frames()
	o.LandingPads = pads
	relocs := f.relocations(dyn, tables)
	o.CodePointers, o.IFuncs = relocs.pointers(), relocs.ifuncs
	o.Restartable = f.restartable(relocs.rseq)
	o.Functions = merge(f.textLow, tables, frames)
	fillSizes(o.Functions, f.codeSections(), f.text)
	markResolvers(o)
	f.exclude(o, dyn, frames)
	o.Code = f.code(o.Functions)
	o.DataInText = f.dataInText()
	if tables.builtins != 0 {
		excludeBuiltins(o.Functions, f.textLow+uint64(tables.builtins-1))
	}
	o.Problems = f.problems
	return o, nil
}
