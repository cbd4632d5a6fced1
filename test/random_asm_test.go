package test

import (
	"fmt"
	"strings"
)

// shape writes the body of one function of assembly: instructions, with "; "
// between, "{self}" for its name, and "!" at the end if it falls through. It
// writes nothing if it does not find what it wants to call.
type shape func(g *generator, f *randomFunction) string

// tidy are the functions that any caller may call.
func tidy(f *randomFunction) bool { return !f.flags && !f.red }

// spend picks a tidy function and adds its cost; nil if there is none.
func (g *generator) spend(f *randomFunction, times int, ok func(*randomFunction) bool) *randomFunction {
	to := g.callee(times, ok)
	if to != nil {
		f.cost += times * to.cost
	}
	return to
}

// outcome makes rax what the function returns, after a call of to.
func outcome(to *randomFunction, k int) string {
	if to.void {
		return fmt.Sprintf("mov $%d, %%eax", k)
	}
	return fmt.Sprintf("lea %d(%%rax), %%rax", k)
}

// calling fills the callee and what its call leaves in rax into a text.
func (g *generator) calling(to *randomFunction, text string) string {
	return strings.NewReplacer("{to}", to.name, "{outcome}", outcome(to, g.IntN(99))).Replace(text)
}

// finish ends a function whose arguments are still in their registers.
func (g *generator) finish(f *randomFunction) string {
	k := g.IntN(300)
	if g.IntN(3) == 0 {
		if to := g.spend(f, 1, tidy); to != nil {
			f.loose = f.loose && to.loose
			f.void = f.void || to.void
			return of(g, "jmp .L"+to.name, "jmp "+to.name)
		}
	}
	return of(g,
		fmt.Sprintf("lea %d(%%rdi,%%rsi,2), %%rax; ret", k),
		"mov %rdi, %rax; ret",
		"mov %esi, %eax; rep ret",
		fmt.Sprintf("imul $%d, %%rdi, %%rax; ret", k),
		"xor %eax, %eax; ret",
		fmt.Sprintf("mov random_words+%d(%%rip), %%rax; ret", k%16*8))
}

// condition of a jcc, after a comparison.
func (g *generator) condition() string {
	return of(g, "e", "ne", "s", "ns", "l", "ge", "le", "g", "b", "ae", "be", "a", "o", "p", "np")
}

func (g *generator) compare() string {
	return of(g, "test %edi, %edi", "test %rsi, %rsi", fmt.Sprintf("cmp $%d, %%edi", g.IntN(9)), "cmp %rdi, %rsi",
		fmt.Sprintf("cmpl $%d, random_words+%d(%%rip)", g.IntN(99), g.IntN(16)*8))
}

