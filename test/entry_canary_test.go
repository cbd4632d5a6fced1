package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// canaryCalls is how often the program calls each function: CALLS of
// harness.c.
const canaryCalls = 12

// canary is a kind of entry: what stands there, and what it changes, in the
// words of harness.c: general registers, FLAGS, X87, MXCSR, VECTOR, STACK; ABI,
// if it calls, returns or jumps where a pointer leads, so that the caller's flags may be lost;
// SMALL, if rcx must be small.
//
// In the text {} is the function's own name, {far} the prefix for a long
// branch, and the local label 1 is for the kind's own use.
type canary struct {
	name, text, changes string
	// only: the text is all of the function, no jump to capture follows.
	only bool
	// needs is a word of the processor's flags in /proc/cpuinfo.
	needs string
	// uncounted is the reason for which versions of it that stay in place may
	// be left uncounted.
	uncounted string
}

var canaries = slices.Concat([]canary{
	{name: "plain", text: "lea 0(%rbx), %rbx; lea 0(%rbp), %rbp"},
	{name: "one_byte_each", text: "nop; push %r9; pop %r9; nop; nop; nop", changes: "STACK"},
	{name: "long_instruction", text: "movabs $0x1122334455667788, %r9", changes: "r9"},
	{name: "prologue", text: "push %rbp; mov %rsp, %rbp; push %rbx; pop %rbx; pop %rbp", changes: "STACK"},
	{name: "frame", text: "enter $32, $0; leave", changes: "STACK"},
	{name: "push_rsp", text: "push %rsp; pop %rax; nop; nop; nop", changes: "rax STACK"},
	{name: "red_zone", text: "mov -8(%rsp), %rax; mov -128(%rsp), %rdx", changes: "rax rdx"},
	{name: "caller_stack", text: "mov 8(%rsp), %rax; mov 256(%rsp), %rdx", changes: "rax rdx"},
	{name: "return_address", text: "mov (%rsp), %rax; nop", changes: "rax"},
	{name: "strings", text: "stosq; lodsw; movsb", changes: "rax rsi rdi"},
	{name: "save_flags", text: "pushfq; pop %rax; nop; nop; nop", changes: "rax STACK"},
	{name: "lahf", text: "lahf; seto %al; nop", changes: "rax"},
	{name: "adc", text: "adc %rbp, %rax; nop; nop", changes: "rax FLAGS"},
	{name: "rcl", text: "rcl $1, %rdx; nop; nop", changes: "rdx FLAGS"},
	{name: "cmc", text: "cmc; inc %rax; nop; nop", changes: "rax FLAGS"},
	{name: "cmov", text: "cmovbe %rsi, %rax; cmovo %rdi, %rdx", changes: "rax rdx"},
	{name: "xlat", text: "xchg %rbx, %rdi; mov $3, %al; xlat; xchg %rbx, %rdi", changes: "rax"},

	// Operands relative to the instruction pointer.
	{name: "rip_load", text: "mov canary_word(%rip), %rax", changes: "rax"},
	{name: "rip_store", text: "mov %rsi, canary_word(%rip)"},
	{name: "rip_store_imm32", text: "movq $0x12345678, canary_word(%rip)"},
	{name: "rip_store_imm16", text: "movw $0x1234, canary_word(%rip)"},
	{name: "rip_compare_imm8", text: "cmpb $0x71, canary_word(%rip)", changes: "FLAGS"},
	{name: "rip_lea", text: "lea canary_scratch+9(%rip), %rdx", changes: "rdx"},
	{name: "rip_lea_self", text: "lea {}(%rip), %rdx", changes: "rdx"},
	{name: "rip_add", text: "add %rax, canary_word(%rip)", changes: "FLAGS"},
	{name: "rip_push", text: "push canary_word(%rip); pop %rax", changes: "rax STACK"},
	{name: "rip_xmm", text: "movdqa canary_scratch+16(%rip), %xmm3", changes: "VECTOR"},
	{name: "rip_shuffle", text: "pshufd $0x1b, canary_scratch(%rip), %xmm12", changes: "VECTOR"},
	{name: "rip_ymm", text: "vpaddb canary_scratch(%rip), %ymm9, %ymm2", changes: "VECTOR", needs: "avx2"},
	{name: "rip_vex_imm", text: "vperm2f128 $0x21, canary_scratch(%rip), %ymm1, %ymm13", changes: "VECTOR", needs: "avx"},
	{name: "rip_zmm", text: "vpaddb canary_scratch(%rip), %zmm30, %zmm17{%k3}", changes: "VECTOR", needs: "avx512bw"},
	{name: "rip_evex_imm", text: "vpternlogd $0x96, canary_scratch(%rip){1to16}, %zmm20, %zmm21", changes: "VECTOR", needs: "avx512f"},
	{name: "rip_mxcsr", text: "stmxcsr canary_word(%rip)"},
	{name: "rip_x87", text: "fldl canary_word(%rip); fstpl canary_scratch(%rip)", changes: "X87"},

	// Other registers.
	{name: "x87_stack", text: "fincstp; fxch %st(2); fdecstp", changes: "X87"},
	{name: "x87_control", text: "fnstcw canary_word(%rip); fldcw canary_word(%rip)", changes: "X87"},
	{name: "emms", text: "movq %mm1, %rax; emms", changes: "rax X87"},
	{name: "vzeroupper", text: "vzeroupper; nop; nop", changes: "VECTOR", needs: "avx"},
	{name: "mask", text: "kmovw %k5, %eax; nop", changes: "rax", needs: "avx512f"},

	// jmp.
	{name: "jmp_short", text: "jmp 1f; ud2; nop; nop; nop; 1:"},
	{name: "jmp_near", text: "{far} jmp 1f; ud2; 1:"},
	{name: "jmp_out", text: "mov %ebx, %ebx; jmp capture", changes: "rbx"},
	{name: "jmp_out_first", text: "jmp capture", only: true},
	{name: "jmp_bnd", text: "bnd jmp capture", only: true},
	{name: "jmp_register", text: "jmp *%r13", changes: "ABI"},
	{name: "jmp_register_notrack", text: "notrack jmp *%r13", changes: "ABI"},
	{name: "jmp_memory", text: "jmp *24(%r14)", changes: "ABI"},
	{name: "jmp_memory_rip", text: "jmp *canary_table+8(%rip)", changes: "ABI"},
	{name: "jmp_memory_sib", text: "mov $1, %ecx; jmp *8(%r14,%rcx,8)", changes: "rcx ABI"},
	{name: "jmp_stack", text: "push %r13; lea 8(%rsp), %rsp; jmp *-8(%rsp)", changes: "STACK ABI"},
	{name: "jmp_by_ret", text: "push %r13; ret", changes: "STACK ABI"},

	// call. The original return addresses show in what STACK prints.
	{name: "call", text: "call capture; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_second", text: "lea -24(%rsp), %rsp; call capture; lea 24(%rsp), %rsp; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_after_push", text: "push %rbx; call capture; pop %rbx; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_addr32", text: "addr32 call capture; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_tls", text: ".byte 0x66, 0x66, 0x48, 0xe8; .long capture - . - 4; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_bnd", text: "bnd call capture; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_register", text: "mov %r13, %rax; call *%rax; ret", changes: "rax rsp STACK ABI", only: true},
	{name: "call_register_rex", text: "nop; nop; call *%r13; ret", changes: "rsp STACK ABI", only: true},
	{name: "call_register_first", text: "call *%r13; nop; nop; ret", changes: "rsp STACK ABI", only: true, uncounted: "return-in-window"},
	{name: "call_memory", text: "nop; call *16(%r14); ret", changes: "rsp STACK ABI", only: true},
	{name: "call_memory_long", text: "lea 0xff0(%r14), %rax; call *-0xff0(%rax); ret", changes: "rax rsp STACK ABI", only: true},
	{name: "call_memory_rip", text: "call *canary_table(%rip); ret", changes: "rsp STACK ABI", only: true},
	{name: "call_memory_notrack", text: "notrack call *0(%r14); nop; ret", changes: "rsp STACK ABI", only: true, uncounted: "return-in-window"},
	{name: "call_next", text: "call 1f; 1: pop %rax", changes: "rax STACK ABI"},
	{name: "call_stack", text: "push %r13; call *(%rsp); pop %rdx; ret", changes: "rdx rsp STACK ABI", only: true, uncounted: "unsupported-instruction"},

	// Branches with a short form only.
	{name: "loop", text: "loop 1f; lea 1(%rax), %rax; 1:", changes: "rax rcx"},
	{name: "loope", text: "loope 1f; lea 1(%rax), %rax; 1:", changes: "rax rcx"},
	{name: "loopne", text: "loopne 1f; lea 1(%rax), %rax; 1:", changes: "rax rcx"},
	{name: "loop_ecx", text: "addr32 loop 1f; lea 1(%rax), %rax; 1:", changes: "rax rcx"},
	{name: "jrcxz", text: "jrcxz 1f; lea 1(%rax), %rax; 1:", changes: "rax"},
	{name: "jecxz", text: "jecxz 1f; lea 1(%rax), %rax; 1:", changes: "rax"},
	{name: "jrcxz_second", text: "mov %ebp, %edx; jrcxz 1f; lea 1(%rax), %rax; 1:", changes: "rax rdx"},

	// Loops: the entry counts once.
	{name: "entry_loop", text: "lea 1(%rax), %rax; loop {}", changes: "rax rcx SMALL", uncounted: "entry-loop"},
	{name: "entry_loop_first", text: "loop {}; nop; nop; nop", changes: "rcx SMALL"},
	{name: "entry_loop_jcc", text: "lea 1(%rax), %rax; dec %rcx; jnz {}", changes: "rax rcx FLAGS SMALL", uncounted: "entry-loop"},
	{name: "entry_loop_far", text: "lea 1(%rax), %rax; lea 0(%rdx), %rdx; dec %rcx; {far} jnz {}", changes: "rax rcx FLAGS SMALL"},
	{name: "window_loop", text: "nop; 1: lea 1(%rax), %rax; dec %rcx; jnz 1b", changes: "rax rcx FLAGS SMALL", uncounted: "branch-into-window"},
	{name: "window_skip", text: "jc 1f; nop; 1: lea 1(%rax), %rax", changes: "rax", uncounted: "branch-into-window"},
	{name: "loop_carry", text: "1: adc %rbp, %rax; lea -1(%rcx), %rcx; jrcxz 2f; jmp 1b; 2:", changes: "rax rcx FLAGS SMALL", uncounted: "entry-loop"},

	// Functions without more.
	{name: "ret", text: "ret", changes: "ABI", only: true},
	{name: "ret_rep", text: "rep ret", changes: "ABI", only: true},
	{name: "ret_bnd", text: "bnd ret", changes: "ABI", only: true},
	{name: "ret_sets_carry", text: "cmp %rsi, %rsi; stc; ret", changes: "FLAGS", only: true},
	{name: "ret_early", text: "jrcxz 1f; ret; 1: lea 1(%rax), %rax; ret", changes: "rax ABI", only: true, uncounted: "branch-into-window"},
}, conditions())

