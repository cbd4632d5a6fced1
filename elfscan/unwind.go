package elfscan

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"
)

// Frame is an FDE in full: how to find the caller's frame from each address of a
// range of code.
type Frame struct {
	Addr, Size uint64
	Rules      []Rule // by address; the first are those of Addr
}

// Rule is call frame instructions (DWARF 5, 6.4.2) that hold from an address on. Data
// are aligned to -8, and the return address is register 16.
type Rule struct {
	Addr uint64
	Ops  []byte

	// Depth is the distance of the caller's frame from the stack pointer; 0 if it
	// is not found by that.
	Depth uint64
}

// What all compilers for x86-64 write into CIEs.
const (
	codeAlign     = 1
	dataAlign     = -8
	returnAddress = 16
)

// Frames reads the FDEs of the ELF file in r, which is size bytes long, by rising
// address. Those of signal frames, and those in a form that no compiler writes, are
// left out.
func Frames(r io.ReaderAt, size int64) ([]Frame, error) {
	return ofFrames(r, size, (*file).unwinding)
}

// ofFrames reads something of the frames of the ELF file in r.
func ofFrames[T any](r io.ReaderAt, size int64, read func(*file, frameHeader) ([]T, error)) ([]T, error) {
	return guarded(func() ([]T, error) {
		f, err := open(r, size)
		if err != nil {
			return nil, err
		}
		hdr, err := f.frameHeader()
		if err != nil {
			return nil, err
		}
		return read(f, hdr)
	})
}

func (f *file) unwinding(hdr frameHeader) ([]Frame, error) {
	off, n, addr, _ := f.ehFrame(hdr)
	b, err := f.read(off, n, ".eh_frame")
	if err != nil {
		return nil, err
	}
	u := unwinding{b: b, addr: addr, data: hdr.addr, common: map[uint64]*common{}}
	u.walk()
	slices.SortFunc(u.list, func(a, b Frame) int { return cmp.Compare(a.Addr, b.Addr) })
	return u.list, nil
}

// unwinding reads all of .eh_frame, which is in memory.
type unwinding struct {
	b          []byte
	addr, data uint64 // its own, and what data-relative pointers count from
	common     map[uint64]*common
	list       []Frame
}

// common is a CIE, and the instructions that all its FDEs begin with.
type common struct {
	cie
	usual bool
	ops   []byte
}

func (u *unwinding) walk() {
	for at := uint64(0); uint64(len(u.b))-at >= 4; {
		length, head := uint64(le.Uint32(u.b[at:])), uint64(4)
		if length == math.MaxUint32 && uint64(len(u.b))-at >= 12 {
			length, head = le.Uint64(u.b[at+4:]), 12
		}
		if length > uint64(len(u.b))-at-head {
			return
		}
		if length >= 4 {
			u.record(at, cursor{b: u.b[at : at+head+length], pos: int(head), addr: u.addr + at})
		}
		at += head + length
	}
}

func (u *unwinding) record(at uint64, c cursor) {
	field := at + uint64(c.pos)
	id := uint64(c.u32())
	if id == 0 {
		u.common[at] = readCommon(at, c)
	} else if e := u.common[field-id]; e != nil && e.usual {
		u.frame(c, e)
	}
}

// readCommon reads a CIE: once for what its FDEs look like, and once for what is
// in front of its instructions.
func readCommon(at uint64, c cursor) *common {
	again := c
	e := &common{cie: parseCIE(at, &c)}
	version := again.u8()
	augmented := len(again.cstring()) > 0
	if version == 4 {
		again.take(2)
	}
	e.usual = e.ok && !e.signal && again.uleb() == codeAlign && again.sleb() == dataAlign && again.uleb() == returnAddress
	if augmented {
		again.take(again.uleb())
	}
	e.usual = e.usual && !again.bad
	e.ops = again.b[again.pos:]
	return e
}

func (u *unwinding) frame(c cursor, e *common) {
	f := Frame{Addr: c.pointer(e.pointerEnc, u.data), Size: c.number(e.pointerEnc)}
	if e.augmented {
		c.take(c.uleb())
	}
	if c.bad || f.Size == 0 {
		return
	}
	f.Rules = []Rule{{Addr: f.Addr, Ops: bytes.Clone(e.ops)}}
	if f.addRules(&c) {
		f.measure()
		u.list = append(u.list, f)
	}
}

// measure finds the depths.
func (f *Frame) measure() {
	var state cfa
	var kept []cfa
	for i := range f.Rules {
		r := &f.Rules[i]
		for c := (cursor{b: r.Ops}); !c.done(); {
			from := c.pos
			op := c.u8()
			c.instruction(op)
			switch {
			case op == opRememberState:
				kept = append(kept, state)
			case op == opRestoreState && len(kept) > 0:
				state, kept = kept[len(kept)-1], kept[:len(kept)-1]
			default:
				state = state.run(&cursor{b: r.Ops[from:c.pos]}, dataAlign)
			}
		}
		if state.reg == regRSP && !state.expr && state.offset > 0 {
			r.Depth = uint64(state.offset)
		}
	}
}

// addRules splits call frame instructions by the addresses from which they hold.
func (f *Frame) addRules(c *cursor) bool {
	at := f.Addr
	for !c.done() && !c.bad {
		from := c.pos
		op := c.u8()
		step := uint64(op & 0x3f)
		switch {
		case op&0xc0 == opAdvanceLoc:
		case op == opAdvanceLoc1:
			step = uint64(c.u8())
		case op == opAdvanceLoc2:
			step = uint64(c.u16())
		case op == opAdvanceLoc4:
			step = uint64(c.u32())
		case !c.instruction(op):
			return false
		default:
			last := &f.Rules[len(f.Rules)-1]
			last.Ops = append(last.Ops, c.b[from:c.pos]...)
			continue
		}
		at += step
		f.Rules = append(f.Rules, Rule{Addr: at})
	}
	return !c.bad
}

// instruction passes over the operands of an instruction that does not move on.
func (c *cursor) instruction(op byte) bool {
	switch {
	case op&0xc0 == opOffset:
		c.uleb()
		return true
	case op&0xc0 == opRestore, plain(op):
		return true
	}
	switch op {
	case opDefCFA, opDefCFASf:
		return c.skip("uu")
	case opDefCFARegister, opDefCFAOffset, opDefCFAOffsetSf:
		return c.skip("u")
	case opDefCFAExpression:
		return c.skip("b")
	}
	return c.skip(operands[op])
}
