package test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// do has test/testdata/attachlate.c do something.
func (a *attached) do(what, library string, n int) {
	a.t.Helper()
	fmt.Fprintln(a.to, what, library, n)
	a.expect("done")
}

// beside is hotspots attach --for, which stays until it is told to end.
type beside struct {
	c     *exec.Cmd
	table string
}

func (a *attached) attachFor(flags ...string) *beside {
	a.t.Helper()
	b := &beside{table: filepath.Join(a.t.TempDir(), "table.dynprof")}
	b.c = exec.Command(build(a.t, "hotspots"), slices.Concat([]string{"attach", "-o", b.table, "--for", "1h"}, blockFlags(), flags, []string{a.pid()})...)
	says, err := b.c.StderrPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := b.c.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { b.c.Process.Kill(); b.c.Wait() })
	line := make([]byte, 1024)
	n, _ := says.Read(line)
	if s := string(line[:n]); !strings.Contains(s, "is counted") {
		rest, _ := io.ReadAll(says)
		a.t.Fatalf("attach --for: %s%s", s, rest)
	}
	go io.Copy(os.Stderr, says)
	return b
}

// end has it detach.
func (b *beside) end(t *testing.T) {
	t.Helper()
	b.c.Process.Signal(syscall.SIGTERM)
	if err := b.c.Wait(); err != nil {
		t.Errorf("attach --for ends with %v", err)
	}
}

// wants: so many calls of the functions of a library were counted, and none was missed.
func (r *report) wants(t *testing.T, library string, steps, made uint64) {
	t.Helper()
	if n := r.late(library, "late_step"); n != steps {
		t.Errorf("late_step: %d calls, not %d", n, steps)
	}
	if n := r.late(library, "late_made"); n != made {
		t.Errorf("late_made, called by the constructor: %d calls, not %d", n, made)
	}
}

// loadsStatic is how a static program is made that can load libraries, of the same libc.
var loadsStatic = []string{"gcc", "-O1", "-static"}

// TestAttachLate: as long as hotspots attach --for stays beside a program what that loads is
// counted from its constructors on, and it is what it was behind that.
func TestAttachLate(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"gcc", "-O1"}, musl, loadsStatic, {"gcc", "-O1", "-static-pie"}}, 0, 1, 2) {
		program, library := compileWith(t, how, "attachlate.c"), compileWith(t, slices.Concat(how[:2], []string{"-shared", "-fPIC"}), "latelib.c")
		for _, flags := range lane.Some([][]string{nil, {"--threshold", "50"}, {"--objects", "all", "--edges"}}, 0, 1) {
			t.Run(strings.Join(append(how[:len(how):len(how)], flags...), " "), func(t *testing.T) {
				a := startAttached(t, program)
				descriptors := a.descriptors()
				b := a.attachFor(flags...)
				loads := uint64(0)
				for range 3 {
					a.do("load", library, 100)
				}
				a.do("threads", library, 1000)
				a.do("fork", library, 50)
				if loads = 3 + 4 + 1; how[0] == musl[0] { // which closes none
					loads = 1
				}
				r := readReport(t, b.table)
				made := r.late(library, "late_made")
				r.wants(t, library, 3*100+4*1000+50, made)
				// Two threads that load it at a time have one.
				if made%7 != 0 || made > 7*loads || made < 7*min(loads, 5) {
					t.Errorf("late_made: %d calls", made)
				}
				if r.ObjectsMissed != 0 {
					t.Errorf("missed: %+v", r.Missed)
				}
				if now := a.descriptors(); !slices.Equal(now, descriptors) {
					t.Errorf("descriptors: %q, before: %q", now, descriptors)
				}
				b.end(t)
				if maps := strings.Join(a.mappings(), ""); strings.Contains(maps, "dynprof") || strings.Contains(maps, "/dev/zero") {
					t.Errorf("it has not given back:\n%s", maps)
				}
				a.do("load", library, 10)
				fmt.Fprintln(a.to, "end")
				a.ends()
			})
		}
	}
}