// conditions are the 16 of jcc, in its forms.
func conditions() (all []canary) {
	for _, cc := range strings.Fields("o no b ae e ne be a s ns p np l ge le g") {
		all = append(all,
			canary{name: "j" + cc, text: "j" + cc + " 1f; lea 1(%rax), %rax; 1:", changes: "rax"},
			canary{name: "j" + cc + "_near", text: "{far} j" + cc + " 1f; lea 1(%rax), %rax; 1:", changes: "rax"},
			canary{name: "j" + cc + "_out", text: "j" + cc + " capture; lea 1(%rax), %rax", changes: "rax"},
			canary{name: "j" + cc + "_hint", text: "j" + cc + ",pn 1f; lea 1(%rax), %rax; 1:", changes: "rax"},
			canary{name: "j" + cc + "_second", text: "mov %edx, %edx; {far} j" + cc + " 1f; lea 1(%rax), %rax; 1:", changes: "rax rdx"})
	}
	return all
}

// version is one function made of a canary.
type canaryVersion struct {
	suffix string
	endbr  bool
	tail   string // what follows the text
	dead   bool   // nobody reads the caller's flags
	room   string // behind it
	stays  bool   // too long to be moved
}

var canaryVersions = []canaryVersion{
	{suffix: "_moved", tail: "jmp capture"},
	{suffix: "_moved_dead", tail: "jmp capture_dead", dead: true},
	{suffix: "_stays", tail: "jmp capture", room: ".fill 300, 1, 0x90", stays: true},
	{suffix: "_stays_dead", tail: "jmp capture_dead", dead: true, room: ".fill 300, 1, 0x90", stays: true},
	{suffix: "_endbr", endbr: true, tail: "jmp capture"},
	{suffix: "_endbr_stays_dead", endbr: true, tail: "jmp capture_dead", dead: true, room: ".fill 300, 1, 0x90", stays: true},
	{suffix: "_crowded", tail: "jmp capture", room: "# no padding"},
}

