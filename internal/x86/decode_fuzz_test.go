package x86

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzDecode: an instruction or an error; every field inside the instruction,
// in order, and none over another; nothing behind the instruction matters.
func FuzzDecode(f *testing.F) {
	for _, rows := range [][]layoutRow{legacyRows, branchRows, prefixRows, twoByteRows, vexRows, evexRows, xopRows} {
		for _, row := range rows {
			f.Add(rowBytes(row.hex))
		}
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		var in Inst
		err := Decode(code, &in)
		switch {
		case errors.Is(err, ErrTruncated):
			if len(code) >= maxLen {
				t.Errorf("% x: truncated, but no instruction is longer", code)
			}
			return
		case err != nil:
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("% x: %v", code, err)
			}
			checkInvalid(t, code)
			return
		}
		checkOffsets(t, code, &in)
		checkOnlyOwnBytes(t, code, in)
		if in.RIPRel() {
			in.RIPTarget(code, 0)
		}
		in.BranchTarget(code, 0)
		in.UsesGS()
		if read, written := in.Flags(); (read|written)&^FlagsAll != 0 {
			t.Errorf("% x: flags %x %x", code, read, written)
		}
		checkOperands(t, code[:in.Len:in.Len], &in)
		if Text(code, 0) == "" {
			t.Errorf("% x: no text", code)
		}
	})
}

// checkInvalid: what is invalid stays so whatever follows.
func checkInvalid(t *testing.T, code []byte) {
	for _, fill := range []byte{0x00, 0x90, 0xc0, 0xff} {
		var in Inst
		longer := append(code[:len(code):len(code)], bytes.Repeat([]byte{fill}, window)...)
		if err := Decode(longer, &in); !errors.Is(err, ErrInvalid) {
			t.Errorf("% x: invalid, but with more code %v", code, err)
		}
	}
}

func checkOffsets(t *testing.T, code []byte, in *Inst) {
	n := int(in.Len)
	if n < 1 || n > min(maxLen, len(code)) {
		t.Fatalf("% x: length %d", code, n)
	}
	at := 1 // at least the opcode
	modRMSize := uint8(0)
	if in.HasModRM {
		modRMSize = 1
	}
	for _, field := range [][2]uint8{{in.ModRMOff, modRMSize}, {in.DispOff, in.DispSize}, {in.ImmOff, in.ImmSize}} {
		if off, size := int(field[0]), int(field[1]); size != 0 {
			if off < at || off+size > n {
				t.Errorf("% x: field at %d of %d bytes: %+v", code, off, size, in)
			}
			at = off + size
		}
	}
	if (in.ImmSize > 0 || in.DispSize > 0 && in.Map != Map3DNow) && at != n {
		t.Errorf("% x: %d bytes behind the last field: %+v", code, n-at, in)
	}
	if in.HasModRM && code[in.ModRMOff] != in.ModRM || in.ImmSize > 0 && code[in.ImmOff] != in.Imm8 {
		t.Errorf("% x: ModRM or Imm8 is not the code's: %+v", code, in)
	}
}

// checkOnlyOwnBytes: the layout depends on no byte behind the instruction.
func checkOnlyOwnBytes(t *testing.T, code []byte, in Inst) {
	for _, tail := range [][]byte{nil, bytes.Repeat([]byte{0xff}, window)} {
		own := append(code[:in.Len:in.Len], tail...)
		var again Inst
		if err := Decode(own, &again); err != nil || canonical(again) != canonical(in) {
			t.Errorf("% x: %+v, but with other code behind it %+v, %v", code, in, again, err)
		}
	}
}

// checkOperands: registers that there are, and no element without bytes that is read or written.
func checkOperands(t *testing.T, code []byte, in *Inst) {
	var ops [MaxOperands]Operand
	for _, o := range ops[:in.Operands(code, &ops)] {
		isRegister := func(n, most byte) bool { return n < most || n == NoRegister }
		vsib := o.Flags&OperandVSIB != 0
		switch {
		case !isRegister(o.Base, RIP+1), !vsib && !isRegister(o.Index, 16), vsib && o.Index >= 32,
			o.Scale != 1 && o.Scale != 2 && o.Scale != 4 && o.Scale != 8,
			o.Count == 0 || o.Count > 32, o.Size > 512,
			o.Size == 0 && o.Kind&operandBoth != 0 && o.Flags&OperandVariable == 0:
			t.Errorf("% x %s: operand %+v", code, Text(code, 0), o)
		}
	}
}