// TestAttachLateAlone: nobody is beside a program, or is killed. What it loads is named, and
// counted from the next attach on.
func TestAttachLateAlone(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"gcc", "-O1"}, loadsStatic, musl}, 0, 1) {
		program := compileWith(t, how, "attachlate.c")
		var libraries []string
		for range 2 {
			libraries = append(libraries, compileWith(t, slices.Concat(how[:2], []string{"-shared", "-fPIC"}), "latelib.c"))
		}
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s killed=%t", how, killed), func(t *testing.T) {
				a := startAttached(t, program)
				table := ""
				if killed {
					b := a.attachFor()
					table = b.table
					a.do("load", libraries[0], 5)
					readReport(t, table).wants(t, libraries[0], 5, 7)
					b.c.Process.Kill()
					b.c.Wait()
				} else {
					table = a.attach()
				}
				counted := readReport(t, table).late(libraries[0], "late_step")
				a.do("keep", libraries[1], 100)
				r := readReport(t, table)
				if r.ObjectsMissed != 1 || len(r.Missed) != 1 || r.Missed[0].Object != libraries[1] || r.Missed[0].Reason != "no-planner" {
					t.Errorf("missed: %d, %+v", r.ObjectsMissed, r.Missed)
				}
				if s := run(t, cmd(build(t, "hotspots"), "report", table)).stdout; !strings.Contains(s, "not counted: "+libraries[1]+": no-planner") {
					t.Errorf("the report does not say so:\n%s", s)
				}
				if s := a.hotspots("attach"); s.status != 0 || !strings.Contains(s.stderr, "1 object that it has loaded since") {
					t.Fatalf("attach again: status %d: %s", s.status, s.stderr)
				}
				a.do("call", libraries[1], 30)
				r = readReport(t, table)
				r.wants(t, libraries[1], 30, 0)
				if n := r.late(libraries[0], "late_step"); n != counted {
					t.Errorf("late_step: %d calls, not %d", n, counted)
				}
				if s := a.hotspots("attach"); s.status != 1 || !strings.Contains(s.stderr, "is counted already") {
					t.Errorf("attach once more: status %d: %s", s.status, s.stderr)
				}
				a.detach()
				a.do("call", libraries[1], 30)
				readReport(t, table).wants(t, libraries[1], 30, 0)
				fmt.Fprintln(a.to, "end")
				a.ends()
			})
		}
	}
}

// TestAttachLateStatic: what a static program loads whose symbols were stripped, so that nobody
// tells, is named when it is detached from, and counted by the next attach.
func TestAttachLateStatic(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-static", "-s"}, "attachlate.c")
	library := compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC", "-nostdlib"}, "latelib.c")
	a := startAttached(t, program)
	table := a.attach()
	a.do("keep", library, 10)
	a.detach()
	r := readReport(t, table)
	if i := slices.IndexFunc(r.Missed, func(m missed) bool { return m.Object == library }); i < 0 || r.Missed[i].Times != 1 || int(r.ObjectsMissed) != len(r.Missed) {
		t.Errorf("missed: %d, %+v", r.ObjectsMissed, r.Missed)
	}
	table = a.attach()
	a.do("call", "_", 30)
	a.detach()
	r = readReport(t, table)
	r.wants(t, library, 30, 0)
	if r.ObjectsMissed != 0 {
		t.Errorf("missed: %+v", r.Missed)
	}
	fmt.Fprintln(a.to, "end")
	a.ends()
}

// TestAttachCode: code that a program makes is said not to be counted, while it is attached to and
// when it has been.
func TestAttachCode(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attachlate.c"))
	table := a.attach()
	says := func(want uint64) {
		t.Helper()
		var r struct {
			CodeAnonymous uint64 `json:"code_anonymous"`
		}
		out := run(t, cmd(build(t, "hotspots"), "coverage", "--format", "json", table)).stdout
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.CodeAnonymous != want {
			t.Errorf("%v, not %d bytes of code of no file: %s", err, want, out)
		}
	}
	says(0)
	a.do("code", "_", 3<<20)
	says(3 << 20)
	a.detach()
	says(3 << 20)
	fmt.Fprintln(a.to, "end")
	a.ends()
	says(3 << 20)
}

// TestRunStaticLate: what a static program loads is counted from its constructors on, in its
// children, too, with all the libc that it brings.
func TestRunStaticLate(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	for _, kind := range lane.Some([]string{"-static", "-static-pie"}, 0) {
		program, library := compile(t, need(t, "gcc"), []string{"-O1", kind}, "late.c"), compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
		for mode, want := range map[string][2]uint64{"once": {1500, 14}, "fork": {350, 14}, "threads": {3000, 21}} {
			t.Run(mode+kind, func(t *testing.T) { runsLate(t, program, mode, library, want) })
		}
	}
}

// runsLate: so many calls of late_step, and of late_made, are counted in a mode of late.c.
func runsLate(t *testing.T, program, mode, library string, want [2]uint64) {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	without := run(t, cmd(program, mode, library))
	with := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", program, mode, library))
	r := readReport(t, table)
	var busy uint64
	if n, _ := fmt.Sscanf(with.stderr, "calls busy_step %d\n", &busy); n == 1 {
		with.stderr = without.stderr // how often is chance
		if calls := r.calls(t, "busy_step"); calls != busy {
			t.Errorf("busy_step: %d calls, not %d", calls, busy)
		}
	}
	same(t, without, with)
	r.wants(t, library, want[0], want[1])
	if r.ObjectsMissed != 0 {
		t.Errorf("missed: %+v", r.Missed)
	}
}

// TestRunMuslLate: what a program of musl loads is counted from its constructors on, in its
// children, too.
func TestRunMuslLate(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	program, library := compileWith(t, musl, "late.c"), compileWith(t, slices.Concat(musl, []string{"-shared", "-fPIC"}), "latelib.c")
	for mode, want := range map[string][2]uint64{"once": {1500, 7}, "fork": {350, 14}, "threads": {3000, 7}} {
		t.Run(mode, func(t *testing.T) { runsLate(t, program, mode, library, want) })
	}
}
