package x86

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// layoutRow is an instruction whose hex has the letters M, D, I before ModRM,
// displacement and immediate.
type layoutRow struct {
	hex, text string
	m         Map
	op        byte
	kind      Kind
	prefix    Prefix
	rex       byte
}

const (
	p66 = PrefixOpSize
	p67 = PrefixAddrSize
	pF3 = PrefixRep
	pF2 = PrefixRepne
	pRX = PrefixREX
)

func TestLayout(t *testing.T) {
	for name, rows := range map[string][]layoutRow{
		"legacy": legacyRows, "branch": branchRows, "prefix": prefixRows, "0F": twoByteRows,
		"VEX": vexRows, "EVEX": evexRows, "XOP": xopRows,
	} {
		for _, row := range rows {
			t.Run(name+"/"+row.text, func(t *testing.T) { checkLayout(t, name, row) })
		}
	}
}

func checkLayout(t *testing.T, group string, row layoutRow) {
	code, want := parseLayout(t, row.hex)
	want.Map, want.Op, want.Kind, want.Prefix, want.Rex = row.m, row.op, row.kind, row.prefix, row.rex
	want.Enc = map[string]Enc{"VEX": EncVEX, "EVEX": EncEVEX, "XOP": EncXOP}[group]
	var in Inst
	if err := Decode(code, &in); err != nil {
		t.Fatalf("%s: %v", row.hex, err)
	}
	if got := canonical(in); got != want {
		t.Errorf("%s:\n%+v, want\n%+v", row.hex, got, want)
	}
	// The same in front of other code, and ErrTruncated for each part of it.
	var again Inst
	if err := Decode(append(code[:len(code):len(code)], make([]byte, window)...), &again); err != nil || again != in {
		t.Errorf("%s: not the same with code behind it: %v, %+v", row.hex, err, again)
	}
	for n := range code {
		if err := Decode(code[:n], &in); !errors.Is(err, ErrTruncated) {
			t.Errorf("first %d bytes of %s: %v, want ErrTruncated", n, row.hex, err)
		}
	}
}

// rowBytes is the code of a row's hex.
func rowBytes(s string) []byte {
	b, err := hex.DecodeString(strings.NewReplacer("M", "", "D", "", "I", "", " ", "").Replace(s))
	if err != nil {
		panic(err) // in a table of this package
	}
	return b
}

// parseLayout reads the hex of a row and the offsets and sizes that its letters tell.
func parseLayout(t *testing.T, s string) (code []byte, in Inst) {
	for _, field := range strings.Fields(s) {
		letter, digits := field[0], strings.TrimLeft(field, "MDI")
		at := uint8(len(code))
		code = append(code, unhex(t, digits)...)
		size := uint8(len(code)) - at
		switch letter {
		case 'M':
			in.HasModRM, in.ModRMOff, in.ModRM = true, at, code[at]
		case 'D':
			in.DispOff, in.DispSize = at, size
		case 'I':
			in.ImmOff, in.ImmSize, in.Imm8 = at, size, code[at]
		}
	}
	in.Len = uint8(len(code))
	return code, in
}

// canonical clears what means nothing.
func canonical(in Inst) Inst {
	if !in.HasModRM {
		in.ModRM, in.ModRMOff = 0, 0
	}
	if in.DispSize == 0 {
		in.DispOff = 0
	}
	if in.ImmSize == 0 {
		in.ImmOff, in.Imm8 = 0, 0
	}
	return in
}

