package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Programs that go on as another.

// TestSuccessor: what a program executes in its place is counted, and sees nothing of it; what
// cannot be counted, or is a child's, sees what it was meant to, and is told of.
func TestSuccessor(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	flags := []string{"-O1", "-pthread", "-Wno-stringop-overread"}
	program := compile(t, gcc, flags, "successor.c")
	static := compile(t, gcc, append(flags, "-static"), "successor.c")
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := put("script", "#! "+program+" show\n", 0o755)
	other := put("setuid", read(t, program), 0o755|os.ModeSetuid)
	for _, row := range []struct {
		how, file string
		counted   bool // the last program is
		executed  int  // programs that are not
	}{
		{"execve", program, true, 0}, {"search", program, true, 0}, {"none", program, true, 0}, {"preload", program, true, 0},
		{"at", program, true, 0}, {"thread", program, true, 0}, {"refused", program, true, 0}, {"full", program, true, 0},
		{"execve", script, true, 0}, {"execve", static, false, 1}, {"execve", other, false, 1}, {"empty", program, false, 1}, {"spaces", program, false, 1},
		{"twice", program, false, 1},
		{"descriptor", program, true, 0}, {"many", program, false, 1}, {"children", program, false, 3},
	} {
		for _, way := range lane.Thin([][]string{{"run"}, {"preload"}, {"run", "--objects", "all", "--threshold", "10"}, {"run", "--control"}}, 2) {
			t.Run(fmt.Sprint(row.how, " ", filepath.Base(row.file), " ", way), func(t *testing.T) {
				t.Parallel()
				args := []string{program, row.how, row.file, "show", "and more"}
				table := filepath.Join(t.TempDir(), "table")
				with := cmd(args...)
				if way[0] == "preload" {
					with.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table, "DYNPROF_FOLLOW_SELF=1"}
				} else {
					with = cmd(append(append(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table}, way[1:]...), "--"), args...)...)
				}
				same(t, run(t, cmd(args...)), run(t, with))
				files, _ := filepath.Glob(table + "*") // the pattern is sound
				last, first := files[0], files[len(files)-1]
				if way[0] == "preload" { // nobody has exchanged them
					last, first = first, last
				}
				if got := len(files); got != map[bool]int{false: 1, true: 2}[row.counted] {
					t.Fatalf("%q", files)
				}
				if row.counted {
					if r := readReport(t, last); r.calls(t, "step") != 100 || r.calls(t, "before") != 0 {
						t.Errorf("the last: %d and %d calls", r.calls(t, "step"), r.calls(t, "before"))
					}
				}
				r := readReport(t, first)
				if r.calls(t, "before") != 50 || r.calls(t, "step") != 0 || r.Executed != row.executed {
					t.Errorf("the first: %d and %d calls, %d programs are not counted, not %d", r.calls(t, "before"), r.calls(t, "step"), r.Executed, row.executed)
				}
			})
		}
	}
}

