package x86

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// RunAddr is an address at which code or data will be when it runs. The place
// where bytes are written is always a []byte: the two never mix.
type RunAddr uint64

// Add returns the address n bytes further on.
func (a RunAddr) Add(n int) RunAddr { return a + RunAddr(n) }

// Errors of the assembler.
var (
	ErrReach = errors.New("target is out of reach of a 32-bit displacement")
	ErrShort = fmt.Errorf("%w, or of a short jump", ErrReach) // BUG of who wrote it
	ErrRoom  = errors.New("code does not fit its buffer")
)

// Label names a place in the code being assembled. Its zero value is no label.
type Label int

// Asm assembles instructions into a buffer that will run at another address.
// The first error sticks; Finish returns it, so that callers need not check
// each instruction. An Asm may be reused by Reset; it allocates only when a
// stub has more labels or fixups than any before it.
type Asm struct {
	buf    []byte
	n      int
	at     RunAddr
	places []int // of each label, -1 until bound
	fixups []fixup
	err    error
}

// fixup is a displacement that waits for its label to be bound.
type fixup struct {
	off, size int // the field in buf
	end       int // displacements count from here
	label     Label
}

// Reset starts a new piece of code, written into buf and run at the address at.
func (a *Asm) Reset(buf []byte, at RunAddr) {
	a.buf, a.n, a.at, a.err = buf, 0, at, nil
	a.places = append(a.places[:0], -1) // label 0 is none
	a.fixups = a.fixups[:0]
}

// Len is the number of bytes written so far.
func (a *Asm) Len() int { return a.n }

// PC is the run address of the next instruction.
func (a *Asm) PC() RunAddr { return a.at.Add(a.n) }

// NewLabel makes a label that Bind places.
func (a *Asm) NewLabel() Label {
	a.places = append(a.places, -1)
	return Label(len(a.places) - 1)
}

// Bind places l at the next instruction.
func (a *Asm) Bind(l Label) { a.places[l] = a.n }

// Place returns the run address of a bound label.
func (a *Asm) Place(l Label) RunAddr { return a.at.Add(a.places[l]) }

// Finish resolves all labels and returns the first error. The code is then
// buf[:Len()].
func (a *Asm) Finish() error {
	if a.err != nil {
		return a.err
	}
	for _, f := range a.fixups {
		place := a.places[f.label]
		if place < 0 {
			panic(fmt.Sprintf("BUG: label %d was never bound", f.label))
		}
		disp := place - f.end
		switch {
		case f.size == 4:
			binary.LittleEndian.PutUint32(a.buf[f.off:], uint32(disp))
		case disp == int(int8(disp)):
			a.buf[f.off] = byte(disp)
		default:
			return ErrShort
		}
	}
	return nil
}

// Raw appends bytes that mean the same at any address.
func (a *Asm) Raw(b ...byte) { a.Copy(b) }

// Copy appends b as it is.
func (a *Asm) Copy(b []byte) {
	if a.n+len(b) > len(a.buf) {
		a.fail(ErrRoom)
		return
	}
	a.n += copy(a.buf[a.n:], b)
}

// Quad appends a 64-bit literal.
func (a *Asm) Quad(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	a.Copy(b[:])
}

// Align pads with int3 up to a multiple of n of the run address.
func (a *Asm) Align(n int) {
	for int(a.PC())%n != 0 && a.err == nil {
		a.Raw(0xcc)
	}
}

// PadTo pads with int3 to a length of n bytes.
func (a *Asm) PadTo(n int) {
	for a.n < n && a.err == nil {
		a.Raw(0xcc)
	}
	if a.n > n {
		a.fail(ErrRoom)
	}
}

func (a *Asm) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *Asm) imm32(v int32) {
	a.Raw(byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

// Disp32To appends a RIP-relative displacement to target; trailing bytes of
// the instruction follow it.
func (a *Asm) Disp32To(target RunAddr, trailing int) { a.rel32To(target, trailing) }

// Rel8 appends the one-byte displacement of a short branch to l.
func (a *Asm) Rel8(l Label) { a.relLabel(l, 1) }

// rel32To appends the displacement from the field's end, trailing bytes
// further on, to target.
func (a *Asm) rel32To(target RunAddr, trailing int) {
	d := int64(target - a.PC().Add(4+trailing))
	if d < math.MinInt32 || d > math.MaxInt32 {
		a.fail(ErrReach)
	}
	a.imm32(int32(d))
}

func (a *Asm) relLabel(l Label, size int) {
	a.fixups = append(a.fixups, fixup{off: a.n, size: size, end: a.n + size, label: l})
	a.Copy([]byte{0, 0, 0, 0}[:size])
}
