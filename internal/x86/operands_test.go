package x86

import (
	"slices"
	"testing"
)

// TestOperands has what neither objdump nor the CPU shows: flags, implied operands, kinds of
// what is neither read nor written.
func TestOperands(t *testing.T) {
	const atomic, implicit, masked = OperandAtomic, OperandImplicit, OperandMasked
	rbx := func(size uint16, kind OperandKind, flags OperandFlags) Operand {
		return Operand{0, size, 1, RBX, NoRegister, 1, SegmentNone, kind, flags}
	}
	for _, row := range []struct {
		code string
		want []Operand
	}{
		{"\x90", nil},
		{"\x0f\x1f\x03", []Operand{rbx(0, OperandAddress, 0)}},
		{"\x48\x8d\x03", []Operand{rbx(0, OperandAddress, 0)}},
		{"\x0f\x18\x0b", []Operand{rbx(0, OperandPrefetch, 0)}},
		{"\x0f\xae\x3b", []Operand{rbx(0, OperandFlush, 0)}},
		{"\x01\x03", []Operand{rbx(4, operandBoth, 0)}},
		{"\xf0\x01\x03", []Operand{rbx(4, operandBoth, atomic)}},
		{"\x87\x03", []Operand{rbx(4, operandBoth, atomic)}},
		{"\xf0\x48\x0f\xc7\x0b", []Operand{rbx(16, operandBoth, atomic)}},
		{"\x0f\xc7\x0b", []Operand{rbx(8, operandBoth, 0)}},
		{"\x0f\xae\x23", []Operand{rbx(0, operandBoth, OperandVariable)}}, // xsave
		{"\x0f\xae\x03", []Operand{rbx(512, OperandStore, 0)}},            // fxsave
		{"\x0f\xa3\x03", []Operand{rbx(4, OperandLoad, OperandBitOffset)}},
		{"\x65\x64\x8b\x03", []Operand{{0, 4, 1, RBX, NoRegister, 1, SegmentFS, OperandLoad, 0}}},
		{"\x64\x65\x2e\x8b\x03", []Operand{{0, 4, 1, RBX, NoRegister, 1, SegmentGS, OperandLoad, 0}}},
		{"\x67\x8b\x44\x8b\xfc", []Operand{{-4, 4, 1, RBX, RCX, 4, SegmentNone, OperandLoad, OperandAddr32}}},
		{"\x8b\x05\xfc\xff\xff\xff", []Operand{{-4, 4, 1, RIP, NoRegister, 1, SegmentNone, OperandLoad, 0}}},
		{"\x48\xa1\x08\x07\x06\x05\x04\x03\x02\xf1", []Operand{{-0xefdfcfbfaf9f8f8, 8, 1, NoRegister, NoRegister, 1, SegmentNone, OperandLoad, 0}}},
		{"\x67\xa2\x01\x00\x00\x80", []Operand{{0x80000001, 1, 1, NoRegister, NoRegister, 1, SegmentNone, OperandStore, OperandAddr32}}},
		{"\x64\xd7", []Operand{{0, 1, 1, RBX, RAX, 1, SegmentFS, OperandLoad, implicit | OperandIndexByte}}},
		{"\x64\xf3\x48\xa5", []Operand{
			{0, 8, 1, RSI, NoRegister, 1, SegmentFS, OperandLoad, implicit | OperandRepeated},
			{0, 8, 1, RDI, NoRegister, 1, SegmentNone, OperandStore, implicit | OperandRepeated},
		}},
		{"\x8f\x44\x24\x10", []Operand{ // pop 16(%rsp)
			{0, 8, 1, RSP, NoRegister, 1, SegmentNone, OperandLoad, implicit},
			{0x18, 8, 1, RSP, NoRegister, 1, SegmentNone, OperandStore, 0},
		}},
		{"\xff\x13", []Operand{rbx(8, OperandLoad, 0), {-8, 8, 1, RSP, NoRegister, 1, SegmentNone, OperandStore, implicit}}},
		{"\xff\x1b", []Operand{rbx(6, OperandLoad, 0), {-8, 4, 2, RSP, NoRegister, 1, SegmentNone, OperandStore, implicit}}},
		{"\xc8\x00\x00\x03", []Operand{ // enter
			{-16, 8, 2, RBP, NoRegister, 1, SegmentNone, OperandLoad, implicit},
			{-32, 8, 4, RSP, NoRegister, 1, SegmentNone, OperandStore, implicit},
		}},
		{"\x48\xcf", []Operand{{0, 8, 5, RSP, NoRegister, 1, SegmentNone, OperandLoad, implicit}}},
		{"\x66\x0f\x38\xf8\x0b", []Operand{rbx(64, OperandLoad, 0), {0, 64, 1, RCX, NoRegister, 1, SegmentNone, OperandStore, implicit}}},
		{"\xc4\xe2\x7d\x2e\x03", []Operand{rbx(32, OperandStore, masked)}}, // vmaskmovps
		{"\xc4\xe2\xe9\x90\x54\x8b\x08", []Operand{{8, 8, 2, RBX, 1, 4, SegmentNone, OperandLoad, masked | OperandVSIB | OperandIndex32}}},
		{"\x62\xf2\xfd\x41\xa3\x54\x8b\x01", []Operand{{8, 8, 8, RBX, 17, 4, SegmentNone, OperandStore, masked | OperandVSIB}}},
		{"\x62\xf1\x7c\x58\x58\x43\x02", []Operand{{8, 4, 1, RBX, NoRegister, 1, SegmentNone, OperandLoad, 0}}}, // one for all
		{"\x62\xf2\x7d\x49\x8a\x43\x01", []Operand{{4, 64, 1, RBX, NoRegister, 1, SegmentNone, OperandStore, masked}}},
	} {
		code := []byte(row.code)
		var in Inst
		var ops [MaxOperands]Operand
		if err := Decode(code, &in); err != nil {
			t.Errorf("% x: %v", code, err)
			continue
		}
		if got := ops[:in.Operands(code, &ops)]; !slices.Equal(got, row.want) {
			t.Errorf("% x %s: %+v, not %+v", code, Text(code, 0), got, row.want)
		}
	}
}

func TestOperandsAllocate(t *testing.T) {
	code := []byte("\x62\xf2\xfd\x41\xa3\x54\x8b\x01")
	var in Inst
	var ops [MaxOperands]Operand
	if n := testing.AllocsPerRun(100, func() {
		if Decode(code, &in) == nil {
			in.Operands(code, &ops)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestModIgnored: moves of control and debug registers have no operand in memory, whatever mod
// says, and end with ModRM.
func TestModIgnored(t *testing.T) {
	for op := byte(0x20); op <= 0x23; op++ {
		for modrm := range 256 {
			code := []byte{0x0f, op, byte(modrm)}
			var in Inst
			if err := Decode(code, &in); err != nil {
				continue
			}
			if _, ok := in.Memory(code); ok || in.Len != 3 {
				t.Errorf("%x: %d bytes, memory: %v", code, in.Len, ok)
			}
			in.Effects(code)
			if n := in.Operands(code, &[MaxOperands]Operand{}); n > 0 {
				t.Errorf("%x: %d operands", code, n)
			}
		}
	}
}