var legacyRows = []layoutRow{
	{"00 Mc8", "add %cl,%al", 0, 0x00, Plain, 0, 0},
	{"01 M08", "add %ecx,(%rax)", 0, 0x01, Plain, 0, 0},
	{"01 M48 D10", "add %ecx,0x10(%rax)", 0, 0x01, Plain, 0, 0},
	{"01 M88 D10000000", "add %ecx,0x10(%rax) long", 0, 0x01, Plain, 0, 0},
	{"01 M0d D10000000", "add %ecx,0x10(%rip)", 0, 0x01, Plain, 0, 0},
	{"01 M0c 24", "add %ecx,(%rsp)", 0, 0x01, Plain, 0, 0},
	{"01 M4c 24 D10", "add %ecx,0x10(%rsp)", 0, 0x01, Plain, 0, 0},
	{"01 M8c 25 D10000000", "add %ecx,0x10(%rbp) with SIB", 0, 0x01, Plain, 0, 0},
	{"01 M0c 25 D10000000", "add %ecx,0x10", 0, 0x01, Plain, 0, 0},
	{"43 01 M0c 2c", "add %ecx,(%r12,%r13)", 0, 0x01, Plain, pRX, RexX | RexB},
	{"42 01 M0c 2d D10000000", "add %ecx,0x10(,%r13)", 0, 0x01, Plain, pRX, RexX},
	{"67 01 M0d D10000000", "add %ecx,0x10(%eip)", 0, 0x01, Plain, p67, 0},
	{"04 I01", "add $1,%al", 0, 0x04, Plain, 0, 0},
	{"05 I01000000", "add $1,%eax", 0, 0x05, Plain, 0, 0},
	{"66 05 I0100", "add $1,%ax", 0, 0x05, Plain, p66, 0},
	{"48 05 I01000000", "add $1,%rax", 0, 0x05, Plain, pRX, RexW},
	{"66 48 05 I01000000", "data16 add $1,%rax", 0, 0x05, Plain, p66 | pRX, RexW},
	{"41 50", "push %r8", 0, 0x50, Plain, pRX, RexB},
	{"4d 63 Mc7", "movslq %r15d,%r8", 0, 0x63, Plain, pRX, RexW | RexR | RexB},
	{"68 I01000000", "push $1", 0, 0x68, Plain, 0, 0},
	{"66 68 I0100", "pushw $1", 0, 0x68, Plain, p66, 0},
	{"6a I01", "push $1 short", 0, 0x6a, Plain, 0, 0},
	{"69 Mc1 I01000000", "imul $1,%ecx,%eax", 0, 0x69, Plain, 0, 0},
	{"66 69 Mc1 I0100", "imul $1,%cx,%ax", 0, 0x69, Plain, p66, 0},
	{"6b M41 D08 I01", "imul $1,8(%rcx),%eax", 0, 0x6b, Plain, 0, 0},
	{"80 Mc1 I01", "add $1,%cl", 0, 0x80, Plain, 0, 0},
	{"81 M05 D10000000 I01000000", "addl $1,0x10(%rip)", 0, 0x81, Plain, 0, 0},
	{"66 81 Mc1 I0100", "add $1,%cx", 0, 0x81, Plain, p66, 0},
	{"65 48 81 M3c 25 D10000000 I01000000", "cmpq $1,%gs:0x10", 0, 0x81, Plain, PrefixGS | pRX, RexW},
	{"83 Mc1 I01", "add $1,%ecx", 0, 0x83, Plain, 0, 0},
	{"8f M00", "pop (%rax)", 0, 0x8f, Plain, 0, 0},
	{"41 8f M00", "pop (%r8)", 0, 0x8f, Plain, pRX, RexB},
	{"8d M44 24 D08", "lea 8(%rsp),%eax", 0, 0x8d, Plain, 0, 0},
	{"9b", "fwait", 0, 0x9b, Plain, 0, 0},
	{"a0 D0102030405060708", "movabs 0x807060504030201,%al", 0, 0xa0, Plain, 0, 0},
	{"67 a0 D01020304", "addr32 mov 0x4030201,%al", 0, 0xa0, Plain, p67, 0},
	{"48 a1 D0102030405060708", "movabs 0x807060504030201,%rax", 0, 0xa1, Plain, pRX, RexW},
	{"66 a3 D0102030405060708", "movabs %ax,0x807060504030201", 0, 0xa3, Plain, p66, 0},
	{"a8 I01", "test $1,%al", 0, 0xa8, Plain, 0, 0},
	{"a9 I01000000", "test $1,%eax", 0, 0xa9, Plain, 0, 0},
	{"b0 I01", "mov $1,%al", 0, 0xb0, Plain, 0, 0},
	{"b8 I01000000", "mov $1,%eax", 0, 0xb8, Plain, 0, 0},
	{"66 b8 I0100", "mov $1,%ax", 0, 0xb8, Plain, p66, 0},
	{"48 b8 I0102030405060708", "movabs $0x807060504030201,%rax", 0, 0xb8, Plain, pRX, RexW},
	{"66 49 bf I0102030405060708", "data16 movabs $0x807060504030201,%r15", 0, 0xbf, Plain, p66 | pRX, RexW | RexB},
	{"c0 Me0 I04", "shl $4,%al", 0, 0xc0, Plain, 0, 0},
	{"c6 M00 I01", "movb $1,(%rax)", 0, 0xc6, Plain, 0, 0},
	{"c6 Mf8 I01", "xabort $1", 0, 0xc6, Plain, 0, 0},
	{"c7 M40 D08 I01000000", "movl $1,8(%rax)", 0, 0xc7, Plain, 0, 0},
	{"66 c7 M00 I0100", "movw $1,(%rax)", 0, 0xc7, Plain, p66, 0},
	{"48 c7 M05 D10000000 I01000000", "movq $1,0x10(%rip)", 0, 0xc7, Plain, pRX, RexW},
	{"c8 I100001", "enter $16,$1", 0, 0xc8, Plain, 0, 0},
	{"c9", "leave", 0, 0xc9, Plain, 0, 0},
	{"e4 I01", "in $1,%al", 0, 0xe4, Plain, 0, 0},
	{"f6 Mc1 I01", "test $1,%cl", 0, 0xf6, Plain, 0, 0},
	{"f6 Mc9 I01", "test $1,%cl as /1", 0, 0xf6, Plain, 0, 0},
	{"f6 Md1", "not %cl", 0, 0xf6, Plain, 0, 0},
	{"f7 Mc1 I01000000", "test $1,%ecx", 0, 0xf7, Plain, 0, 0},
	{"66 f7 Mc1 I0100", "test $1,%cx", 0, 0xf7, Plain, p66, 0},
	{"48 f7 Md9", "neg %rcx", 0, 0xf7, Plain, pRX, RexW},
	{"fe Mc0", "inc %al", 0, 0xfe, Plain, 0, 0},
	{"ff M08", "decl (%rax)", 0, 0xff, Plain, 0, 0},
	{"ff M35 D10000000", "push 0x10(%rip)", 0, 0xff, Plain, 0, 0},
	{"d9 M05 D10000000", "flds 0x10(%rip)", 0, 0xd9, Plain, 0, 0},
	{"d9 Mee", "fldz", 0, 0xd9, Plain, 0, 0},
	{"df Me0", "fnstsw %ax", 0, 0xdf, Plain, 0, 0},
	{"db M6c 24 D10", "fldt 0x10(%rsp)", 0, 0xdb, Plain, 0, 0},
	{"8e Me8", "mov %eax,%gs", 0, 0x8e, Plain, 0, 0},
}

