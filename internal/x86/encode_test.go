package x86

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// at is where the rows' code would run.
const at RunAddr = 0x401000

// encodings: each row assembles one instruction (labels are bound behind it)
// and names it as objdump -d prints it.
var encodings = []struct {
	text string
	hex  string
	emit func(a *Asm, behind Label)
}{
	{"incq %gs:0x80", "6548ff042580000000", func(a *Asm, _ Label) { a.IncGS(0x80) }},
	{"cmpq $0x3e8,%gs:0x80", "6548813c2580000000e8030000", func(a *Asm, _ Label) { a.CmpGSImm(0x80, 1000) }},
	{"lock incq 0x200(%rip) # 401208", "f048ff0500020000", func(a *Asm, _ Label) { a.LockIncTo(at + 0x208) }},
	{"cmpq $0x3e8,0x200(%rip) # 40120b", "48813d00020000e8030000", func(a *Asm, _ Label) { a.CmpToImm(at+0x20b, 1000) }},
	{"jge 401100", "0f8dfa000000", func(a *Asm, _ Label) { a.JccTo(CondGE, at+0x100) }},
	{"je 401006", "0f8400000000", func(a *Asm, l Label) { a.Jcc(CondE, l) }},
	{"jmp 400f00", "e9fbfeffff", func(a *Asm, _ Label) { a.JmpTo(at - 0x100) }},
	{"jmp 401005", "e900000000", func(a *Asm, l Label) { a.Jmp(l) }},
	{"jmp 401002", "eb00", func(a *Asm, l Label) { a.JmpShort(l) }},
	{"call 401100", "e8fb000000", func(a *Asm, _ Label) { a.CallTo(at + 0x100) }},
	{"call 401005", "e800000000", func(a *Asm, l Label) { a.Call(l) }},
	{"int3", "cc", func(a *Asm, _ Label) { a.Int3() }},
	{"push 0x0(%rip) # 401006", "ff3500000000", func(a *Asm, l Label) { a.PushMem(l) }},
	{"jmp *0x0(%rip) # 401006", "ff2500000000", func(a *Asm, l Label) { a.JmpMem(l) }},
	{"jmp *0xfa(%rip) # 401100", "ff25fa000000", func(a *Asm, _ Label) { a.JmpMemAt(at + 0x100) }},
	{"lock decq 0xf8(%rip) # 401100", "f048ff0df8000000", func(a *Asm, _ Label) { a.LockDecAt(at + 0x100) }},
	{"push $0x401234", "6834124000", func(a *Asm, _ Label) { a.PushImm(0x401234) }},
	{"lea -0x80(%rsp),%rsp", "488d642480", func(a *Asm, _ Label) { a.LeaRSP(-128) }},
	{"lea 0x88(%rsp),%rsp", "488da42488000000", func(a *Asm, _ Label) { a.LeaRSP(136) }},
	{"lea 0x0(%rip),%rcx # 401007", "488d0d00000000", func(a *Asm, l Label) { a.LeaRCX(l) }},
	{"lea 0xff9(%rip),%rcx # 402000", "488d0df90f0000", func(a *Asm, _ Label) { a.LeaRCXTo(at + 0x1000) }},
	{"push %rax", "50", func(a *Asm, _ Label) { a.PushRAX() }},
	{"pop %rax", "58", func(a *Asm, _ Label) { a.PopRAX() }},
	{"push %rcx", "51", func(a *Asm, _ Label) { a.PushRCX() }},
	{"pop %rcx", "59", func(a *Asm, _ Label) { a.PopRCX() }},
	{"push %rdx", "52", func(a *Asm, _ Label) { a.PushRDX() }},
	{"pop %rdx", "5a", func(a *Asm, _ Label) { a.PopRDX() }},
	{"cmp %gs:0x80,%rdi", "65483b3c2580000000", func(a *Asm, _ Label) { a.CmpGSReg(0x80, RDI) }},
	{"cmp %gs:0x80,%r12", "654c3b242580000000", func(a *Asm, _ Label) { a.CmpGSReg(0x80, 12) }},
	{"cmpq $0x0,%gs:0x80", "6548833c258000000000", func(a *Asm, _ Label) { a.CmpGSZero(0x80) }},
	{"cmpl $0xffffffff,%gs:0x14", "65833c2514000000ff", func(a *Asm, _ Label) { a.CmpGSByte(0x14, -1) }},
	{"mov %rax,%gs:0x80", "654889042580000000", func(a *Asm, _ Label) { a.MovGSRAX(0x80) }},
	{"mov %rsp,%gs:0x80", "654889242580000000", func(a *Asm, _ Label) { a.MovGSRSP(0x80) }},
	{"cmp %gs:0x80,%rsp", "65483b242580000000", func(a *Asm, _ Label) { a.CmpGSReg(0x80, RSP) }},
	{"movq $0x0,%gs:0x80", "6548c704258000000000000000", func(a *Asm, _ Label) { a.MovGSImm(0x80, 0) }},
	{"mov %gs:0x80,%rax", "65488b042580000000", func(a *Asm, _ Label) { a.LoadGSRAX(0x80) }},
	{"mov %gs:0x80,%rcx", "65488b0c2580000000", func(a *Asm, _ Label) { a.LoadGSRCX(0x80) }},
	{"cmpxchg %rcx,%gs:0x80", "65480fb10c2580000000", func(a *Asm, _ Label) { a.CmpxchgGSRCX(0x80) }},
	{"incq %gs:0x80(,%rcx,8)", "6548ff04cd80000000", func(a *Asm, _ Label) { a.IncGSRCX8(0x80) }},
	{"lea 0x90(%rsp),%rax", "488d842490000000", func(a *Asm, _ Label) { a.LeaRAXAboveRSP(0x90) }},
	{"mov $0x1b,%ecx", "b91b000000", func(a *Asm, _ Label) { a.MovECX(27) }},
	{"cmp %rax,%rcx", "4839c1", func(a *Asm, _ Label) { a.CmpRCXRAX() }},
	{"cmp $0x1b,%ecx", "83f91b", func(a *Asm, _ Label) { a.CmpECX(27) }},
	{"not %rcx", "48f7d1", func(a *Asm, _ Label) { a.NotRCX() }},
	{"or $0x1,%rcx", "4883c901", func(a *Asm, _ Label) { a.OrRCX(1) }},
	{"bsr %rcx,%rcx", "480fbdc9", func(a *Asm, _ Label) { a.BsrRCX() }},
	{"jbe 401002", "7600", func(a *Asm, l Label) { a.JccShort(CondBE, l) }},
	{"ja 401002", "7700", func(a *Asm, l Label) { a.JccShort(CondA, l) }},
	{"jrcxz 401002", "e300", func(a *Asm, l Label) { a.JrcxzShort(l) }},
	{"js 401002", "7800", func(a *Asm, l Label) { a.JccShort(CondS, l) }},
	{"mov %rdi,%rax", "4889f8", func(a *Asm, _ Label) { a.MovRAX(RDI) }},
	{"mov %r9,%rax", "4c89c8", func(a *Asm, _ Label) { a.MovRAX(9) }},
	{"mov 0x10(%rax,%riz,1),%rax", "488b842010000000", func(a *Asm, _ Label) { a.LoadRAX(Memory{Base: RAX, Index: NoRegister, Scale: 1, Disp: 0x10}) }},
	{"mov 0x98(%rsp),%rax", "488b842498000000", func(a *Asm, _ Label) { a.LoadRAX(Memory{Base: RSP, Index: NoRegister, Scale: 1, Disp: 0x98}) }},
	{"mov 0x0(%r13,%r12,8),%rax", "4b8b84e500000000", func(a *Asm, _ Label) { a.LoadRAX(Memory{Base: 13, Index: 12, Scale: 8, Disp: 0}) }},
	{"mov 0x5000(,%rdi,8),%rax", "488b04fd00500000", func(a *Asm, _ Label) { a.LoadRAX(Memory{Base: NoRegister, Index: RDI, Scale: 8, Disp: 0x5000}) }},
	{"lea 0x10(%rax),%rcx", "488d4810", func(a *Asm, _ Label) { a.Lea(RCX, Memory{Base: RAX, Index: NoRegister, Scale: 1, Disp: 0x10}) }},
	{"lea 0x98(%rsp),%rsi", "488db42498000000", func(a *Asm, _ Label) { a.Lea(RSI, Memory{Base: RSP, Index: NoRegister, Scale: 1, Disp: 0x98}) }},
	{"lea -0x8(%r12),%r9", "4d8d4c24f8", func(a *Asm, _ Label) { a.Lea(R9, Memory{Base: 12, Index: NoRegister, Scale: 1, Disp: -8}) }},
	{"lea 0x7f(%rsp),%rax", "488d44247f", func(a *Asm, _ Label) { a.Lea(RAX, Memory{Base: RSP, Index: NoRegister, Scale: 1, Disp: 127}) }},
	{"lea 0x80(%rax,%riz,1),%rcx", "488d8c2080000000", func(a *Asm, _ Label) { a.Lea(RCX, Memory{Base: RAX, Index: NoRegister, Scale: 1, Disp: 128}) }},
	{"lea 0x0(%r13,%r12,8),%rdx", "4b8d54e500", func(a *Asm, _ Label) { a.Lea(RDX, Memory{Base: 13, Index: 12, Scale: 8, Disp: 0}) }},
	{"lea 0x5000(,%rdi,8),%r9", "4c8d0cfd00500000", func(a *Asm, _ Label) { a.Lea(R9, Memory{Base: NoRegister, Index: RDI, Scale: 8, Disp: 0x5000}) }},
	{"lea 0xff9(%rip),%rsi # 402000", "488d35f90f0000", func(a *Asm, _ Label) { a.LeaTo(RSI, at+0x1000) }},
	{"push %rsi", "56", func(a *Asm, _ Label) { a.Push(RSI) }},
	{"pop %rdx", "5a", func(a *Asm, _ Label) { a.Pop(RDX) }},
	{"mov (%rsp),%rcx", "488b0c24", func(a *Asm, _ Label) { a.LoadTop(RCX) }},
	{"shl $0x11,%rsi", "48c1e611", func(a *Asm, _ Label) { a.Shl(RSI, 17) }},
	{"shr $0x1d,%rcx", "48c1e91d", func(a *Asm, _ Label) { a.Shr(RCX, 29) }},
	{"movb $0x1,0x7fff8001(%rdx,%rdx,1)", "c684120180ff7f01", func(a *Asm, _ Label) { a.MovByteAtTwice(RDX, 0x7fff8001, 1) }},
	{"movw $0x101,0x7fff8000(%rsi,%rsi,1)", "66c784360080ff7f0101", func(a *Asm, _ Label) { a.MovWordAtTwice(RSI, 0x7fff8000, 0x101) }},
	{"lea 0xff9(%rip),%r9 # 402000", "4c8d0df90f0000", func(a *Asm, _ Label) { a.LeaTo(R9, at+0x1000) }},
	{"shl $0x11,%r13", "49c1e511", func(a *Asm, _ Label) { a.Shl(13, 17) }},
	{"shr $0x1d,%r9", "49c1e91d", func(a *Asm, _ Label) { a.Shr(R9, 29) }},
	{"pext 0x0(%rip),%rcx,%rcx # 401009", "c4e2f2f50d00000000", func(a *Asm, l Label) { a.Pext(RCX, RCX, l) }},
	{"pext 0x0(%rip),%r13,%r13 # 401009", "c46292f52d00000000", func(a *Asm, l Label) { a.Pext(13, 13, l) }},
	{"pext 0x0(%rip),%rsp,%r9 # 401009", "c462daf50d00000000", func(a *Asm, l Label) { a.Pext(R9, RSP, l) }},
	{"movb $0x1,0x7fff8001(%r13,%r13,1)", "43c6842d0180ff7f01", func(a *Asm, _ Label) { a.MovByteAtTwice(13, 0x7fff8001, 1) }},
	{"movw $0x101,0x7fff8000(%r12,%r12,1)", "6643c784240080ff7f0101", func(a *Asm, _ Label) { a.MovWordAtTwice(12, 0x7fff8000, 0x101) }},
	{"cmpb $0xff,0x7fff8001(%rdx,%rdx,1)", "80bc120180ff7fff", func(a *Asm, _ Label) { a.CmpByteAtTwice(RDX, 0x7fff8001, -1) }},
	{"cmpb $0xff,0x7fff8000(%r13,%r13,1)", "4380bc2d0080ff7fff", func(a *Asm, _ Label) { a.CmpByteAtTwice(13, 0x7fff8000, -1) }},
	{"test $0xf80,%eax", "f7c0800f0000", func(a *Asm, _ Label) { a.TestImm(RAX, 0xf80) }},
	{"test $0xff8,%r13d", "41f7c5f80f0000", func(a *Asm, _ Label) { a.TestImm(13, 0xff8) }},
	{"rex test $0x7,%al", "40f6c007", func(a *Asm, _ Label) { a.TestByteImm(RAX, 7) }},
	{"test $0x3,%dil", "40f6c703", func(a *Asm, _ Label) { a.TestByteImm(RDI, 3) }},
	{"test $0x1,%r12b", "41f6c401", func(a *Asm, _ Label) { a.TestByteImm(12, 1) }},
	{"movzwl 0x7fff8000(%rcx,%rcx,1),%ecx", "0fb78c090080ff7f", func(a *Asm, _ Label) { a.MovzxWordAtTwice(RCX, 0x7fff8000) }},
	{"movzwl 0x7fff8000(%r13,%r13,1),%r13d", "470fb7ac2d0080ff7f", func(a *Asm, _ Label) { a.MovzxWordAtTwice(13, 0x7fff8000) }},
	{"cmpw $0x0,0x7fff8000(%rdx,%rdx,1)", "6683bc120080ff7f00", func(a *Asm, _ Label) { a.CmpWordAtTwice(RDX, 0x7fff8000, 0) }},
	{"cmpw $0x0,0x7fff8000(%r13,%r13,1)", "664383bc2d0080ff7f00", func(a *Asm, _ Label) { a.CmpWordAtTwice(13, 0x7fff8000, 0) }},
	{"mov %rcx,0x10(%rsp)", "48894c2410", func(a *Asm, _ Label) { a.StoreAboveRSP(16, RCX) }},
	{"mov %r13,0x10(%rsp)", "4c896c2410", func(a *Asm, _ Label) { a.StoreAboveRSP(16, 13) }},
	{"movq $0x12345,(%rsp)", "48c7042445230100", func(a *Asm, _ Label) { a.StoreImmAtRSP(0x12345) }},
	{"mov %rcx,%gs:0x80", "6548890c2580000000", func(a *Asm, _ Label) { a.MovGSReg(0x80, RCX) }},
	{"mov %gs:0x80,%r9", "654c8b0c2580000000", func(a *Asm, _ Label) { a.LoadGSReg(0x80, R9) }},
	{"mov 0xff9(%rip),%rax # 402000", "488b05f90f0000", func(a *Asm, _ Label) { a.LoadRAXAt(at + 0x1000) }},
	{"imul $0x9e3779b1,%eax,%ecx", "69c8b179379e", func(a *Asm, _ Label) { a.ImulEAXToECX(0x9e3779b1) }},
	{"imul $0x9e3779b1,%ecx,%ecx", "69c9b179379e", func(a *Asm, _ Label) { a.ImulECX(0x9e3779b1) }},
	{"shr $0x14,%ecx", "c1e914", func(a *Asm, _ Label) { a.ShrECX(20) }},
	{"shl $0x8,%ecx", "c1e108", func(a *Asm, _ Label) { a.ShlECX(8) }},
	{"add $0x80,%ecx", "81c180000000", func(a *Asm, _ Label) { a.AddECX(0x80) }},
	{"mov $0x8,%edx", "ba08000000", func(a *Asm, _ Label) { a.MovEDX(8) }},
	{"dec %edx", "ffca", func(a *Asm, _ Label) { a.DecEDX() }},
	{"cmp %rax,%gs:(%rcx)", "65483901", func(a *Asm, _ Label) { a.CmpAtRCX() }},
	{"cmpq $0x0,%gs:(%rcx)", "6548833900", func(a *Asm, _ Label) { a.CmpZeroAtRCX() }},
	{"mov %rax,%gs:(%rcx)", "65488901", func(a *Asm, _ Label) { a.MovAtRCX() }},
	{"cmpl $0x80,%gs:0x8(%rcx)", "6581790880000000", func(a *Asm, _ Label) { a.CmpImmAtRCX(8, 0x80) }},
	{"movl $0x80,%gs:0x8(%rcx)", "65c7410880000000", func(a *Asm, _ Label) { a.MovImmAtRCX(8, 0x80) }},
	{"incq %gs:0x10(%rcx)", "6548ff4110", func(a *Asm, _ Label) { a.IncAtRCX(16) }},
	{"cmp 0x7fff70c0,%rsp", "483b2425c070ff7f", func(a *Asm, l Label) { a.CmpAbsolute(RSP, 0x7fff70c0) }},
	{"cmp 0x7fff70c8,%r13", "4c3b2c25c870ff7f", func(a *Asm, l Label) { a.CmpAbsolute(13, 0x7fff70c8) }},
	{"jb 401006", "0f8200000000", func(a *Asm, l Label) { a.Jcc(CondB, l) }},
	{"jne 401002", "7500", func(a *Asm, l Label) { a.JccShort(CondNE, l) }},
	{"lahf", "9f", func(a *Asm, _ Label) { a.Lahf() }},
	{"sahf", "9e", func(a *Asm, _ Label) { a.Sahf() }},
	{"seto %al", "0f90c0", func(a *Asm, _ Label) { a.SetoAL() }},
	{"add $0x7f,%al", "047f", func(a *Asm, _ Label) { a.AddAL(0x7f) }},
	{"syscall", "0f05", func(a *Asm, _ Label) { a.Syscall() }},
}