// canarySource writes kinds.S and kinds.h into dir and returns the functions
// that may stay uncounted. With arrivals something that nobody calls calls the
// second byte of every window, so that nothing but a trap serves.
func canarySource(t *testing.T, dir string, arrivals bool) (uncounted map[string]string) {
	t.Helper()
	cpu := strings.Fields(read(t, "/proc/cpuinfo"))
	var code, calls, list strings.Builder
	uncounted = map[string]string{}
	var missing []string
	for _, c := range canaries {
		if c.needs != "" && !slices.Contains(cpu, c.needs) {
			missing = append(missing, c.name+" ("+c.needs+")")
			continue
		}
		for _, v := range canaryVersions {
			if c.only && v.dead {
				continue
			}
			name := "canary_" + c.name + v.suffix
			code.WriteString(c.function(name, v))
			fmt.Fprintf(&list, "X(%s, %s)\n", name, c.mask(v.dead))
			if arrivals {
				second := 1
				if v.endbr {
					second = 5
				}
				fmt.Fprintf(&calls, "\tcall %s+%d\n", name, second)
			} else if c.uncounted != "" {
				uncounted[name] = c.uncounted
			}
		}
	}
	if missing != nil {
		t.Logf("this processor cannot run %v", missing)
	}
	code.WriteString("\t.globl arrivals\n\t.type arrivals, @function\narrivals:\n" + calls.String() + "\tret\n\t.size arrivals, . - arrivals\n")
	write(t, filepath.Join(dir, "kinds.S"), code.String()+"\t.section .note.GNU-stack, \"\", @progbits\n", 0o600)
	write(t, filepath.Join(dir, "kinds.h"), list.String(), 0o600)
	return uncounted
}

