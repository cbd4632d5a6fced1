package x86

import "testing"

// decoded decodes all of a row's hex.
func decoded(t *testing.T, s string) (in Inst, code []byte) {
	t.Helper()
	code = unhex(t, s)
	if err := Decode(code, &in); err != nil || int(in.Len) != len(code) {
		t.Fatalf("%s: %d bytes, %v", s, in.Len, err)
	}
	return in, code
}

func TestTargets(t *testing.T) {
	const pc = 0x1_2345_6000
	for _, row := range []struct {
		hex, text      string
		branch, ripRel uint64
	}{
		{"eb 10", "jmp forward", pc + 0x12, 0},
		{"eb fe", "jmp to itself", pc, 0},
		{"74 80", "je far back", pc + 2 - 128, 0},
		{"e8 00 00 00 80", "call as far back as can be", pc + 5 - 1<<31, 0},
		{"e9 ff ff ff 7f", "jmp as far forward as can be", pc + 5 + 1<<31 - 1, 0},
		{"0f 85 fa ff ff ff", "jne to itself", pc, 0},
		{"3e 0f 85 10 00 00 00", "jne,pt", pc + 0x17, 0},
		{"67 e8 10 00 00 00", "addr32 call", pc + 0x16, 0},
		{"66 66 48 e8 10 00 00 00", "TLS call", pc + 0x18, 0},
		{"67 e3 f0", "jecxz", pc + 3 - 16, 0},
		{"c7 f8 10 00 00 00", "xbegin", pc + 0x16, 0},
		{"66 c7 f8 fe ff", "xbeginw", pc + 3, 0},
		{"c3", "ret", 0, 0},
		{"ff d0", "call *%rax", 0, 0},
		{"48 8b 05 10 00 00 00", "mov 0x10(%rip),%rax", 0, pc + 0x17},
		{"48 8b 05 f0 ff ff ff", "mov -0x10(%rip),%rax", 0, pc + 7 - 16},
		{"c7 05 10 00 00 00 01 00 00 00", "movl $1,0x10(%rip)", 0, pc + 0x1a},
		{"ff 25 10 00 00 00", "jmp *0x10(%rip)", 0, pc + 0x16},
		{"c5 fa 10 05 10 00 00 00", "vmovss 0x10(%rip),%xmm0", 0, pc + 0x18},
		{"62 f3 7d 48 25 05 10 00 00 00 ff", "vpternlogd $0xff,0x10(%rip),%zmm0,%zmm0", 0, pc + 0x1b},
		{"0f 0f 05 10 00 00 00 b4", "pfmul 0x10(%rip),%mm0", 0, pc + 0x18},
		{"67 8b 05 10 00 00 00", "mov 0x10(%eip),%eax", 0, (pc + 0x17) & 0xffffffff},
		{"8b 04 25 10 00 00 00", "mov 0x10,%eax", 0, 0},
		{"8b 85 10 00 00 00", "mov 0x10(%rbp),%eax", 0, 0},
		{"67 a1 05 00 00 00", "addr32 mov 5,%eax", 0, 0},
		{"0f 20 05", "mov %cr0,%rbp with mod 0", 0, 0},
	} {
		t.Run(row.text, func(t *testing.T) {
			in, code := decoded(t, row.hex)
			if got := in.BranchTarget(code, pc); got != row.branch {
				t.Errorf("branch to %#x, want %#x", got, row.branch)
			}
			if got := in.RIPRel(); got != (row.ripRel != 0) {
				t.Fatalf("RIP-relative: %v", got)
			}
			if row.ripRel == 0 {
				return
			}
			if got := in.RIPTarget(code, pc); got != row.ripRel {
				t.Errorf("operand at %#x, want %#x", got, row.ripRel)
			}
		})
	}
}

