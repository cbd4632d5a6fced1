package x86

import (
	"encoding/hex"
	"strings"
	"testing"
)

// flagNames reads a set of flags from letters: C P A Z S O.
func flagNames(t *testing.T, s string) (set FlagSet) {
	for _, c := range s {
		i := strings.IndexRune("CPAZSO", c)
		if i < 0 {
			t.Fatalf("no flag %q", c)
		}
		set |= [...]FlagSet{FlagCF, FlagPF, FlagAF, FlagZF, FlagSF, FlagOF}[i]
	}
	return set
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFlags(t *testing.T) {
	for _, row := range []struct{ hex, text, read, written string }{
		{"48 01 c8", "add %rcx,%rax", "", "CPAZSO"},
		{"0c 01", "or $1,%al", "", "CPZSO"},
		{"11 c8", "adc %ecx,%eax", "C", "CPAZSO"},
		{"83 d8 00", "sbb $0,%eax", "C", "CPAZSO"},
		{"19 c0", "sbb %eax,%eax", "C", "CPAZSO"},
		{"21 c8", "and %ecx,%eax", "", "CPZSO"},
		{"29 c8", "sub %ecx,%eax", "", "CPAZSO"},
		{"31 c0", "xor %eax,%eax", "", "CPZSO"},
		{"81 f9 00 01 00 00", "cmp $0x100,%ecx", "", "CPAZSO"},
		{"48 85 ff", "test %rdi,%rdi", "", "CPZSO"},
		{"a8 01", "test $1,%al", "", "CPZSO"},
		{"f6 c1 01", "test $1,%cl", "", "CPZSO"},
		{"48 ff c0", "inc %rax", "", "PAZSO"},
		{"fe c8", "dec %al", "", "PAZSO"},
		{"ff d0", "call *%rax", "", ""},
		{"ff 30", "push (%rax)", "", ""},
		{"f7 d0", "not %eax", "", ""},
		{"f7 d8", "neg %eax", "", "CPAZSO"},
		{"f7 e1", "mul %ecx", "", "CO"},
		{"f6 e9", "imul %cl", "", "CO"},
		{"f7 f1", "div %ecx", "", ""},
		{"f7 f9", "idiv %ecx", "", ""},
		{"69 c1 00 01 00 00", "imul $0x100,%ecx,%eax", "", "CO"},
		{"0f af c1", "imul %ecx,%eax", "", "CO"},
		{"8d 44 08 01", "lea 1(%rax,%rcx),%eax", "", ""},
		{"89 c8", "mov %ecx,%eax", "", ""},
		{"f5", "cmc", "C", "C"},
		{"f8", "clc", "", "C"},
		{"f9", "stc", "", "C"},
		{"fc", "cld", "", ""},
		{"9c", "pushf", "CPAZSO", ""},
		{"9d", "popf", "", "CPAZSO"},
		{"9e", "sahf", "", "CPAZS"},
		{"9f", "lahf", "CPAZS", ""},

		{"70 00", "jo", "O", ""},
		{"73 00", "jae", "C", ""},
		{"74 00", "je", "Z", ""},
		{"76 00", "jbe", "CZ", ""},
		{"79 00", "jns", "S", ""},
		{"7a 00", "jp", "P", ""},
		{"7c 00", "jl", "SO", ""},
		{"0f 8f 00 00 00 00", "jg", "ZSO", ""},
		{"0f 94 c0", "sete %al", "Z", ""},
		{"0f 47 c1", "cmova %ecx,%eax", "CZ", ""},
		{"e0 00", "loopne", "Z", ""},
		{"e1 00", "loope", "Z", ""},
		{"e2 00", "loop", "", ""},
		{"e3 00", "jrcxz", "", ""},
		{"e8 00 00 00 00", "call", "", ""},
		{"c3", "ret", "", ""},
		{"0f 05", "syscall", "", ""},

		{"d1 e0", "shl %eax", "", "CPZSO"},
		{"c1 e0 00", "shl $0,%eax", "", ""},
		{"c1 e0 20", "shl $32,%eax", "", ""},
		{"48 c1 e0 20", "shl $32,%rax", "", "CPZS"},
		{"c1 e0 01", "shl $1,%eax", "", "CPZSO"},
		{"c1 e8 04", "shr $4,%eax", "", "CPZS"},
		{"c0 e8 08", "shr $8,%al", "", "PZS"},
		{"48 c0 e8 20", "rex.W shr $32,%al", "", ""},
		{"c0 f8 08", "sar $8,%al", "", "CPZS"},
		{"66 c1 e0 10", "shl $16,%ax", "", "PZS"},
		{"d3 e0", "shl %cl,%eax", "", ""},
		{"d1 c0", "rol %eax", "", "CO"},
		{"c1 c0 07", "rol $7,%eax", "", "C"},
		{"c1 c8 00", "ror $0,%eax", "", ""},
		{"d1 d0", "rcl %eax", "C", "CO"},
		{"c1 d0 07", "rcl $7,%eax", "C", "C"},
		{"c0 d0 09", "rcl $9,%al", "C", ""},
		{"d3 d8", "rcr %cl,%eax", "C", ""},
		{"0f a4 c8 04", "shld $4,%ecx,%eax", "", "CPZS"},
		{"0f a4 c8 00", "shld $0,%ecx,%eax", "", ""},
		{"66 0f ac c8 11", "shrd $17,%cx,%ax", "", ""},
		{"0f ad c8", "shrd %cl,%ecx,%eax", "", ""},

		{"a6", "cmpsb", "", "CPAZSO"},
		{"f3 a6", "repz cmpsb", "", ""},
		{"f2 ae", "repnz scasb", "", ""},
		{"48 af", "scasq", "", "CPAZSO"},
		{"f3 a4", "rep movsb", "", ""},
		{"0f b1 0f", "cmpxchg %ecx,(%rdi)", "", "CPAZSO"},
		{"0f c7 0f", "cmpxchg8b (%rdi)", "", "Z"},
		{"48 0f c7 0f", "cmpxchg16b (%rdi)", "", "Z"},
		{"0f c1 c8", "xadd %ecx,%eax", "", "CPAZSO"},
		{"0f a3 c8", "bt %ecx,%eax", "", "C"},
		{"0f ab c8", "bts %ecx,%eax", "", "C"},
		{"0f ba f8 03", "btc $3,%eax", "", "C"},
		{"0f bc c1", "bsf %ecx,%eax", "", "Z"},
		{"0f bd c1", "bsr %ecx,%eax", "", "Z"},
		{"f3 0f bc c1", "tzcnt %ecx,%eax", "", "CZ"},
		{"f3 0f bd c1", "lzcnt %ecx,%eax", "", "CZ"},
		{"f3 0f b8 c1", "popcnt %ecx,%eax", "", "CPAZSO"},
		{"0f c8", "bswap %eax", "", ""},
		{"0f c7 f0", "rdrand %eax", "", "CPAZSO"},
		{"0f c7 f8", "rdseed %eax", "", "CPAZSO"},
		{"f3 0f c7 f8", "rdpid %rax", "", ""},
		{"0f 00 e0", "verr %ax", "", "Z"},
		{"0f 03 c1", "lsl %ecx,%eax", "", "Z"},
		{"0f 01 d6", "xtest", "", "CPAZSO"},
		{"66 0f ae f0", "tpause %eax", "", "CPAZSO"},
		{"0f ae f0", "mfence", "", ""},
		{"66 0f 38 f6 c1", "adcx %ecx,%eax", "C", "C"},
		{"f3 0f 38 f6 c1", "adox %ecx,%eax", "O", "O"},
		{"0f 2e c1", "ucomiss %xmm1,%xmm0", "", "CPAZSO"},
		{"66 0f 2f c1", "comisd %xmm1,%xmm0", "", "CPAZSO"},
		{"66 0f 38 17 c1", "ptest %xmm1,%xmm0", "", "CPAZSO"},
		{"66 0f 3a 63 c1 00", "pcmpistri $0,%xmm1,%xmm0", "", "CPAZSO"},
		{"66 0f ef c0", "pxor %xmm0,%xmm0", "", ""},

		{"da c1", "fcmovb %st(1),%st", "C", ""},
		{"da c9", "fcmove %st(1),%st", "Z", ""},
		{"db d1", "fcmovnbe %st(1),%st", "CZ", ""},
		{"da d9", "fcmovu %st(1),%st", "P", ""},
		{"db e9", "fucomi %st(1),%st", "", "CPZ"},
		{"df f1", "fcomip %st(1),%st", "", "CPZ"},
		{"d8 d1", "fcom %st(1)", "", ""},
		{"da 00", "fiaddl (%rax)", "", ""},

		{"c5 f8 2e c1", "vucomiss %xmm1,%xmm0", "", "CPAZSO"},
		{"62 f1 7c 08 2e c1", "{evex} vucomiss %xmm1,%xmm0", "", "CPAZSO"},
		{"62 f5 7c 08 2e c1", "vucomish %xmm1,%xmm0", "", "CPAZSO"},
		{"c4 e2 79 17 c1", "vptest %xmm1,%xmm0", "", "CPAZSO"},
		{"c4 e2 79 0e c1", "vtestps %xmm1,%xmm0", "", "CPAZSO"},
		{"c4 e3 79 63 c1 00", "vpcmpistri $0,%xmm1,%xmm0", "", "CPAZSO"},
		{"c5 f8 98 c1", "kortestw %k1,%k0", "", "CPAZSO"},
		{"c5 f8 99 c1", "ktestw %k1,%k0", "", "CPAZSO"},
		{"c4 e2 70 f2 c1", "andn %ecx,%ecx,%eax", "", "CZSO"},
		{"c4 e2 78 f3 c9", "blsr %ecx,%eax", "", "CZSO"},
		{"c4 e2 70 f5 c1", "bzhi %ecx,%ecx,%eax", "", "CZSO"},
		{"c4 e2 73 f5 c1", "pdep %ecx,%ecx,%eax", "", ""},
		{"c4 e2 70 f7 c1", "bextr %ecx,%ecx,%eax", "", "CZO"},
		{"c4 e2 71 f7 c1", "shlx %ecx,%ecx,%eax", "", ""},
		{"c4 e3 7b f0 c1 07", "rorx $7,%ecx,%eax", "", ""},
		{"c4 e2 73 f6 c1", "mulx %ecx,%ecx,%eax", "", ""},
		{"8f e9 78 01 c9", "blcfill %ecx,%eax", "", "CZSO"},
		{"c5 f8 77", "vzeroupper", "", ""},
		{"c5 f1 ef c1", "vpxor %xmm1,%xmm1,%xmm0", "", ""},
	} {
		t.Run(row.text, func(t *testing.T) {
			code := unhex(t, row.hex)
			var in Inst
			if err := Decode(code, &in); err != nil || int(in.Len) != len(code) {
				t.Fatalf("%s: %d bytes, %v", row.hex, in.Len, err)
			}
			read, written := in.Flags()
			if want := flagNames(t, row.read); read != want {
				t.Errorf("reads %#x, want %#x", read, want)
			}
			if want := flagNames(t, row.written); written != want {
				t.Errorf("writes %#x, want %#x", written, want)
			}
		})
	}
}