var branchRows = []layoutRow{
	{"70 I10", "jo", 0, 0x70, Jcc, 0, 0},
	{"0f 84 I10000000", "je", Map0F, 0x84, Jcc, 0, 0},
	{"2e 74 I10", "je,pn", 0, 0x74, Jcc, PrefixSegOther, 0},
	{"3e 0f 84 I10000000", "je,pt", Map0F, 0x84, Jcc, PrefixSegOther, 0},
	{"66 0f 84 I10000000", "data16 je", Map0F, 0x84, Jcc, p66, 0},
	{"e0 I10", "loopne", 0, 0xe0, Loop, 0, 0},
	{"e3 I10", "jrcxz", 0, 0xe3, Loop, 0, 0},
	{"67 e3 I10", "jecxz", 0, 0xe3, Loop, p67, 0},
	{"e8 I10000000", "call", 0, 0xe8, Call, 0, 0},
	{"67 e8 I10000000", "addr32 call", 0, 0xe8, Call, p67, 0},
	{"f2 e8 I10000000", "bnd call", 0, 0xe8, Call, pF2, 0},
	{"66 e8 I10000000", "data16 call", 0, 0xe8, Call, p66, 0},
	{"66 48 e8 I10000000", "data16 rex.W call", 0, 0xe8, Call, p66 | pRX, RexW},
	{"66 66 48 e8 I10000000", "data16 data16 rex.W call", 0, 0xe8, Call, p66 | pRX, RexW},
	{"e9 I10000000", "jmp", 0, 0xe9, Jmp, 0, 0},
	{"f2 e9 I10000000", "bnd jmp", 0, 0xe9, Jmp, pF2, 0},
	{"eb I10", "jmp short", 0, 0xeb, Jmp, 0, 0},
	{"ff Md0", "call *%rax", 0, 0xff, CallInd, 0, 0},
	{"ff M15 D10000000", "call *0x10(%rip)", 0, 0xff, CallInd, 0, 0},
	{"66 48 ff M15 D10000000", "data16 rex.W call *0x10(%rip)", 0, 0xff, CallInd, p66 | pRX, RexW},
	{"ff M58 D10", "lcall *0x10(%rax)", 0, 0xff, CallInd, 0, 0},
	{"ff M25 D10000000", "jmp *0x10(%rip)", 0, 0xff, JmpInd, 0, 0},
	{"3e ff Me0", "notrack jmp *%rax", 0, 0xff, JmpInd, PrefixSegOther, 0},
	{"3e 42 ff M24 c5 D10000000", "notrack jmp *0x10(,%r8,8)", 0, 0xff, JmpInd, PrefixSegOther | pRX, RexX},
	{"ff M28", "ljmp *(%rax)", 0, 0xff, JmpInd, 0, 0},
	{"c7 Mf8 I10000000", "xbegin", 0, 0xc7, Xbegin, 0, 0},
	{"66 c7 Mf8 I1000", "xbeginw", 0, 0xc7, Xbegin, p66, 0},
	{"c3", "ret", 0, 0xc3, Ret, 0, 0},
	{"f3 c3", "repz ret", 0, 0xc3, Ret, pF3, 0},
	{"c2 I0800", "ret $8", 0, 0xc2, Ret, 0, 0},
	{"cb", "lret", 0, 0xcb, Ret, 0, 0},
	{"ca I0800", "lret $8", 0, 0xca, Ret, 0, 0},
	{"48 cf", "iretq", 0, 0xcf, Ret, pRX, RexW},
	{"0f 05", "syscall", Map0F, 0x05, Syscall, 0, 0},
	{"48 0f 07", "sysretq", Map0F, 0x07, Ret, pRX, RexW},
	{"0f 34", "sysenter", Map0F, 0x34, Syscall, 0, 0},
	{"cd I80", "int $0x80", 0, 0xcd, Syscall, 0, 0},
	{"cd I03", "int $3", 0, 0xcd, Trap, 0, 0},
	{"cc", "int3", 0, 0xcc, Trap, 0, 0},
	{"f1", "int1", 0, 0xf1, Trap, 0, 0},
	{"f4", "hlt", 0, 0xf4, Trap, 0, 0},
	{"0f 0b", "ud2", Map0F, 0x0b, Trap, 0, 0},
	{"0f b9 M40 D02", "ud1 2(%rax),%eax", Map0F, 0xb9, Trap, 0, 0},
	{"0f ff Mc1", "ud0 %ecx,%eax", Map0F, 0xff, Trap, 0, 0},
	{"90", "nop", 0, 0x90, Nop, 0, 0},
	{"66 90", "xchg %ax,%ax", 0, 0x90, Nop, p66, 0},
	{"48 90", "rex.W nop", 0, 0x90, Nop, pRX, RexW},
	{"f3 90", "pause", 0, 0x90, Plain, pF3, 0},
	{"41 90", "xchg %eax,%r8d", 0, 0x90, Plain, pRX, RexB},
	{"0f 1f M00", "nopl (%rax)", Map0F, 0x1f, Nop, 0, 0},
	{"66 2e 0f 1f M84 00 D00000000", "cs nopw 0(%rax,%rax)", Map0F, 0x1f, Nop, p66 | PrefixSegOther, 0},
	{"66 66 66 66 66 66 2e 0f 1f M84 00 D00000000", "nop of 15 bytes", Map0F, 0x1f, Nop, p66 | PrefixSegOther, 0},
	{"f3 0f 1e Mfa", "endbr64", Map0F, 0x1e, Endbr, pF3, 0},
	{"f3 0f 1e Mfb", "endbr32", Map0F, 0x1e, Endbr, pF3, 0},
	{"f3 48 0f 1e Mc8", "rdsspq %rax", Map0F, 0x1e, Plain, pF3 | pRX, RexW},
}