// function is the assembly of one version.
func (c *canary) function(name string, v canaryVersion) string {
	lines := []string{".globl " + name, ".type " + name + ", @function", name + ":", ".cfi_startproc"}
	if v.suffix != "_crowded" {
		lines = append([]string{".p2align 4"}, lines...)
	}
	if v.endbr {
		lines = append(lines, "endbr64")
	}
	lines = append(lines, strings.NewReplacer("{}", name, "{far}", "{disp32}").Replace(c.text))
	if !c.only {
		lines = append(lines, v.tail)
	}
	lines = append(lines, v.room, ".cfi_endproc", ".size "+name+", . - "+name)
	return "\t" + strings.Join(lines, "\n\t") + "\n"
}

// mask is what it changes, as an expression of C.
func (c *canary) mask(dead bool) string {
	words := []string{"0"}
	for _, w := range strings.Fields(c.changes) {
		if i := slices.Index(canaryRegisters, w); i >= 0 {
			w = fmt.Sprintf("1<<%d", i)
		}
		words = append(words, w)
	}
	if dead {
		words = append(words, "FLAGS")
	}
	return strings.Join(words, "|")
}

var canaryRegisters = strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")

// harnessFunctions are those of harness.c.
var harnessFunctions = []string{"find_components", "complain", "prepare", "fill", "extended", "check", "hash", "show", "stacks", "one", "step", "keeps_flags", "watch_steps", "arrivals"}

// TestCanary: every register, the flags, the red zone and the caller's stack
// arrive at the displaced instructions as the caller left them, and come back
// as those leave them; and every call is counted.
func TestCanary(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []string{"-no-pie", "-pie -fPIE"} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			b := buildCanaries(t, strings.Fields(row), false)
			b.compare(t, cmd(b.program), crossed)
		})
	}
}

