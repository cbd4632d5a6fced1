package flow

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestDeadRegisters: a register is dead only where each way overwrites it in the function before
// anything that leaves it.
func TestDeadRegisters(t *testing.T) {
	const rax, rcx, rdx, rbx, rsi = 1 << x86.RAX, 1 << x86.RCX, 1 << x86.RDX, 1 << x86.RBX, 1 << x86.RSI
	for _, row := range []struct {
		name, code string
		dead       []uint32 // by instruction
	}{
		{"overwritten", "mov (%rdi),%rax; mov %rax,(%rsi); mov $1,%eax; ret", []uint32{rax, 0, rax, 0}},
		{"merged", "mov $1,%al; cmove %rdi,%rcx; ret", []uint32{0, 0, 0}},
		{"on one way only", "test %edi,%edi; je 1f; mov $1,%eax; 1: ret", []uint32{0, 0, rax, 0}},
		{"on both", "test %edi,%edi; je 1f; mov $1,%eax; ret; 1: mov $2,%eax; ret", []uint32{rax, rax, rax, 0, rax, 0}},
		{"in a loop", "1: mov (%rdi),%rcx; mov %rcx,(%rsi); dec %edi; jne 1b; mov $1,%ecx; mov $2,%edx; ret", []uint32{rcx | rdx, rdx, rcx | rdx, rcx | rdx, rcx | rdx, rdx, 0}},
		{"a call", "mov (%rdi),%rax; call other; mov $1,%eax; ret", []uint32{rax, 0, rax, 0}},
		{"a system call", "mov $1,%edx; syscall; mov $1,%edx; ret", []uint32{rdx, 0, rdx, 0}},
		{"a tail call", "mov (%rdi),%rax; jmp other", []uint32{rax, 0}},
		{"pops", "pop %rbx; pop %rsi; ret", []uint32{rbx | rsi, rsi, 0}},
		{"a trap", "mov $1,%eax; ud2", []uint32{rax, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "dead.s")
			text := ".text\n" + function("_start", "call f; hlt") + function("f", row.code) + function("other", "xor %eax,%eax; nop; nop; nop; ret")
			if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o, p := load(t, fixture.Link(t, source))
			k := slices.IndexFunc(p.Units(), func(u Unit) bool { return o.Functions[u.Function].Name == "f" })
			g, why := p.Graph(k)
			if g == nil {
				t.Fatal(why)
			}
			got := g.DeadRegisters(func(in *Inst) []byte { return o.Code(in.Addr)[:in.Len] })
			if !slices.Equal(got, row.dead) {
				t.Errorf("%s, not %s", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", row.dead))
			}
		})
	}
}

func function(name, code string) string {
	return strings.NewReplacer("NAME", name, "CODE", strings.ReplaceAll(code, ";", "\n")).Replace(".p2align 4\n.globl NAME\n.type NAME,@function\nNAME:\nCODE\n.size NAME,.-NAME\n")
}