func assemble(t *testing.T, emit func(a *Asm, behind Label)) []byte {
	t.Helper()
	var a Asm
	buf := make([]byte, 64)
	a.Reset(buf, at)
	behind := a.NewLabel()
	emit(&a, behind)
	a.Bind(behind)
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	return buf[:a.Len()]
}

func TestEncodings(t *testing.T) {
	for _, row := range encodings {
		t.Run(row.text, func(t *testing.T) {
			code := assemble(t, row.emit)
			if got := hex.EncodeToString(code); got != row.hex {
				t.Errorf("encoded as %s, want %s", got, row.hex)
			}
			if got := disassemble(t, code); got != row.text {
				t.Errorf("objdump reads %q", got)
			}
		})
	}
}

// disassemble returns objdump's text of the one instruction in code.
func disassemble(t *testing.T, code []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64",
		"--adjust-vma=0x401000", "--no-show-raw-insn", file).Output()
	if err != nil {
		t.Fatalf("objdump: %v", err)
	}
	lines := regexp.MustCompile(`(?m)^ *[0-9a-f]+:\t(.*)$`).FindAllStringSubmatch(string(out), -1)
	if len(lines) != 1 {
		t.Fatalf("objdump reads %d instructions from %x", len(lines), code)
	}
	text := strings.Join(strings.Fields(lines[0][1]), " ")
	return strings.ReplaceAll(strings.ReplaceAll(text, " 0x40", " 40"), "# 0x", "# ")
}

