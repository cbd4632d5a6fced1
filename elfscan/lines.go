package elfscan

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"fmt"
	"io"
	"slices"
)

// LineStarts returns the addresses at which source lines start, as .debug_line
// tells: where debuggers set breakpoints. They are sorted, each once. A file
// without that section has none.
//
// The line number programs are those of DWARF 2 to 5, section 6.2. What cannot be
// read is left out, with an error.
func LineStarts(r io.ReaderAt, size int64) ([]uint64, error) {
	return guarded(func() ([]uint64, error) { return lineStarts(r, size) })
}

func lineStarts(r io.ReaderAt, size int64) ([]uint64, error) {
	f, err := open(r, size)
	if err != nil {
		return nil, err
	}
	for i := range f.sections {
		if f.sections[i].name != ".debug_line" {
			continue
		}
		b, err := f.debugSection(&f.sections[i])
		if err != nil {
			return nil, err
		}
		p := linePrograms{text: f.text}
		err = p.all(b)
		slices.Sort(p.starts)
		return slices.Compact(p.starts), err
	}
	return nil, nil
}

// maxDebug bounds a compressed section's content: a few bytes can claim anything.
const maxDebug = 1 << 30

// debugSection reads a section that may be compressed by zlib:
// Elf64_Chdr {u32 type, reserved; u64 size, alignment}.
func (f *file) debugSection(s *section) ([]byte, error) {
	b, err := f.read(s.Off, s.Size, s.name)
	if err != nil || elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED == 0 {
		return b, err
	}
	const head = 24
	if len(b) < head || elf.CompressionType(le.Uint32(b)) != elf.COMPRESS_ZLIB {
		return nil, fmt.Errorf("%s is compressed in an unknown way", s.name)
	}
	size := le.Uint64(b[8:])
	if size > maxDebug {
		return nil, fmt.Errorf("%s would have %d bytes, more than are read (%d)", s.name, size, maxDebug)
	}
	z, err := zlib.NewReader(bytes.NewReader(b[head:]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return io.ReadAll(io.LimitReader(z, int64(size)))
}

// linePrograms collects addresses of rows.
type linePrograms struct {
	text   spans
	starts []uint64
}

func (p *linePrograms) add(addr uint64) {
	if p.text.has(addr) {
		p.starts = append(p.starts, addr)
	}
}

// all runs the programs one after the other.
func (p *linePrograms) all(b []byte) error {
	for len(b) >= 4 {
		length, wide, rest := uint64(le.Uint32(b)), false, b[4:]
		if length == 0xffffffff && len(rest) >= 8 { // 64-bit DWARF
			length, wide, rest = le.Uint64(rest), true, rest[8:]
		}
		if length > uint64(len(rest)) {
			return fmt.Errorf("%w: .debug_line", ErrTruncated)
		}
		c := cursor{b: rest[:length]}
		p.one(&c, wide)
		if c.bad {
			return fmt.Errorf("%w: .debug_line", ErrTruncated)
		}
		b = rest[length:]
	}
	return nil
}

// lineHeader is what matters of a program's header.
type lineHeader struct {
	minLength, lineRange, opcodeBase uint8
	operands                         []uint8 // by standard opcode, from 1
}

// Opcodes, standard and extended.
const (
	lnsCopy           = 1
	lnsAdvancePC      = 2
	lnsConstAddPC     = 8
	lnsFixedAdvancePC = 9
	lneEndSequence    = 1
	lneSetAddress     = 2
)

// one runs one program, with the cursor behind its length.
func (p *linePrograms) one(c *cursor, wide bool) {
	version := c.u16()
	if version < 2 || version > 5 {
		return // not known
	}
	if version >= 5 {
		c.take(2) // sizes of addresses and selectors
	}
	length := uint64(0)
	if wide {
		length = c.u64()
	} else {
		length = uint64(c.u32())
	}
	program := *c
	program.take(length)
	h := lineHeader{minLength: c.u8()}
	if version >= 4 {
		c.take(1) // operations in an instruction
	}
	c.take(2) // default_is_stmt, line_base
	h.lineRange, h.opcodeBase = c.u8(), c.u8()
	for i := 1; i < int(h.opcodeBase); i++ {
		h.operands = append(h.operands, c.u8())
	}
	if c.bad = c.bad || program.bad || h.lineRange == 0 || h.opcodeBase == 0; !c.bad {
		p.run(&program, &h)
		c.bad = program.bad
	}
}

// run runs the instructions of a program.
func (p *linePrograms) run(c *cursor, h *lineHeader) {
	addr := uint64(0)
	special := func(op uint8) uint64 { return uint64((op-h.opcodeBase)/h.lineRange) * uint64(h.minLength) }
	for !c.bad && !c.done() {
		op := c.u8()
		switch {
		case op >= h.opcodeBase:
			addr += special(op)
			p.add(addr)
		case op == 0:
			arg := c.sub(c.uleb())
			switch arg.u8() {
			case lneSetAddress:
				addr = arg.u64()
			case lneEndSequence:
				addr = 0
			}
		case op == lnsCopy:
			p.add(addr)
		case op == lnsAdvancePC:
			addr += c.uleb() * uint64(h.minLength)
		case op == lnsConstAddPC:
			addr += special(255)
		case op == lnsFixedAdvancePC:
			addr += uint64(c.u16())
		default:
			for range h.operands[op-1] {
				c.uleb()
			}
		}
	}
}