// TestSuccessorOfOthers: who becomes another user, or goes to another root, goes on without us,
// and nobody complains.
func TestSuccessorOfOthers(t *testing.T) {
	lane.Parallel(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may become others")
	}
	for _, args := range [][]string{
		{need(t, "setpriv"), "--reuid", "65534", "--regid", "65534", "--clear-groups", "id", "-u"},
		{need(t, "unshare"), "-U", "id", "-u"},
		{need(t, "unshare"), "-m", "sh", "-c", "mount -t tmpfs none /tmp && mount -t tmpfs none /root; exec id -u"},
		{need(t, "chroot"), "/", "id", "-u"},
	} {
		table := filepath.Join(t.TempDir(), "table")
		same(t, run(t, cmd(args...)), run(t, cmd(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--"}, args...)...)))
	}
}

// TestSuccessorLocked: a record lock that the program holds on the file that it executes, as one
// that starts itself again, is held by what it goes on as.
func TestSuccessorLocked(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "lockexec.c")
	table := filepath.Join(t.TempDir(), "table")
	same(t, run(t, cmd(program)), run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", program)))
	if n := readReport(t, table).calls(t, "step"); n != 100 {
		t.Errorf("it has %d calls", n)
	}
}

// TestSuccessorFiltered: what is executed behind a filter that may kill goes on without us: our
// start makes system calls that it would never make. Where they are refused it is counted.
func TestSuccessorFiltered(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	filter, program := compile(t, gcc, []string{"-O1"}, "successorfilter.c"), compile(t, gcc, []string{"-O1", "-pthread", "-Wno-stringop-overread"}, "successor.c")
	const kill, trap, refuse, log = "0x80000000", "0x00030000", "0x00050001", "0x7ffc0000"
	for _, row := range []struct {
		number  int
		action  string
		counted bool
	}{
		{syscall.SYS_RT_SIGPROCMASK, kill, false}, {syscall.SYS_CLONE, trap, false}, {syscall.SYS_WAIT4, kill, false}, {syscall.SYS_KEXEC_LOAD, kill, false},
		{syscall.SYS_KEXEC_LOAD, refuse, true}, {syscall.SYS_EXIT_GROUP, refuse, true}, {324 /* membarrier */, refuse, true}, {syscall.SYS_OPENAT, log, true},
	} {
		args := []string{filter, fmt.Sprint(row.number), row.action, program, "show"}
		table := filepath.Join(t.TempDir(), "table")
		same(t, run(t, cmd(args...)), run(t, cmd(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--"}, args...)...)))
		if r := readReport(t, table); (r.Executed == 0) != row.counted {
			t.Errorf("%d, %s: %d programs are not counted", row.number, row.action, r.Executed)
		} else if row.counted && r.calls(t, "step") != 100 {
			t.Errorf("%d, %s: %d calls", row.number, row.action, r.calls(t, "step"))
		}
	}
}

// TestSuccessorShown: the summary is of the program that did the work, which has the name that
// the user gave; which ones were before it is said, and what is not counted.
func TestSuccessorShown(t *testing.T) {
	lane.Parallel(t)
	hotspots, table := build(t, "hotspots"), filepath.Join(t.TempDir(), "table")
	sh, lua := need(t, "dash"), need(t, "lua5.4")
	script := `exec env A=1 ` + lua + ` -e 'for i = 1, 1000 do tostring(i) end'`
	r := run(t, cmd(hotspots, "run", "--summary", "3", "-o", table, "--", sh, "-c", script))
	says := regexp.MustCompile(`(?s)^/\S+/lua5\.4 \(pid \d+\), exited with status 0: .*more with: hotspots report \S+/table\nhotspots: before that it was dash: hotspots report \S+\nhotspots: before that it was env: hotspots report \S+/table.2\n$`)
	if r.status != 0 || !says.MatchString(r.stderr) {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(hotspots, "report", table)); !strings.Contains(r.stdout, "lua5.4 (pid ") || strings.Contains(r.stdout, "dash") {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(hotspots, "report", table+".2")); !strings.Contains(r.stdout, "/env (pid ") {
		t.Errorf("%+v", r)
	}
	alone := filepath.Join(t.TempDir(), "table")
	if r := run(t, cmd(hotspots, "run", "--follow-self=false", "-o", alone, "--", sh, "-c", script)); !strings.Contains(r.stderr, "dash (pid ") || !strings.Contains(r.stderr, "(a program that it executed is not counted: hotspots run --follow-exec)") {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(hotspots, "run", "-o", filepath.Join(t.TempDir(), "table"), "--", sh, "-c", "true; env true; env true; true")); !strings.Contains(r.stderr, "(2 programs that it executed are not counted") {
		t.Errorf("%+v", r)
	}
	files, _ := filepath.Glob(alone + "*")
	if !slices.Equal(files, []string{alone}) {
		t.Errorf("%q", files)
	}
}
