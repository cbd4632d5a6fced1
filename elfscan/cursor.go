package elfscan

// cursor reads the fields of a record of .eh_frame or .debug_line. Past the end it reads zeros
// and bad is set, so that a parser checks once.
type cursor struct {
	b    []byte
	pos  int
	addr uint64 // virtual address of b[0]
	bad  bool
}

// take returns the next n bytes, nil if there are fewer.
func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)-c.pos) {
		c.bad = true
		c.pos = len(c.b)
		return nil
	}
	b := c.b[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

// sub returns a cursor over the next n bytes and moves behind them.
func (c *cursor) sub(n uint64) cursor {
	s := cursor{addr: c.addr + uint64(c.pos)}
	s.b = c.take(n)
	return s
}

func (c *cursor) done() bool { return c.pos >= len(c.b) }

func (c *cursor) u8() uint8 {
	if c.pos < len(c.b) {
		c.pos++
		return c.b[c.pos-1]
	}
	c.bad = true
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// uleb reads an unsigned LEB128 number (DWARF 5, 7.6); bits past the 64th are
// lost.
func (c *cursor) uleb() uint64 {
	v, _ := c.leb()
	return v
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	v, bits := c.leb()
	if bits < 64 {
		return int64(v<<(64-bits)) >> (64 - bits)
	}
	return int64(v)
}

// leb returns the bits of a LEB128 number and how many there are.
func (c *cursor) leb() (v uint64, bits uint) {
	for {
		b := c.u8()
		v |= uint64(b&0x7f) << bits
		bits += 7
		if b < 0x80 {
			return v, bits
		}
	}
}

// cstring reads a string that ends with NUL.
func (c *cursor) cstring() string {
	from := c.pos
	for c.u8() != 0 {
	}
	if c.bad {
		return ""
	}
	return string(c.b[from : c.pos-1])
}

// Pointer encodings (LSB Core 5.0, 10.5.1): a format, and what is added.
const (
	peFormat = 0x0f
	peUleb   = 0x01
	peUdata2 = 0x02
	peUdata4 = 0x03
	peUdata8 = 0x04
	peSleb   = 0x09
	peSdata2 = 0x0a
	peSdata4 = 0x0b
	peSdata8 = 0x0c

	peAbsptr  = 0x00 // nothing is added; as a format, a word
	pePCrel   = 0x10
	peDatarel = 0x30
	peAligned = 0x50
	peApply   = 0x70

	peIndirect = 0x80
	peOmit     = 0xff
)

// number reads a number in the format of the encoding enc.
func (c *cursor) number(enc uint8) uint64 {
	switch enc & peFormat {
	case peSdata4:
		return uint64(int64(int32(c.u32())))
	case peAbsptr, peUdata8, peSdata8:
		return c.u64()
	case peUdata4:
		return uint64(c.u32())
	case peUdata2:
		return uint64(c.u16())
	case peSdata2:
		return uint64(int64(int16(c.u16())))
	case peUleb:
		return c.uleb()
	case peSleb:
		return uint64(c.sleb())
	}
	c.bad = true
	return 0
}

// pointer reads an encoded address; data is what data-relative ones count
// from. An indirect one is not in the file, but where it points to.
func (c *cursor) pointer(enc uint8, data uint64) uint64 {
	at := c.addr + uint64(c.pos)
	v := c.number(enc)
	switch enc &^ peFormat {
	case peAbsptr:
		return v
	case pePCrel:
		return at + v
	case peDatarel:
		return data + v
	}
	c.bad = true
	return 0
}

// lsda reads the address of a language-specific data area; 0 is none, and so is
// one that cannot be found in the file.
func (c *cursor) lsda(enc uint8) uint64 {
	at := c.addr + uint64(c.pos)
	v := c.number(enc)
	switch {
	case v == 0 || c.bad || enc&peIndirect != 0:
		return 0
	case enc&peApply == pePCrel:
		return at + v
	case enc&peApply == peAbsptr:
		return v
	}
	return 0
}
