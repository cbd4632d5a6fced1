package test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// fault is a way to have system calls fail that the library or its twin makes,
// by testdata/inject.c.
type fault struct {
	name string
	call int           // number of the system call; -1 is any of the twin's
	err  syscall.Errno // 0 kills the twin
	on   bool          // not only this call but all from it on fail
	// of so many calls one is tried, unless all are asked for.
	every int
}

const (
	sysMmap, sysMprotect, sysMunmap, sysMremap, sysMadvise  = 9, 10, 11, 25, 28
	sysClone, sysFtruncate, sysOpenat, sysFallocate         = 56, 77, 257, 285
	sysRead, sysPread, sysPwrite, sysNewfstatat, sysMkdirat = 0, 17, 18, 262, 258
)

var faults = []fault{
	{"the twin is killed", -1, 0, false, 4},
	{"a call of the twin fails", -1, syscall.EPERM, false, 5},
	{"all calls of the twin fail", -1, syscall.ENOSYS, true, 9},
	{"mmap", sysMmap, syscall.ENOMEM, false, 1},
	{"mmap, from then on", sysMmap, syscall.ENOMEM, true, 2},
	{"mprotect", sysMprotect, syscall.EACCES, false, 1},
	{"mprotect, from then on", sysMprotect, syscall.ENOMEM, true, 1},
	{"munmap", sysMunmap, syscall.ENOMEM, false, 1},
	{"mremap", sysMremap, syscall.ENOMEM, false, 1},
	{"mremap, from then on", sysMremap, syscall.ENOMEM, true, 1},
	{"madvise", sysMadvise, syscall.EINVAL, false, 1},
	{"madvise, from then on", sysMadvise, syscall.EFAULT, true, 1},
	{"clone", sysClone, syscall.EAGAIN, false, 1},
	{"clone, from then on", sysClone, syscall.EAGAIN, true, 1},
	{"open", sysOpenat, syscall.EMFILE, false, 1},
	{"open, from then on", sysOpenat, syscall.ENOENT, true, 1},
	{"ftruncate", sysFtruncate, syscall.EFBIG, false, 1},
	{"fallocate", sysFallocate, syscall.ENOSPC, false, 1},
	{"fallocate, not known", sysFallocate, syscall.EOPNOTSUPP, true, 1},
	{"stat", sysNewfstatat, syscall.EACCES, false, 1},
	{"mkdir", sysMkdirat, syscall.EROFS, false, 1},
	{"read", sysRead, syscall.EIO, false, 1},
	{"pread", sysPread, syscall.EIO, false, 2},
	{"pwrite", sysPwrite, syscall.ENOSPC, false, 1},
}

// TestFaults: whatever fails, the program runs as it would have, after one line
// at most, and is counted exactly, or the report says what is missing.
func TestFaults(t *testing.T) {
	lane.Parallel(t)
	o := buildObserver(t)
	inject := compile(t, need(t, "gcc"), []string{"-O1"}, "inject.c")
	t.Run("threads and a child", func(t *testing.T) {
		sweep(t, inject, []string{o.program, "undumpable"}, 14*steps, 1)
	})
	t.Run("objects that come later", func(t *testing.T) {
		sweep(t, inject, []string{o.program, "plugin", o.plugin}, steps, 6) // three twins, each as long as the first
	})
}

// sweep runs the program, whose most called function is called so many times,
// with all faults, of which more are left out the greater thin is.
func sweep(t *testing.T, inject string, args []string, most uint64, thin int) {
	without := run(t, cmd(args...))
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.every *= thin * lane.Of(11, 1)
			if setting("FAULTS") == "all" { // every single call: DYNPROF_FAULTS=all go test -run Faults
				f.every = 1
			}
			calls := f.strike(t, inject, args, 1<<30, without, most) // none
			tried := 0
			for n := 1; n <= calls; n += f.every {
				f.strike(t, inject, args, n, without, most)
				tried++
			}
			if tried == 0 {
				t.Error("there is no such call")
			}
			t.Logf("%d of %d calls tried", tried, calls)
		})
	}
}

// strike has the nth call fail, and returns how many there were.
func (f *fault) strike(t *testing.T, inject string, args []string, n int, without result, most uint64) int {
	t.Helper()
	dir := t.TempDir()
	report, table := filepath.Join(dir, "report"), filepath.Join(dir, "tables", "table")
	err := int(f.err)
	if f.on {
		err = -err
	}
	c := cmd(append([]string{inject, report, fmt.Sprint(f.call), fmt.Sprint(n), fmt.Sprint(err),
		"env", "DYNPROF_OUTPUT=" + table, "LD_PRELOAD=" + build(t, "libdynprof.so")}, args...)...)
	with := run(t, c)
	if with.status == 77 {
		t.Skip("no seccomp notifications in this kernel")
	}
	line := with.stderr
	with.stderr = without.stderr
	same(t, without, with)
	judge(t, line, filepath.Dir(table), most)
	if t.Failed() {
		t.Fatalf("call %d of %s", n, f.name)
	}
	seen, e := strconv.Atoi(strings.TrimSpace(read(t, report)))
	if e != nil {
		t.Fatal(e)
	}
	return seen
}

// judge fails unless the program was counted, or a line says why not.
func judge(t *testing.T, line, dir string, most uint64) {
	t.Helper()
	left := tables(t, dir)
	if line != "" {
		oneLine(t, line, ": not counted: .", "")
	}
	if len(left) == 0 && line == "" {
		t.Error("not counted, and nothing is said")
	}
	for _, table := range left {
		text := run(t, cmd(build(t, "hotspots"), "report", table))
		if line != "" {
			if text.status == 0 || !strings.Contains(text.stderr, "hotspots: ") {
				t.Errorf("a table is left which reads as one: status %d, %s", text.status, text.stderr)
			}
			continue
		}
		r := readReport(t, table)
		switch n, missing := r.most(), strings.Contains(text.stdout, "had no room"); {
		case n == most && !missing, n < most && missing:
		case n == 0 && r.uncounted("step"):
		default:
			t.Errorf("%d calls of step, not %d; %s", n, most, text.stdout)
		}
	}
}

// most is how often the function was called that was called most: step, also if
// its name could not be read.
func (r *report) most() (calls uint64) {
	for _, f := range r.Functions {
		calls = max(calls, f.Calls)
	}
	return calls
}

// uncounted tells whether the ledger says that the function is not counted.
func (r *report) uncounted(name string) bool {
	for _, f := range r.Functions {
		if f.Name == name {
			return f.Tactic == "" || f.Tactic == "none"
		}
	}
	return false
}
