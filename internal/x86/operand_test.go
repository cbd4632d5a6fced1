package x86

import (
	"bytes"
	"testing"
)

// TestMemory: operands in memory, and instructions with another displacement.
func TestMemory(t *testing.T) {
	for _, row := range []struct {
		text     string
		code     []byte
		ok       bool
		m        Memory
		reg      byte
		displace string // the same with a displacement of 0x12345678
	}{
		{"movslq (%rdx,%rax,4),%rax", []byte{0x48, 0x63, 0x04, 0x82}, true, Memory{Base: RDX, Index: RAX, Scale: 4, Disp: 0}, RAX, "48638482"},
		{"movslq (%r13,%r9,4),%r8", []byte{0x4f, 0x63, 0x44, 0x8d, 0}, true, Memory{Base: 13, Index: R9, Scale: 4, Disp: 0}, R8, "4f63848d"},
		{"jmp *0x1000(,%rax,8)", []byte{0xff, 0x24, 0xc5, 0, 0x10, 0, 0}, true, Memory{Base: NoRegister, Index: RAX, Scale: 8, Disp: 0x1000}, 4, "ff24c5"},
		{"jmp *(%rcx,%rax,8)", []byte{0xff, 0x24, 0xc1}, true, Memory{Base: RCX, Index: RAX, Scale: 8, Disp: 0}, 4, "ffa4c1"},
		{"mov -8(%rsp),%rax", []byte{0x48, 0x8b, 0x44, 0x24, 0xf8}, true, Memory{Base: RSP, Index: NoRegister, Scale: 1, Disp: -8}, RAX, "488b8424"},
		{"mov (%rdi),%eax", []byte{0x8b, 0x07}, true, Memory{Base: RDI, Index: NoRegister, Scale: 1, Disp: 0}, RAX, ""},
		{"mov 5(%rip),%eax", []byte{0x8b, 0x05, 5, 0, 0, 0}, false, Memory{}, RAX, ""},
		{"mov %edi,%eax", []byte{0x89, 0xf8}, false, Memory{}, RDI, ""},
		{"mov %fs:(%rax),%rax", []byte{0x64, 0x48, 0x8b, 0x00}, false, Memory{}, RAX, ""},
		{"mov (%eax),%eax", []byte{0x67, 0x8b, 0x00}, false, Memory{}, RAX, ""},
	} {
		var in Inst
		if err := Decode(row.code, &in); err != nil {
			t.Fatal(row.text, err)
		}
		m, ok := in.Memory(row.code)
		if ok != row.ok || ok && m != row.m || in.Reg() != row.reg {
			t.Errorf("%s: %+v, %t, register %d", row.text, m, ok, in.Reg())
		}
		if row.displace == "" {
			continue
		}
		var a Asm
		a.Reset(make([]byte, 15), 0)
		a.Displaced(&in, row.code, 0)
		a.PutDisp32(a.Len(), 0x12345678)
		want := append(unhex(t, row.displace), 0x78, 0x56, 0x34, 0x12)
		if err := a.Finish(); err != nil || !bytes.Equal(a.buf[:a.n], want) {
			t.Errorf("%s: % x, %v, not % x", row.text, a.buf[:a.n], err, want)
		}
	}
}