// TestTraits has instructions with none, one or several traits of interest to
// a relocator: s 16-bit branch, f far, g uses GS.
func TestTraits(t *testing.T) {
	for _, row := range []struct{ hex, text, traits string }{
		{"e8 00 00 00 00", "call", ""},
		{"66 e8 00 00 00 00", "data16 call", "s"},
		{"66 e9 00 00 00 00", "data16 jmp", "s"},
		{"66 0f 84 00 00 00 00", "data16 je", "s"},
		{"66 eb 00", "data16 jmp short", "s"},
		{"66 e2 00", "data16 loop", "s"},
		{"66 c7 f8 00 00", "xbeginw", "s"},
		{"66 ff d0", "data16 call *%rax", "s"},
		{"66 48 e8 00 00 00 00", "data16 rex.W call", ""},
		{"66 48 ff 15 00 00 00 00", "data16 rex.W call *0(%rip)", ""},
		{"67 e8 00 00 00 00", "addr32 call", ""},
		{"f2 e9 00 00 00 00", "bnd jmp", ""},
		{"66 90", "xchg %ax,%ax", ""},
		{"66 c3", "data16 ret", ""},

		{"ff 18", "lcall *(%rax)", "f"},
		{"48 ff 28", "rex.W ljmp *(%rax)", "f"},
		{"ff 10", "call *(%rax)", ""},
		{"cb", "lret", "f"},
		{"48 cf", "iretq", "f"},
		{"48 0f 07", "sysretq", "f"},
		{"c3", "ret", ""},
		{"c2 08 00", "ret $8", ""},

		{"65 48 8b 04 25 28 00 00 00", "mov %gs:0x28,%rax", "g"},
		{"64 48 8b 04 25 28 00 00 00", "mov %fs:0x28,%rax", ""},
		{"65 a5", "movsl %gs:(%rsi),%es:(%rdi)", "g"},
		{"65 a1 00 00 00 00 00 00 00 00", "movabs %gs:0,%eax", "g"},
		{"65 c5 fa 10 00", "vmovss %gs:(%rax),%xmm0", "g"},
		{"65 0f 1f 00", "nopl %gs:(%rax)", ""},
		{"65 64 8b 00", "mov %fs:(%rax),%eax, GS before", "g"},
		{"65 ff 18", "lcall *%gs:(%rax)", "fg"},
		{"f3 48 0f ae c8", "rdgsbase %rax", "g"},
		{"f3 48 0f ae d8", "wrgsbase %rax", "g"},
		{"f3 48 0f ae c0", "rdfsbase %rax", ""},
		{"0f ae 18", "stmxcsr (%rax)", ""},
		{"0f 01 f8", "swapgs", "g"},
		{"0f 01 f9", "rdtscp", ""},
		{"8e e8", "mov %eax,%gs", "g"},
		{"8e e0", "mov %eax,%fs", ""},
		{"8c e8", "mov %gs,%eax", ""},
		{"0f a9", "pop %gs", "g"},
		{"0f a8", "push %gs", ""},
		{"48 0f b5 00", "lgs (%rax),%rax", "g"},
		{"f2 0f 00 f0", "lkgs %eax", "g"},
	} {
		t.Run(row.text, func(t *testing.T) {
			in, _ := decoded(t, row.hex)
			got := ""
			for _, trait := range []struct {
				has    bool
				letter string
			}{{in.OpSizeBranch(), "s"}, {in.Far(), "f"}, {in.UsesGS(), "g"}} {
				if trait.has {
					got += trait.letter
				}
			}
			if got != row.traits {
				t.Errorf("%s: %q, want %q", row.hex, got, row.traits)
			}
		})
	}
}

func TestCond(t *testing.T) {
	for s, want := range map[string]byte{"74 00": 4, "0f 8f 00 00 00 00": 15, "2e 70 00": 0, "0f 95 c0": 5, "0f 47 c1": 7} {
		if in, _ := decoded(t, s); in.Cond() != want {
			t.Errorf("%s: %d, want %d", s, in.Cond(), want)
		}
	}
}
