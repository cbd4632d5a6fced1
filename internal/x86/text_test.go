package x86

import "testing"

func TestText(t *testing.T) {
	for _, row := range []struct{ hex, want string }{
		{"48 89 e5", "mov %rsp,%rbp"},
		{"48 8b 05 10 00 00 00", "mov 0x10(%rip),%rax # 0x1017"},
		{"48 8b 05 f0 ff ff ff", "mov -0x10(%rip),%rax # 0xff7"},
		{"48 8b 80 f0 ff ff ff", "mov -0x10(%rax),%rax"},
		{"c5 fa 10 05 10 00 00 00", "vmovss 0x10(%rip),%xmm0 # 0x1018"},
		{"65 48 ff 04 25 10 00 00 00", "incq %gs:0x10"},
		{"e8 fb ff ff ff", "callq 0x1000"},
		{"74 10", "je 0x1012"},
		{"f3 0f 1e fa", "endbr64"},
		{"c5 f8 77", "vzeroupper"},
		{"0f 01 ee", ".byte 0x0f, 0x01, 0xee"}, // rdpkru
		{"62 f1 7c 48 58 c1", "vaddps %zmm1,%zmm0,%zmm0"},
		{"62 e2 65 00 0b 02", "vpmulhrsw (%rdx),%xmm19,%xmm16"},
		{"06", ".byte 0x06"},
		{"e8 00", ".byte 0xe8"},
		{"", ""},
	} {
		t.Run(row.want, func(t *testing.T) {
			if got := Text(unhex(t, row.hex), 0x1000); got != row.want {
				t.Errorf("%s: %q, want %q", row.hex, got, row.want)
			}
		})
	}
}