var shapes = []shape{
	// A few bytes.
	func(g *generator, f *randomFunction) string {
		f.leaf = true
		text := of(g, "ret", "rep ret", "nop; ret", "xor %eax, %eax; ret", "mov %edi, %eax; ret", "lea 1(%rdi), %eax; ret",
			"mov %rsi, %rax; ret", "sub %eax, %eax; nop; ret", "mov $7, %al; movzbl %al, %eax; ret", "push $5; pop %rax; ret")
		f.void = !strings.Contains(text, "ax")
		return text
	},
	// 1 to 20 bytes without a branch.
	func(g *generator, f *randomFunction) string {
		text := ""
		for range g.IntN(6) {
			text += of(g, "inc %edi", "lea (%rdi,%rsi), %rdi", "not %rsi", "add $3, %rdi", "xchg %rdi, %rsi", "bswap %edi", "shl %esi",
				"cltq", "nop", "data16 nop", "nopl 0(%rax)", "movslq %edi, %rdi", "xor $0x1234567, %esi", "mov %cs, %ecx") + "; "
		}
		f.void = true
		return text + "ret"
	},
	// Operands relative to the instruction pointer.
	func(g *generator, f *randomFunction) string {
		word := fmt.Sprintf("random_words+%d(%%rip)", g.IntN(16)*8)
		text := of(g, "incl {}", "addq $0x12345, {}", "add %rdi, {}", "movq $-5, {}", "mov {}, %rsi", "lea {}, %rcx; mov (%rcx), %rdi",
			"movq {}, %xmm1; movq %xmm1, %rdi", "cmpb $7, {}", "movhps {}, %xmm2", "push {}; pop %rsi")
		return strings.ReplaceAll(text, "{}", word) + "; " + g.finish(f)
	},
	// A branch first.
	func(g *generator, f *randomFunction) string {
		return fmt.Sprintf("%s; %sj%s 1f; %s; 1: %s", g.compare(), of(g, "", "{disp32} "), g.condition(), g.finish(f), g.finish(f))
	},
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, tidy)
		f.loose = to != nil && to.loose
		if to == nil || to.void {
			return ""
		}
		return fmt.Sprintf("%s; j%s .L%s; %s", g.compare(), g.condition(), to.name, g.finish(f))
	},
	func(g *generator, f *randomFunction) string {
		return "mov %edi, %ecx; " + of(g, "jrcxz 1f", "jecxz 1f", "and $7, %ecx; jrcxz 1f") + "; add $5, %rdi; nop; 1: " + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		return "mov %edi, %ecx; and $3, %ecx; inc %ecx; 1: add %rsi, %rdi; " + of(g, "loop 1b", "dec %ecx; jnz 1b") + "; " + g.finish(f)
	},
	// Loops to the entry, into the window, from behind.
	func(g *generator, f *randomFunction) string {
		f.cost += 40
		return "and $7, %edi; " + of(g, "", "lea 1(%rsi), %rsi; ", "nop; ") + "dec %edi; " + of(g, "", "{disp32} ") + "jns .L{self}; " + of(g, "", ".fill 70, 1, 0x90; ") + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		f.cost += 40
		return "and $7, %edi; 1: " + of(g, "lea (%rsi,%rsi,2), %rsi; ", "inc %rsi; ", "") + "dec %edi; jns 1b; " + of(g, "", ".fill 300, 1, 0x90; ") + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		f.cost += 40
		return "and $7, %edi; " + of(g, "", "{disp32} ") + "jmp 1f; 2: add $3, %rsi; 1: dec %edi; jns 2b; " + g.finish(f)
	},
	// The same with a call, so that the body must stay.
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 8, tidy)
		if to == nil {
			return ""
		}
		f.loose = false
		entry := of(g, ".L{self}", "1b")
		return "and $7, %edi; 1: push %rdi; call " + to.name + "; pop %rdi; dec %edi; " + of(g, "", "{disp32} ") + "jns " + entry + "; mov $9, %eax; ret"
	},
	// Calls first.
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(f *randomFunction) bool { return tidy(f) && f.loose })
		if to == nil {
			return ""
		}
		return g.calling(to, of(g, "call {to}; ", "call .L{to}; ", "addr32 call {to}; ", ".byte 0xf2; call {to}; ", "call *.Lp{to}(%rip); ", "nop; nop; call {to}; ", "call *{to}@GOTPCREL(%rip); ",
			"lea .L{to}(%rip), %r11; call *%r11; ")+"{outcome}; ret")
	},
	// Ordinary frames.
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, tidy)
		if to == nil {
			return ""
		}
		f.loose = false
		return g.calling(to, of(g, "push %rbx; mov %rdi, %rbx; call {to}; {outcome}; add %rbx, %rax; pop %rbx; ret",
			"sub $8, %rsp; call {to}; {outcome}; add $8, %rsp; ret", "sub $8, %rsp; call *.Lp{to}(%rip); {outcome}; pop %rcx; ret",
			"push %rbp; mov %rsp, %rbp; call *{to}@GOTPCREL(%rip); {outcome}; leave; ret",
			"lea .L{to}(%rip), %rax; push %r12; call *%rax; pop %r12; {outcome}; ret"))
	},
	// Tail jumps.
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, tidy)
		if to == nil {
			return ""
		}
		f.loose, f.void = to.loose, to.void
		return g.calling(to, of(g, "", "lea 1(%rdi,%rsi), %rsi; ", "xchg %rdi, %rsi; ", "nop; ")+
			of(g, "jmp .L{to}", "jmp {to}", ".byte 0xf2; jmp {to}", "jmp *.Lp{to}(%rip)", "lea .L{to}(%rip), %rax; jmp *%rax", "lea .L{to}(%rip), %rax; notrack jmp *%rax",
				"lea .L{to}(%rip), %rax; push %rax; ret", "jmp *{to}@GOTPCREL(%rip)", "push .Lp{to}(%rip); ret"))
	},
	// Jump tables: to labels of its own, and out.
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(to *randomFunction) bool { return tidy(to) && to.asm && to.loose })
		if to == nil {
			return ""
		}
		f.void = to.void
		return ".pushsection .rodata; .p2align 2; 9: .long 1f - 9b, 2f - 9b, " + of(g, "1f", "2f") + " - 9b, .L" + to.name + " - 9b; .popsection; " +
			"mov %edi, %edx; and $3, %edx; lea 9b(%rip), %rcx; movslq (%rcx,%rdx,4), %rax; add %rcx, %rax; jmp *%rax; 1: mov $11, %eax; ret; 2: lea (%rdi,%rdi), %rax; ret"
	},
	// Recursion.
	func(g *generator, f *randomFunction) string {
		f.cost += 60
		return "and $7, %edi; " + of(g, "dec %edi; ", "sub $2, %edi; ", "test %edi, %edi; lea -1(%rdi), %edi; ") + "jle 1f; push %rdi; call " + of(g, ".L{self}", "{self}") + "; pop %rdi; " +
			of(g, "", "jmp 2f; 2: ") + "1: lea 2(%rdi), %rax; ret"
	},
	// Falls into what comes next, if that can be called.
	func(g *generator, f *randomFunction) string {
		if len(g.all) == 0 {
			return ""
		}
		last := g.all[len(g.all)-1]
		if !last.asm || !tidy(last) {
			return ""
		}
		f.loose, f.void, f.cost = last.loose, last.void, f.cost+last.cost
		return of(g, "lea 1(%rdi), %rdi", "nop", "inc %edi", "xor %rsi, %rdi; add $1, %rsi", "mov random_words(%rip), %rdi", "test %edi, %edi; js 1f; inc %edi; 1: nop") + "!"
	},
	// Another entry inside.
	func(g *generator, f *randomFunction) string {
		inside := &randomFunction{name: g.name("n"), asm: true, cost: 20, loose: true}
		body := of(g, "inc %edi; ", "lea 1(%rdi), %rdi; ", "nop; nop; ", "add %rsi, %rdi; nop; lea 4(%rsi), %rsi; ") +
			fmt.Sprintf(".globl %[1]s; .type %[1]s, @function; %[1]s: .L%[1]s: ", inside.name) + of(g, "", "lea 5(%rsi), %rsi; ", "not %edi; ") + g.finish(f) +
			fmt.Sprintf("; .size %[1]s, . - %[1]s", inside.name)
		inside.void, inside.cost, inside.loose = f.void, f.cost, f.loose
		g.all = append(g.all, inside)
		return body
	},
	// A label in the first bytes, and jumps to such.
	func(g *generator, f *randomFunction) string {
		f.inner = ".Lin_" + f.name
		return of(g, "inc %edi; ", "lea 1(%rdi), %rdi; ", "nop; ", "push %rax; pop %rax; ") + f.inner + ": " + of(g, "", "not %rsi; ", "lea 7(%rdi,%rsi), %rsi; ", "{disp32} jmp 3f; nop; 3: ") + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(to *randomFunction) bool { return to.inner != "" })
		if to == nil {
			return ""
		}
		f.loose, f.void = to.loose, to.void
		return of(g, "", "lea 3(%rdi), %rdi; ", "dec %esi; ", "endbr64; ") + "jmp " + to.inner
	},
	// A cold part.
	func(g *generator, f *randomFunction) string {
		return fmt.Sprintf("and $15, %%edi; cmp $%d, %%edi; {disp32} j%s {self}.cold; 2: %s", g.IntN(9), of(g, "e", "le", "g"), g.finish(f))
	},
	// Flags for arguments.
	func(g *generator, f *randomFunction) string {
		f.flags = true
		return of(g, "adc %rsi, %rdi; ", "sbb %eax, %eax; add %rax, %rdi; ", "setc %al; movzbl %al, %edi; ", "lea 1(%rdi), %rdi; cmovbe %rsi, %rdi; ", "jp 1f; lea 5(%rsi), %rsi; 1: ",
			"mov $0, %eax; rcl $1, %edi; ", "jo 1f; nop; nop; nop; 1: cmc; adc $0, %edi; ", "{disp32} ja 1f; 1: jle 2f; dec %edi; 2: ") + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(to *randomFunction) bool { return to.flags && to.loose })
		if to == nil {
			return ""
		}
		f.void = to.void
		return g.compare() + g.calling(to, of(g, "; jmp .L{to}", "; call {to}; {outcome}; ret", "; {disp32} jmp .L{to}", "; lea 8(%rdi), %rdi; j"+g.condition()+" .L{to}; call .L{to}; nop; ret"))
	},
	// The red zone, kept over a jump.
	func(g *generator, f *randomFunction) string {
		f.red = true
		return of(g, "", "cmp %rsi, %rdi; ", "adc $1, %rdi; ") + "mov -8(%rsp), %rdi; mov -120(%rsp), %rax; add -16(%rsp), %rax; add %rdi, %rax; ret"
	},
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(to *randomFunction) bool { return to.red })
		if to == nil {
			return ""
		}
		return "mov %rdi, -8(%rsp); mov %rsi, -16(%rsp); movq $77, -120(%rsp); " + of(g, "", "stc; ", "cmp %edi, %edi; ") + "jmp " + of(g, "", ".L") + to.name
	},
	// Its own address; a caller that knows what its callee leaves alone.
	func(g *generator, f *randomFunction) string {
		return of(g, "call 1f; 1: pop %rax; lea 1b(%rip), %rcx", "lea .L{self}(%rip), %rax; lea .L{self}(%rip), %rcx", "mov (%rsp), %rax; mov (%rsp), %rcx") + "; sub %rcx, %rax; add %rdi, %rax; ret"
	},
	func(g *generator, f *randomFunction) string {
		to := g.spend(f, 1, func(to *randomFunction) bool { return to.leaf })
		if to == nil {
			return ""
		}
		return "mov %rdi, %r10; mov %rsi, %r11; mov $3, %ecx; call " + to.name + "; lea (%r10,%r11), %rax; add %rcx, %rax; ret"
	},
	// NOPs to be patched, a system call.
	func(g *generator, f *randomFunction) string {
		return fmt.Sprintf(".nops %d; ", 1+g.IntN(16)) + g.finish(f)
	},
	func(g *generator, f *randomFunction) string {
		return of(g, "mov $39, %eax; ", "nop; mov $110, %al; movzbl %al, %eax; ") + "syscall; xor %eax, %eax; ret"
	},
	func(g *generator, f *randomFunction) string {
		return "movq %rdi, %xmm0; movq %rsi, %xmm1; paddq %xmm1, %xmm0; pshufd $0x4e, %xmm0, %xmm2; movq %xmm0, %rax; ret"
	},
}

