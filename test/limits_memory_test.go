package test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// manySource is the source of n functions f0, f1, … of so many bytes of text in all, and
// of a list of them, many. Each calls those whose numbers callees gives.
func manySource(t *testing.T, n, text int, callees func(i int) []int) string {
	t.Helper()
	const frame, each = 16, 5 // bytes of a function, and of its instructions
	source := filepath.Join(t.TempDir(), "many.S")
	f, err := os.Create(source)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "\t.text")
	for i := range n {
		fmt.Fprintf(w, "\t.p2align 4\n\t.type f%d, @function\nf%d:\n\tpush %%rbx\n\tmov %%rdi, %%rbx\n", i, i)
		for _, to := range callees(i) {
			fmt.Fprintf(w, "\tcall f%d\n\tadd %%rax, %%rbx\n", to)
		}
		fmt.Fprintf(w, "\t.rept %d\n\tlea 7(%%rbx,%%rdi,2), %%rbx\n\t.endr\n", max(text/n-frame, each)/each)
		fmt.Fprintf(w, "\tmov %%rbx, %%rax\n\tpop %%rbx\n\tret\n\t.size f%d, . - f%d\n", i, i)
	}
	fmt.Fprintf(w, "\t.data\n\t.globl many, many_count\nmany:\n")
	for i := range n {
		fmt.Fprintf(w, "\t.quad f%d\n", i)
	}
	fmt.Fprintf(w, "many_count: .long %d\n\t.section .note.GNU-stack, \"\", @progbits\n", n)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return source
}

// next has every third function called by the next one.
func next(i int) []int {
	if i%3 == 1 {
		return []int{i - 1}
	}
	return nil
}

// manyFunctions is a program of n functions of so many bytes of text in all, not
// position-independent (testdata/many.c). Every third is called by the next, too.
func manyFunctions(t *testing.T, n, text int) string {
	t.Helper()
	return compile(t, need(t, "gcc"), []string{"-O1", "-no-pie", manySource(t, n, text, next)}, "many.c")
}

// TestHeapDumped: where the heap begins at the end of the executable's file, and is a
// part of what that holds, it stays there: it is not moved for arenas.
func TestHeapDumped(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1", "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x10000"}, "dumped.c")
	if msg, err := exec.Command(need(t, "objcopy"), "--set-section-flags", ".bss=alloc,load,data,contents", p).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v\n%s", err, msg)
	}
	c := command{before: []string{"setarch", "-R"}, args: []string{p}}
	if without := run(t, c); without.stdout != "1499500: the heap is behind the file\nand grows\n" {
		t.Fatalf("%+v", without)
	}
	inVariants(t, c, func(t *testing.T, r *report) {
		if n := r.calls(t, "leaf"); n != 1000 {
			t.Errorf("leaf: %d calls, not 1000", n)
		}
	})
}

// memoryLimit is a memory cgroup.
type memoryLimit struct {
	dir         string
	limit, peak string // files
}

func newMemoryLimit(t *testing.T) *memoryLimit {
	t.Helper()
	rootOnly(t, "cannot make a memory cgroup")
	for _, m := range []memoryLimit{
		{"/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup/", "memory.max", "memory.peak"},
	} {
		dir, err := os.MkdirTemp(m.dir, "dynprof-test-")
		if err != nil {
			continue
		}
		m.dir = dir
		t.Cleanup(func() { os.Remove(m.dir) })
		if _, err := os.Stat(filepath.Join(m.dir, m.peak)); err == nil {
			return &m
		}
	}
	t.Skip("no memory cgroups on this machine")
	return nil
}

// used is the most bytes that the cgroup has held.
func (m *memoryLimit) used(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, m.peak))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// forget begins anew with what is used.
func (m *memoryLimit) forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, m.peak), []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
}

// in returns c in the cgroup, with so many bytes.
func (m *memoryLimit) in(t *testing.T, bytes int, c command) command {
	t.Helper()
	// It is busy until what files of the run before are still to be written has been.
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := os.WriteFile(filepath.Join(m.dir, m.limit), []byte(strconv.Itoa(bytes)), 0)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(until) {
			t.Fatal(err)
		}
	}
	script := "echo $$ >" + m.dir + "/cgroup.procs && exec \"$@\""
	c.args = append([]string{"sh", "-c", script, "sh"}, c.args...)
	return c
}

