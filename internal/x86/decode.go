// Package x86 decodes and encodes x86-64 instructions (64-bit mode).
//
// Decode finds the exact length and layout of an instruction, which is what
// moving code needs; it does not name operands. Its tables follow the opcode
// maps of the Intel SDM, vol. 2, appendix A, and the AMD APM, vol. 3, appendix
// A (XOP, 3DNow!, FMA4, SSE4a). An opcode that neither assigns is ErrInvalid.
package x86

import (
	"encoding/binary"
	"errors"
)

// Errors of Decode.
var (
	ErrTruncated = errors.New("instruction goes on past the end of the code")
	ErrInvalid   = errors.New("not an instruction of 64-bit mode")
)

// MaxLen is the length of the longest instruction (SDM vol. 2, 2.3.11).
const MaxLen = 15

const (
	maxLen = MaxLen
	window = 16 // bytes that decode may look at; a power of two, so that i&15 needs no bounds check
)

// Decode stores the layout of the instruction at the start of code in in. The
// error is ErrTruncated if code ends before the decoder can tell, else
// ErrInvalid; in is then meaningless. It keeps no reference to code.
func Decode(code []byte, in *Inst) error {
	n, err := in.decode(code) // in a register: a loop over Len need not wait for memory
	in.Len = uint8(n)
	return err
}

// DecodeAgain decodes what has been decoded before.
func DecodeAgain(code []byte, in *Inst) {
	if err := Decode(code, in); err != nil {
		panic("BUG: planned code does not decode: " + err.Error())
	}
}

// decode returns the length, or with an error how many bytes it had to look at.
//
// Programs mix instructions with and without ModRM, displacement and immediate
// so well that branches on them are mispredicted once an instruction. So the
// attributes of opcode and ModRM are added up, all fields at once.
func (in *Inst) decode(code []byte) (uint, error) {
	if len(code) < window {
		return in.decodeTail(code)
	}
	p := (*[window]byte)(code)
	next := binary.LittleEndian.Uint64(p[:])
	before, rex, prefix := attr(0), byte(0), Prefix(0)
	if next&0xf0 == 0x40 {
		before, rex, prefix = attrByte, byte(next)&15, PrefixREX
		next >>= 8
	}
	a, opMap := oneByte[byte(next)], MapLegacy
	if byte(next) == 0x0f {
		next >>= 8
		before += attrByte
		a, opMap = twoByte[byte(next)], Map0F
	}
	in.Op, in.ModRM, in.Map, in.Enc = byte(next), byte(next>>8), opMap, EncLegacy
	in.Rex, in.Prefix = rex, prefix
	next >>= 8
	if a&(attrEscape|attr(rex&RexW)*(attrV/RexW)) != 0 {
		var at uint
		if at, a = in.escape(p); a&attrEscape != 0 {
			return at, ErrInvalid
		}
		before = attr(at) * attrByte
		in.ModRM = p[(at+1)&15]
		next = uint64(in.ModRM) | uint64(p[(at+2)&15])<<8
	}

	m := modRMAttr[byte(next)]
	if next&0x07c7 == 0x0504 { // SIB without base: disp32
		m = s4
	}
	a += before + attr(m)&attr(int64(a)>>63)
	in.HasModRM = int64(a) < 0
	in.Len, in.DispOff, in.DispSize, in.ImmOff = byte(a), byte(a>>8), byte(a>>16), byte(a>>24)
	in.ModRMOff, in.ImmSize, in.Kind = byte(a>>32), byte(a>>40), Kind(a>>48)
	in.Imm8 = p[a>>24&15]
	n := uint(a & 0xff)
	if n > maxLen {
		return n, ErrInvalid
	}
	if a&attrLate != 0 {
		return n, in.late()
	}
	return n, nil
}

// decodeTail decodes where fewer than window bytes are left.
func (in *Inst) decodeTail(code []byte) (uint, error) {
	var p [window]byte
	copy(p[:], code)
	n, err := in.decode(p[:])
	switch {
	case n <= uint(len(code)):
		return n, err
	case len(code) < maxLen:
		return n, ErrTruncated
	}
	return n, ErrInvalid
}

// late corrects the layout of instructions that were laid out as if they ended
// with an immediate.
func (in *Inst) late() error {
	switch {
	case in.Map == MapLegacy: // mov between rax and an absolute address
		in.DispOff, in.DispSize = in.ImmOff, in.ImmSize
	case in.Op == 0x0f: // 3DNow!: the opcode is a suffix
		in.Map, in.Op = Map3DNow, in.Imm8
		if !assigned3DNow(in.Op) {
			return ErrInvalid
		}
	default: // mov of control and debug registers: mod is ignored
		in.HasModRM, in.ModRMOff = true, in.ImmOff
	}
	in.ImmSize = 0
	return nil
}

// escape starts anew where the straight path does not find the opcode or all
// about it: behind prefixes other than one REX, in further maps, where the next
// byte or a prefix is part of it, with a 64-bit immediate. It returns the offset
// of the opcode, or with attrEscape how many bytes it had to look at.
func (in *Inst) escape(p *[window]byte) (at uint, a attr) {
	var prefix Prefix
	b := p[0]
	for a = oneByte[b]; a&attrPrefix != 0; a = oneByte[b] {
		if Prefix(a)&(PrefixRep|PrefixRepne) != 0 {
			prefix &^= PrefixRep | PrefixRepne
		}
		prefix = prefix&^PrefixREX | Prefix(a)
		in.Rex = b & 15
		if at++; at == maxLen {
			return at, aBad
		}
		b = p[at&15]
	}
	if prefix&PrefixREX == 0 {
		in.Rex = 0
	}
	in.Map, in.Op, in.Prefix = MapLegacy, b, prefix
	if b == 0x0f {
		at++
		in.Map, in.Op = Map0F, p[at&15]
		a = twoByte[in.Op]
	}
	if a&attrMap != 0 {
		at, a = in.escapeMap(p, at)
	}
	if a&attrGroup != 0 {
		at++
		in.ModRM = p[at&15]
		a = in.resolve(a)
		at--
	}
	if a&attrEscape != 0 {
		return at + 2, a
	}
	if a&(attrZ|attrV) != 0 {
		a = in.sizeImm(a)
	}
	return at, a
}

// sizeImm corrects the immediate of an opcode whose operand size is not 32 bits.
func (in *Inst) sizeImm(a attr) attr {
	switch {
	case in.wide16():
		return a - 2*attrImm
	case a&attrV != 0 && in.Rex&RexW != 0:
		return a + 4*attrImm
	}
	return a
}

// escapeMap goes on after the last byte of an escape to a further map.
func (in *Inst) escapeMap(p *[window]byte, at uint) (uint, attr) {
	switch in.Op {
	case 0x38, 0x3a:
		in.Map = Map0F38 + Map(in.Op>>1&1)
		at++
		in.Op = p[at&15]
		return at, in.gridAttr()
	case 0xc4, 0xc5:
		return in.escapeVEX(p, at)
	case 0x62:
		return in.escapeEVEX(p, at)
	}
	return in.escapeXOP(p, at)
}