func TestAsmErrors(t *testing.T) {
	var a Asm
	check := func(name string, want error, emit func()) {
		t.Helper()
		a.Reset(make([]byte, 16), at)
		emit()
		if err := a.Finish(); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
	check("a jump over 2 GiB", ErrReach, func() { a.JmpTo(at + 1<<31 + 5) })
	check("the furthest jump", nil, func() { a.JmpTo(at + 1<<31 - 1 + 5) })
	const high RunAddr = 1 << 40
	backTo := func(target RunAddr) func() {
		return func() { a.Reset(make([]byte, 16), high); a.JmpTo(target) }
	}
	check("the furthest jump back", nil, backTo(high-1<<31+5))
	check("a jump further back", ErrReach, backTo(high-1<<31+4))
	check("a full buffer", ErrRoom, func() { a.Quad(1); a.Quad(2); a.Raw(3) })
	check("a short jump too far", ErrReach, func() {
		a.Reset(make([]byte, 256), at)
		l := a.NewLabel()
		a.JmpShort(l)
		a.Copy(make([]byte, 128))
		a.Bind(l)
	})
}

func TestAlignIsByRunAddress(t *testing.T) {
	var a Asm
	a.Reset(make([]byte, 32), at+3)
	a.Align(16)
	if a.PC() != at+16 || a.Len() != 13 {
		t.Errorf("at %#x after %d bytes", a.PC(), a.Len())
	}
}
