//go:build long

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// callingFunctions is assembly with so many functions, which call each other.
func callingFunctions(t *testing.T, n int) string {
	t.Helper()
	var b, list strings.Builder
	seed := uint32(1)
	random := func(below int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % max(below, 1)
	}
	b.WriteString(".text\n")
	for i := range n {
		fmt.Fprintf(&b, ".p2align 4\n.type function%[1]d,@function\nfunction%[1]d:\n.cfi_startproc\n"+
			"push %%rbx\n.cfi_def_cfa_offset 16\n.cfi_offset 3,-16\nmov %%rdi,%%rbx\nmov $%[2]d,%%eax\ntest %%esi,%%esi\njle 1f\ndec %%esi\n"+
			"call function%[3]d\nxor %%rax,%%rbx\nimul $%[2]d,%%rbx,%%rbx\n", i, random(1000), random(i))
		b.WriteString(strings.Repeat("mov %rbx,%rcx\nshr $7,%rcx\nxor %rcx,%rbx\n", random(12)))
		fmt.Fprintf(&b, "mov %%rbx,%%rax\n1: pop %%rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size function%[1]d,.-function%[1]d\n", i)
		if i%97 == 0 {
			fmt.Fprintf(&list, ".quad function%d\n", i)
		}
	}
	fmt.Fprintf(&b, ".section .data.rel.ro,\"aw\"\n.globl functions\nfunctions:\n%s.section .rodata\n.globl functions_count\nfunctions_count: .long %d\n.section .note.GNU-stack,\"\",@progbits\n", list.String(), (n+96)/97)
	path := filepath.Join(t.TempDir(), "functions.s")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withFunctions is a program of ours with so many functions more.
func withFunctions(t *testing.T, n int, file string) (path string) {
	t.Helper()
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Rel(here, callingFunctions(t, n))
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, need(t, "gcc"), []string{"-O1"}, file, source)
}

// TestAttachFetched: the pages of a program with many functions are copied in stops of their own,
// and that hotspots is killed in one of them changes nothing.
func TestAttachFetched(t *testing.T) {
	strace := need(t, "strace")
	p := withFunctions(t, 12_000, "attached.c")
	attachAndDetach(t, p, "4", "births", "signals")

	a := startAttached(t, p, "4")
	before, log := a.state(), filepath.Join(t.TempDir(), "log")
	if r := run(t, cmd(strace, "-f", "-qq", "-o", log, "-e", "trace=ptrace", build(t, "hotspots"), "attach", "-o", filepath.Join(t.TempDir(), "table"), a.pid())); r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	if stops := strings.Count(read(t, log), "PTRACE_SEIZE, "+a.pid()+","); stops < 2 {
		t.Errorf("it was stopped %d times", stops)
	}
	a.goesOn()
	a.detach()
	killed := 0
	for n := 1; n < 300; n += 47 {
		p := startAttached(t, p, "4")
		before := p.state()
		r := run(t, cmd(killedAt(t, strace, "pwrite64", n, "attach", "-o", filepath.Join(t.TempDir(), "table"), p.pid())...))
		p.goesOn()
		if d := p.hotspots("detach"); d.status != 0 && !strings.Contains(d.stderr, "is not attached to") {
			t.Fatalf("detach, after %d: status %d: %s", n, d.status, d.stderr)
		}
		if now := p.state(); now != before {
			t.Errorf("after %d something is left: %s", n, difference(before, now))
		}
		p.endsInterrupted()
		if r.status != 0 { // its threads' writes are counted apart
			killed++
		}
	}
	if killed == 0 {
		t.Error("hotspots was never killed")
	}
	if now := a.state(); now != before {
		t.Errorf("something is left: %s", difference(before, now))
	}
	a.endsInterrupted()
}

// TestAttachPause tells for how long a thread that spins did not run, of some attaches and
// detaches to processes that were not attached to before. What it may be is said in
// docs/attach.md; here only the machine decides.
func TestAttachPause(t *testing.T) {
	const functions, times = 48_000, 11
	p := withFunctions(t, functions, "attachpause.c")
	for _, threads := range []int{10, 1000} {
		pauses := map[string][]time.Duration{}
		for range times {
			a := startAttached(t, p, strconv.Itoa(threads))
			longest := func() time.Duration {
				fmt.Fprintln(a.to)
				n, err := strconv.Atoi(a.line())
				if err != nil {
					t.Fatal(err)
				}
				return time.Duration(n)
			}
			for _, step := range []struct {
				what string
				do   func()
			}{{"attach", func() { a.attach() }}, {"detach", a.detach}} {
				longest()
				step.do()
				pauses[step.what] = append(pauses[step.what], longest())
			}
			a.finish()
		}
		for what, all := range pauses {
			slices.Sort(all)
			t.Logf("%s: %d functions, %d threads: median %v, %v to %v", what, functions, threads, all[len(all)/2], all[0], all[len(all)-1])
		}
	}
}