var prefixRows = []layoutRow{
	{"f0 0f b1 M0f", "lock cmpxchg %ecx,(%rdi)", Map0F, 0xb1, Plain, PrefixLock, 0},
	{"64 48 8b M04 25 D28000000", "mov %fs:0x28,%rax", 0, 0x8b, Plain, PrefixFS | pRX, RexW},
	{"65 48 ff M04 25 D10000000", "incq %gs:0x10", 0, 0xff, Plain, PrefixGS | pRX, RexW},
	{"f3 48 a5", "rep movsq", 0, 0xa5, Plain, pF3 | pRX, RexW},
	{"f2 f3 a5", "of F2 F3 the last counts", 0, 0xa5, Plain, pF3, 0},
	{"f3 66 f2 0f 58 Mc1", "of F3 F2 the last counts", Map0F, 0x58, Plain, p66 | pF2, 0},
	{"f2 66 0f 38 f1 Mc1", "crc32w %cx,%eax", Map0F38, 0xf1, Plain, p66 | pF2, 0},
	{"66 f2 0f 38 f1 Mc1", "crc32w, other order", Map0F38, 0xf1, Plain, p66 | pF2, 0},
	{"48 66 05 I0100", "a REX before another prefix does not count", 0, 0x05, Plain, p66, 0},
	{"48 41 05 I01000000", "nor does one before another REX", 0, 0x05, Plain, pRX, RexB},
	{"48 c3", "rex.W ret", 0, 0xc3, Ret, pRX, RexW},
	{"66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "14 prefixes", 0, 0x90, Nop, p66, 0},
	{"f0 67 65 66 41 81 M84 24 D01020304 I0506", "14 bytes", 0, 0x81, Plain, PrefixLock | p67 | PrefixGS | p66 | pRX, RexB},
}

var twoByteRows = []layoutRow{
	{"0f 01 Mf8", "swapgs", Map0F, 0x01, Plain, 0, 0},
	{"0f 01 Md0", "xgetbv", Map0F, 0x01, Plain, 0, 0},
	{"0f 0d M08", "prefetchw (%rax)", Map0F, 0x0d, Plain, 0, 0},
	{"0f 0e", "femms", Map0F, 0x0e, Plain, 0, 0},
	{"0f 0f Mc1 9e", "pfadd %mm1,%mm0", Map3DNow, 0x9e, Plain, 0, 0},
	{"0f 0f M05 D10000000 b4", "pfmul 0x10(%rip),%mm0", Map3DNow, 0xb4, Plain, 0, 0},
	{"0f 20 M00", "mov %cr0,%rax with mod 0", Map0F, 0x20, Plain, 0, 0},
	{"0f 22 M84", "mov %rsp,%cr0 with mod 2", Map0F, 0x22, Plain, 0, 0},
	{"44 0f 22 Mc0", "mov %rax,%cr8", Map0F, 0x22, Plain, pRX, RexR},
	{"0f a2", "cpuid", Map0F, 0xa2, Plain, 0, 0},
	{"0f a4 Mc8 I04", "shld $4,%ecx,%eax", Map0F, 0xa4, Plain, 0, 0},
	{"0f ae Mf0", "mfence", Map0F, 0xae, Plain, 0, 0},
	{"f3 48 0f ae Mc8", "rdgsbase %rax", Map0F, 0xae, Plain, pF3 | pRX, RexW},
	{"0f a7 Mc0", "xstore-rng", Map0F, 0xa7, Plain, 0, 0},
	{"f3 0f b8 Mc1", "popcnt %ecx,%eax", Map0F, 0xb8, Plain, pF3, 0},
	{"0f ba M25 D10000000 I03", "btl $3,0x10(%rip)", Map0F, 0xba, Plain, 0, 0},
	{"0f c2 Mc1 I02", "cmpleps %xmm1,%xmm0", Map0F, 0xc2, Plain, 0, 0},
	{"0f c7 M0f", "cmpxchg8b (%rdi)", Map0F, 0xc7, Plain, 0, 0},
	{"49 0f cf", "bswap %r15", Map0F, 0xcf, Plain, pRX, RexW | RexB},
	{"0f 70 Mc1 I1b", "pshufw $0x1b,%mm1,%mm0", Map0F, 0x70, Plain, 0, 0},
	{"66 0f 73 Mf8 I04", "pslldq $4,%xmm0", Map0F, 0x73, Plain, p66, 0},
	{"0f 77", "emms", Map0F, 0x77, Plain, 0, 0},
	{"0f 78 Mc8", "vmread %rcx,%rax", Map0F, 0x78, Plain, 0, 0},
	{"66 0f 78 Mc0 I0102", "extrq $2,$1,%xmm0", Map0F, 0x78, Plain, p66, 0},
	{"f2 0f 78 Mc1 I0102", "insertq $2,$1,%xmm1,%xmm0", Map0F, 0x78, Plain, pF2, 0},
	{"66 0f 79 Mc1", "extrq %xmm1,%xmm0", Map0F, 0x79, Plain, p66, 0},
	{"f2 0f 79 Mc1", "insertq %xmm1,%xmm0", Map0F, 0x79, Plain, pF2, 0},
	{"f3 0f 10 M05 D10000000", "movss 0x10(%rip),%xmm0", Map0F, 0x10, Plain, pF3, 0},
	{"66 0f 38 00 Mc1", "pshufb %xmm1,%xmm0", Map0F38, 0x00, Plain, p66, 0},
	{"0f 38 f0 M05 D10000000", "movbe 0x10(%rip),%eax", Map0F38, 0xf0, Plain, 0, 0},
	{"66 0f 38 f6 Mc1", "adcx %ecx,%eax", Map0F38, 0xf6, Plain, p66, 0},
	{"66 0f 3a 0f Mc1 I08", "palignr $8,%xmm1,%xmm0", Map0F3A, 0x0f, Plain, p66, 0},
	{"66 48 0f 3a 16 M05 D10000000 I01", "pextrq $1,%xmm0,0x10(%rip)", Map0F3A, 0x16, Plain, p66 | pRX, RexW},
}

var vexRows = []layoutRow{
	{"c5 f8 77", "vzeroupper", Map0F, 0x77, Plain, 0, 0},
	{"c5 fc 77", "vzeroall", Map0F, 0x77, Plain, 0, 0},
	{"c4 e1 78 77", "vzeroupper, 3 bytes", Map0F, 0x77, Plain, 0, 0},
	{"c5 fa 10 M05 D10000000", "vmovss 0x10(%rip),%xmm0", Map0F, 0x10, Plain, pF3, 0},
	{"c5 7b 10 M40 D08", "vmovsd 8(%rax),%xmm8", Map0F, 0x10, Plain, pF2, RexR},
	{"c5 f9 70 Mc1 I1b", "vpshufd $0x1b,%xmm1,%xmm0", Map0F, 0x70, Plain, p66, 0},
	{"c5 f9 73 Mf9 I04", "vpslldq $4,%xmm1,%xmm0", Map0F, 0x73, Plain, p66, 0},
	{"c5 f8 c6 Mc1 I1b", "vshufps $0x1b,%xmm1,%xmm0,%xmm0", Map0F, 0xc6, Plain, 0, 0},
	{"c4 42 79 18 M04 24", "vbroadcastss (%r12),%xmm8", Map0F38, 0x18, Plain, p66, RexR | RexB},
	{"c4 e2 69 90 M04 25 D10000000", "vpgatherdd %xmm2,0x10(,%xmm4),%xmm0", Map0F38, 0x90, Plain, p66, 0},
	{"c4 e2 f0 f2 Mc1", "andn %rcx,%rcx,%rax", Map0F38, 0xf2, Plain, 0, RexW},
	{"c4 e3 fb f0 M05 D10000000 I07", "rorx $7,0x10(%rip),%rax", Map0F3A, 0xf0, Plain, pF2, RexW},
	{"c4 e3 79 0f Mc1 I08", "vpalignr $8,%xmm1,%xmm0,%xmm0", Map0F3A, 0x0f, Plain, p66, 0},
	{"c4 e3 79 4b Mc1 I00", "vblendvpd %xmm0,%xmm1,%xmm0,%xmm0", Map0F3A, 0x4b, Plain, p66, 0},
	{"c4 e3 79 69 M05 D10000000 I10", "vfmaddpd %xmm1,0x10(%rip),%xmm0,%xmm0", Map0F3A, 0x69, Plain, p66, 0},
	{"c5 f8 98 Mc1", "kortestw %k1,%k0", Map0F, 0x98, Plain, 0, 0},
	{"c4 e2 7b 4b M04 08", "tileloadd (%rax,%rcx),%tmm0", Map0F38, 0x4b, Plain, pF2, 0},
	{"c4 e2 78 49 Mc0", "tilerelease", Map0F38, 0x49, Plain, 0, 0},
	{"c4 e2 73 5e Mc2", "tdpbssd %tmm1,%tmm2,%tmm0", Map0F38, 0x5e, Plain, pF2, 0},
	{"65 c5 fa 10 M04 25 D10000000", "vmovss %gs:0x10,%xmm0", Map0F, 0x10, Plain, PrefixGS | pF3, 0},
	{"67 c5 fa 10 M00", "vmovss (%eax),%xmm0", Map0F, 0x10, Plain, p67 | pF3, 0},
}

var evexRows = []layoutRow{
	{"62 f1 7c 48 58 Mc1", "vaddps %zmm1,%zmm0,%zmm0", Map0F, 0x58, Plain, 0, 0},
	{"62 f1 7c 48 58 M40 D01", "vaddps 0x40(%rax),%zmm0,%zmm0", Map0F, 0x58, Plain, 0, 0},
	{"62 f1 7c 48 58 M80 D01000000", "vaddps 1(%rax),%zmm0,%zmm0", Map0F, 0x58, Plain, 0, 0},
	{"62 f1 7c 48 58 M05 D10000000", "vaddps 0x10(%rip),%zmm0,%zmm0", Map0F, 0x58, Plain, 0, 0},
	{"62 11 fd 48 6f M44 24 D01", "vmovdqa64 0x40(%r12,%r12),%zmm8", Map0F, 0x6f, Plain, p66, RexW | RexR | RexX | RexB},
	{"62 f1 7d 48 72 Mc1 I03", "vprord $3,%zmm1,%zmm0", Map0F, 0x72, Plain, p66, 0},
	{"62 f1 7d 48 72 M25 D10000000 I03", "vpsrad $3,0x10(%rip),%zmm0", Map0F, 0x72, Plain, p66, 0},
	{"62 f2 7d 49 90 M44 25 D01", "vpgatherdd 4(%rbp,%zmm4),%zmm0{%k1}", Map0F38, 0x90, Plain, p66, 0},
	{"62 f3 7d 48 25 M05 D10000000 Iff", "vpternlogd $0xff,0x10(%rip),%zmm0,%zmm0", Map0F3A, 0x25, Plain, p66, 0},
	{"62 f5 7c 48 58 M05 D10000000", "vaddph 0x10(%rip),%zmm0,%zmm0", MapEVEX5, 0x58, Plain, 0, 0},
	{"62 f6 7d 48 98 Mc1", "vfmadd132ph %zmm1,%zmm0,%zmm0", MapEVEX6, 0x98, Plain, p66, 0},
}

var xopRows = []layoutRow{
	{"8f e8 78 a2 Mc1 I00", "vpcmov %xmm0,%xmm1,%xmm0,%xmm0", MapXOP8, 0xa2, Plain, 0, 0},
	{"8f e9 78 90 M05 D10000000", "vprotb %xmm0,0x10(%rip),%xmm0", MapXOP9, 0x90, Plain, 0, 0},
	{"8f e9 f8 01 Mc9", "blcfill %rcx,%rax", MapXOP9, 0x01, Plain, 0, RexW},
	{"8f ea 78 10 Mc1 I01020304", "bextr $0x4030201,%ecx,%eax", MapXOPA, 0x10, Plain, 0, 0},
	{"8f 4a 78 10 M40 D08 I01020304", "bextr $0x4030201,8(%r8),%r8d", MapXOPA, 0x10, Plain, 0, RexR | RexB},
}

// TestInvalid has the opcodes that 64-bit mode does not know, filled up with
// zeros so that nothing is truncated.
func TestInvalid(t *testing.T) {
	for _, row := range []struct{ hex, text string }{
		{"06", "push %es"}, {"07", "pop %es"}, {"0e", "push %cs"}, {"16", "push %ss"}, {"17", "pop %ss"},
		{"1e", "push %ds"}, {"1f", "pop %ds"}, {"27", "daa"}, {"2f", "das"}, {"37", "aaa"}, {"3f", "aas"},
		{"60", "pusha"}, {"61", "popa"}, {"82", "add, the alias"}, {"9a", "lcall"}, {"ce", "into"},
		{"d4", "aam"}, {"d5", "aad, REX2"}, {"d6", "salc"}, {"ea", "ljmp"},
		{"62 00", "bound"}, {"62 f8 7c 48 58 c1", "EVEX with a reserved bit"}, {"62 f1 78 48 58 c1", "EVEX without its fixed bit"},
		{"62 f0 7c 48 58 c1", "EVEX map 0"}, {"62 f4 7c 48 58 c1", "EVEX map 4"}, {"62 f7 7c 48 58 c1", "EVEX map 7"},
		{"c4 e0 78 58 c1", "VEX map 0"}, {"c4 e4 78 58 c1", "VEX map 4"}, {"c4 c4 00", "les"},
		{"66 c5 f8 77", "66 before VEX"}, {"f3 c5 f8 77", "F3 before VEX"}, {"f0 c5 f8 77", "lock before VEX"}, {"48 c5 f8 77", "REX before VEX"},
		{"66 62 f1 7c 48 58 c1", "66 before EVEX"}, {"48 8f e9 78 90 c0", "REX before XOP"}, {"8f e9 79 90 c0", "XOP with pp"}, {"8f eb 78 90 c0", "XOP map 11"},
		{"8f c8", "pop with reg 1"}, {"c6 c8", "C6 /1"}, {"c7 48", "C7 /1"}, {"fe d0", "FE /2"}, {"ff f8", "FF /7"}, {"ff d8", "lcall of a register"}, {"ff e8", "ljmp of a register"},
		{"0f 04", "0F 04"}, {"0f 0a", "0F 0A"}, {"0f 24", "mov %tr0"}, {"0f 36", "0F 36"}, {"0f 39", "0F 39"}, {"0f 3f", "0F 3F"}, {"0f 7a", "0F 7A"}, {"0f a6 00", "0F A6 memory"}, {"0f b8 c1", "jmpe"}, {"0f ba c0", "0F BA /0"},
		{"0f 72 c0", "0F 72 /0"}, {"0f 73 10", "psrlq of memory"}, {"f3 0f 78 c0", "F3 0F 78"}, {"0f 00 f8", "0F 00 /7"},
		{"0f 0f c1 00", "3DNow! suffix 0"}, {"0f 38 0f", "0F 38 0F"}, {"0f 3a 00", "0F 3A 00"},
		{"66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "15 prefixes"}, {"66 66 66 66 66 66 66 66 66 66 66 66 66 66 0f 05", "16 bytes"},
		{"66 66 66 66 66 66 66 a0", "16 bytes with the address"},
	} {
		t.Run(row.text, func(t *testing.T) {
			code := append(unhex(t, row.hex), make([]byte, 16)...)
			var in Inst
			if err := Decode(code, &in); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v, %+v", row.hex, err, in)
			}
			if err := Decode(code[:15], &in); !errors.Is(err, ErrInvalid) {
				t.Errorf("15 bytes of %s: %v", row.hex, err)
			}
		})
	}
}