// TestSmallMemory: planner and hotspots run take little besides the program: 64 MB
// for 30,000 functions, 128 MB for 100,000. With less than the planner needs, or
// than counting takes with a plan that is kept, the program runs on uncounted, after one
// line.
func TestSmallMemory(t *testing.T) {
	lane.Parallel(t)
	const mb = 1 << 20
	type row struct{ functions, text, most, few int }
	for _, row := range lane.Some([]row{
		{30_000, 480_000, 64 * mb, 8 * mb}, // of 16 bytes
		{30_000, 9_600_000, 64 * mb, 8 * mb},
		{100_000, 20_000_000, 128 * mb, 24 * mb},
	}, 1) {
		p := manyFunctions(t, row.functions, row.text)
		for _, flags := range lane.Some([]string{"", "--objects all --keep-calls --threshold 1000"}, 1) {
			t.Run(fmt.Sprint(row.functions, " in ", row.text, " ", flags), func(t *testing.T) {
				m := newMemoryLimit(t)
				without := run(t, m.in(t, 1024*mb, cmd(p)))
				table := filepath.Join(t.TempDir(), "table")
				c := cmd(append(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table}, strings.Fields(flags)...), "--", p)...)
				same(t, without, run(t, m.in(t, m.used(t)+row.most, c)))
				if r := readReport(t, table); r.calls(t, "f0") != 2 {
					t.Errorf("f0: %d calls, not 2", r.calls(t, "f0"))
				}
			})
		}
		t.Run(fmt.Sprint(row.functions, " in ", row.text, ": too little"), func(t *testing.T) {
			m := newMemoryLimit(t)
			run(t, m.in(t, 1024*mb, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table"), "--", p)))
			for _, cache := range []string{"0", "1"} {
				for _, times := range lane.Some([]int{1, 2, 3, 4, 5, 6, 7}, 0, 1) {
					countedOrNamed(t, m, times*row.few, "DYNPROF_CACHE="+cache, p)
				}
			}
		})
	}
}

// countedOrNamed runs a program with so much memory: it does the same as without us, and is
// counted, or one line says why it is not.
func countedOrNamed(t *testing.T, m *memoryLimit, bytes int, variable, p string) {
	t.Helper()
	without := run(t, m.in(t, bytes, cmd(p)))
	if without.status != 0 {
		t.Fatalf("%d bytes are too few for the program itself: %+v", bytes, without)
	}
	table := filepath.Join(t.TempDir(), "table")
	with := run(t, m.in(t, bytes, cmd("env", "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, variable, p)))
	if with.stderr != without.stderr {
		oneLine(t, with.stderr, "not counted: (the planner (died|did not go on)|its control group leaves it too little memory)", without.stderr)
		with.stderr = without.stderr
	} else if with.status != without.status {
		t.Errorf("%d bytes, %s: %+v", bytes, variable, with)
	} else if calls := readReport(t, table).calls(t, "f0"); calls != 2 {
		t.Errorf("%d bytes, %s: f0: %d calls, not 2", bytes, variable, calls)
	}
	same(t, without, with)
}

// TestPlannerGoesFirst: where there is too little memory for a planner beside a large
// program, the planner of a library that comes later is killed, not the program; nor
// is it where that is planned already.
func TestPlannerGoesFirst(t *testing.T) {
	lane.Parallel(t)
	const mb = 1 << 20
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	library := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 100_000, 9_600_000, next)})
	args := []string{program, "200", library}
	m := newMemoryLimit(t)
	without := run(t, m.in(t, 1024*mb, cmd(args...)))
	table := filepath.Join(t.TempDir(), "table")
	c := cmd(append([]string{"env", "LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table}, args...)...)
	for _, planned := range []bool{false, true} {
		if planned {
			run(t, m.in(t, 1024*mb, cmd(append([]string{build(t, "hotspots"), "run", "--objects", "all", "--summary", "0", "-o", table, "--"}, args...)...)))
		}
		m.forget(t)
		run(t, m.in(t, 1024*mb, cmd(args...)))
		same(t, without, run(t, m.in(t, m.used(t)+16*mb, c)))
		if r := readReport(t, table); !planned && len(r.of(library)) > 0 {
			t.Errorf("%s is counted: there was memory for its planner", library)
		}
	}
}

// TestEndedWhole: where the kernel would end the program with its planner, as all that is in
// their control group, no planner is started if there might be too little memory for it.
func TestEndedWhole(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot mount")
	if groups, err := os.ReadFile("/proc/self/cgroup"); err != nil || !strings.Contains(string(groups), "0::/") {
		t.Skip("no control groups of version 2 on this machine")
	}
	p, library := manyFunctions(t, 100, 10_000), build(t, "libdynprof.so")
	for _, row := range []struct {
		used int
		line string
	}{
		{10_000_000, ""},
		{90_000_000, "not counted: its control group has too little memory for a planner, and is ended as a whole"},
	} {
		script := "mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && echo 100000000 >memory.max && echo " +
			strconv.Itoa(row.used) + " >memory.current && echo 1 >memory.oom.group && exec \"$@\""
		table := filepath.Join(t.TempDir(), "table")
		c := cmd("unshare", "-m", "sh", "-c", script, "sh", p)
		without := run(t, c)
		c.args = slices.Insert(c.args, len(c.args)-1, "env", "DYNPROF_CACHE=0", "LD_PRELOAD="+library, "DYNPROF_OUTPUT="+table)
		with := run(t, c)
		if row.line == "" {
			if calls := readReport(t, table).calls(t, "f0"); calls != 2 {
				t.Errorf("f0: %d calls, not 2", calls)
			}
		} else {
			oneLine(t, with.stderr, row.line, without.stderr)
			with.stderr = without.stderr
		}
		same(t, without, with)
	}
}