// TestCanaryTrap: the same where every entry is a trap.
func TestCanaryTrap(t *testing.T) {
	lane.Parallel(t)
	for _, row := range lane.Some([]string{"-no-pie", "-pie -fPIE"}, 1) {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			b := buildCanaries(t, strings.Fields(row), true)
			b.compare(t, cmd(b.program), crossed, "--allow-traps")
			b.compare(t, cmd(b.program, "aligned"), crossed, "--allow-traps")
			_, r := counted(t, cmd(b.program), "--allow-traps")
			for _, f := range r.of("") {
				if strings.HasPrefix(f.Name, "canary_") && f.Tactic != "trap" {
					t.Errorf("%s is counted by %s: it shows nothing", f.Name, f.Tactic)
				}
			}
		})
	}
}

// TestCanaryAligned: the same in a program that has every misaligned access
// trapped (EFLAGS.AC): what the stubs themselves read and write is aligned.
func TestCanaryAligned(t *testing.T) {
	lane.Parallel(t)
	b := buildCanaries(t, []string{"-pie", "-fPIE"}, false)
	b.compare(t, cmd(b.program, "aligned"), crossed)
}

// TestCanaryWatched: a signal handler sees the same at every instruction.
func TestCanaryWatched(t *testing.T) {
	lane.Parallel(t)
	for _, row := range lane.Some([]string{"-no-pie", "-pie -fPIE"}, 1) {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			b := buildCanaries(t, strings.Fields(row), false)
			b.compare(t, cmd(b.program, "watched"), []uint64{0})
			b.compare(t, cmd(b.program, "watched", "slow-paths"), []uint64{5})
		})
	}
}

// builtCanaries is a program and those of its functions that may stay
// uncounted, with the reason.
type builtCanaries struct {
	program   string
	uncounted map[string]string
}

func buildCanaries(t *testing.T, flags []string, arrivals bool, more ...string) builtCanaries {
	t.Helper()
	dir := t.TempDir()
	b := builtCanaries{filepath.Join(dir, "canary"), canarySource(t, dir, arrivals)}
	in(t, ".", "", need(t, "gcc"), slices.Concat([]string{"-O1", "-g0", "-fno-inline", "-Itestdata/canary", "-I" + dir, "-o", b.program},
		flags, []string{"testdata/canary/harness.c", "testdata/canary/capture.S", filepath.Join(dir, "kinds.S")}, more)...)
	return b
}

// crossed are thresholds: none, and such as are crossed at the first call, in the
// middle, at the last, and never.
var crossed = []uint64{0, 1, 5, canaryCalls, canaryCalls + 1}

// compare runs the program with each of the thresholds.
func (b *builtCanaries) compare(t *testing.T, c command, thresholds []uint64, flags ...string) {
	t.Helper()
	without := run(t, c)
	if without.status != 0 {
		t.Fatalf("without the library: status %d\n%s", without.status, wrongLines(without.stdout))
	}
	symbols := readSymbols(t, b.program)
	oracle := comparison{exempt: untallied(append(harnessFunctions, "uses_gs")...), uncounted: b.uncounted}
	for _, n := range thresholds {
		with, r := counted(t, c, append([]string{"--threshold", fmt.Sprint(n)}, flags...)...)
		if with.status != without.status {
			t.Errorf("threshold %d: status %d\n%s", n, with.status, wrongLines(with.stdout))
			continue
		}
		same(t, comparableSteps(without), comparableSteps(with))
		oracle.exact(t, r, tallies(t, with.stdout, symbols), symbols)
		for _, f := range r.of("") {
			if hot := n != 0 && f.Calls >= n; f.Hot != hot {
				t.Errorf("threshold %d: %s with %d calls: hot is %t", n, f.Name, f.Calls, f.Hot)
			}
		}
	}
}

// comparableSteps leaves out the steps through loops to an endbr64, which are led
// behind that.
func comparableSteps(res result) result {
	res.stdout = strings.Join(slices.DeleteFunc(strings.Split(res.stdout, "\n"), func(line string) bool {
		name, rest, _ := strings.Cut(line, " ")
		return strings.Contains(name, "_loop_") && strings.Contains(name, "_endbr") && strings.Contains(rest, " steps, ")
	}), "\n")
	return res
}

// wrongLines are the complaints of the program.
func wrongLines(out string) string {
	var lines []string
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "WRONG") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[:min(len(lines), 12)], "\n")
}