// assembly adds a function in assembly.
func (g *generator) assembly() {
	var f *randomFunction
	text, own := "", g.all
	for text == "" {
		g.all = own
		f = &randomFunction{name: g.name("a"), asm: true, cost: 12, loose: true}
		text = of(g, shapes...)(g, f)
	}
	g.all = append(g.all, f)
	g.functions = append(g.functions, g.wrap(f, text))
}

// wrap puts labels, sizes, alignment and whatever may stand around the text.
func (g *generator) wrap(f *randomFunction, text string) string {
	text, falls := strings.CutSuffix(text, "!")
	after := of(g, "", "", "", ".balign 16, 0xcc", ".balign 8, 0xcc", ".skip 3, 0x90", ".nops 7")
	if falls {
		after = of(g, "", "", ".p2align 4", ".nops 2")
	}
	lines := []string{
		of(g, "", "", ".p2align 1", ".p2align 2", ".p2align 3", ".p2align 4", ".p2align 4", ".p2align 4", ".p2align 5"),
		".globl {self}", ".type {self}, @function", "{self}: .L{self}:", ".cfi_startproc",
		of(g, "", "", "", "endbr64") + "; " + text,
		".cfi_endproc", ".size {self}, . - {self}", after,
	}
	if strings.Contains(text, ".cold") {
		lines = append(lines, `.pushsection .text.unlikely, "ax", @progbits; .type {self}.cold, @function; {self}.cold: .cfi_startproc`,
			"lea 3(%rsi), %rsi; jmp 2b; .cfi_endproc; .size {self}.cold, . - {self}.cold; .popsection")
	}
	if g.IntN(8) == 0 {
		lines = append(lines, ".globl {self}_alias; .set {self}_alias, {self}")
	}
	all := strings.Join(lines, "; ")
	if g.IntN(8) == 0 {
		all = strings.NewReplacer(".cfi_startproc", "", ".cfi_endproc", "").Replace(all)
	}
	all = strings.ReplaceAll(all, "{self}", f.name)
	return "\t" + strings.ReplaceAll(all, "; ", "\n\t") + "\n"
}
