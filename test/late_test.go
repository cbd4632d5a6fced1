package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// late sums up the calls of a function of one library, which may have been
// loaded several times.
func (r *report) late(library, name string) (calls uint64) {
	for _, f := range r.of(library) {
		if f.Name == name {
			calls += f.Calls
		}
	}
	return calls
}

// TestLate: objects that are loaded while the program runs are counted from
// their constructors on.
func TestLate(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "late.c")
	var libraries []string
	for range 6 {
		libraries = append(libraries, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	}
	for _, row := range []struct {
		mode        string
		libraries   int
		steps, made uint64 // of each library
	}{
		{"once", 1, 1500, 14},
		{"namespace", 1, 500, 14},
		{"fork", 1, 350, 14},
		{"threads", 6, 3000, 21},
	} {
		args := append([]string{program, row.mode}, libraries[:row.libraries]...)
		without := run(t, cmd(args...))
		for _, flags := range [][]string{nil, {"--objects", "all"}, {"--threshold", "50"}, {"--objects", "all", "--keep-calls"}} {
			t.Run(strings.Join(append(slices.Clone(flags), row.mode), " "), func(t *testing.T) {
				with, r := counted(t, cmd(args...), flags...)
				var busy uint64
				if n, _ := fmt.Sscanf(with.stderr, "calls busy_step %d\n", &busy); n == 1 {
					with.stderr = without.stderr // how often is chance
					if calls := r.calls(t, "busy_step"); calls != busy {
						t.Errorf("busy_step: %d calls, not %d", calls, busy)
					}
				}
				same(t, without, with)
				for _, l := range libraries[:row.libraries] {
					if n := r.late(l, "late_step"); n != row.steps {
						t.Errorf("late_step: %d calls, not %d", n, row.steps)
					}
					if n := r.late(l, "late_made"); n != row.made {
						t.Errorf("late_made, called by the constructor: %d calls, not %d", n, row.made)
					}
				}
			})
		}
	}
}

// TestLateLarge: in a large process a planner that is no copy of it plans; where that
// cannot be, a twin.
func TestLateLarge(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "late.c", "large.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	ours := filepath.Join(t.TempDir(), "libdynprof.so")
	for _, row := range []struct {
		name, mode string
		env        []string
		steps      uint64
		outside    bool
	}{
		{"default", "once", nil, 1500, true},
		{"all", "once", []string{"DYNPROF_OBJECTS=all", "DYNPROF_KEEP_CALLS=1"}, 1500, true},
		{"threshold", "namespace", []string{"DYNPROF_THRESHOLD=50"}, 500, true},
		{"lock", "once", []string{"DYNPROF_LOCK=1"}, 1500, true},
		{"a forked child", "fork", nil, 350, true},
		{"controlled", "once", []string{"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=1000", "DYNPROF_CONTROL=1"}, 1500, false},
		{"our file is another by now", "once", nil, 1500, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{program, row.mode, library}
			without := run(t, cmd(args...))
			copyFile(t, build(t, "libdynprof.so"), ours)
			says := filepath.Join(dir, "says")
			c := cmd(append([]string{"env", "LD_PRELOAD=" + ours, "DYNPROF_OUTPUT=" + dir + "/table", "LARGE_SAYS=" + says, "LARGE_LOOKS_FOR=memfd:dynprof"}, args...)...)
			c.env = row.env
			if strings.HasPrefix(row.name, "our") {
				c.env = append(c.env, "LARGE_TOUCHES="+ours)
			}
			same(t, without, run(t, c))
			r := readReport(t, dir+"/table")
			if n := r.late(library, "late_step"); n != row.steps || r.ObjectsMissed != 0 {
				t.Errorf("late_step: %d calls, not %d; missed: %+v", n, row.steps, r.Missed)
			}
			var mappings, signals, children int
			if _, err := fmt.Sscan(read(t, says), &mappings, &signals, &children); err != nil {
				t.Fatal(err)
			}
			if outside := mappings > 0; outside != row.outside {
				t.Errorf("planned outside: %t", outside)
			}
			if row.mode != "fork" && signals != 0 || children != 0 {
				t.Errorf("the program got SIGCHLD %d times, and has children: %d", signals, children)
			}
		})
	}
}

// TestLateLittle: where a library fits into the address space that is left, and a planner,
// or what it needs, does not, the program goes on, and the library is named.
func TestLateLittle(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "latelittle.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, left := range []string{"100000", "1000000", "3000000", "4100000", "4300000", "8000000", "80000000"} {
		args := []string{program, library, left}
		without := run(t, cmd(args...))
		for _, flags := range lane.Some(append(variants, []string{"--cache=false"}), 0, 3, 4) {
			t.Run(strings.Join(append(slices.Clone(flags), left), " "), func(t *testing.T) {
				with, r := counted(t, cmd(args...), flags...)
				same(t, without, with)
				if n := r.late(library, "late_step"); n != 100 && (n != 0 || r.ObjectsMissed == 0) {
					t.Errorf("late_step: %d calls, missed %d", n, r.ObjectsMissed)
				}
			})
		}
	}
}

// TestLateProc: a library that is loaded where /proc is somebody else's loads as without
// us, and is counted, with plans, too.
func TestLateProc(t *testing.T) {
	lane.Parallel(t)
	needsRoot(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "lateproc.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, how := range []string{"pipes", "endless", "none"} {
		t.Run(how, func(t *testing.T) {
			args := []string{program, how, library}
			without := run(t, cmd(args...))
			for _, flags := range [][]string{{"--objects", "all"}, {"--objects", "all"}, {"--cache=false"}, {"--cache=false", "--control"}} { // cold, warm
				with, r := counted(t, cmd(args...), flags...)
				same(t, without, with)
				if n := r.late(library, "late_step"); n != 100 || r.ObjectsMissed != 0 {
					t.Errorf("%s: late_step: %d calls, not 100; missed: %+v", flags, n, r.Missed)
				}
			}
		})
	}
}

// TestLateReopened: libraries that are opened and closed over and over leave nothing behind, and
// are counted each time.
func TestLateReopened(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1", "-pthread"}, "reopens.c")
	var libraries []string
	for range 3 {
		libraries = append(libraries, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	}
	type way struct {
		how              string
		times, libraries int
		flags            []string
	}
	for _, row := range lane.Some([]way{
		{"alone", 3000, 1, nil},
		{"alone", 500, 3, []string{"--objects", "all"}},
		{"alone", 400, 1, []string{"--cache=false"}},
		{"alone", 300, 2, []string{"--control", "--threshold", "1000"}},
		{"alone", 200, 1, []string{"--lock"}},
		{"child", 500, 1, nil},
		{"beside", 80, 1, nil},
		{"beside", 50, 2, []string{"--objects", "all", "--keep-calls"}},
	}, 0, 3, 5, 7) {
		t.Run(strings.Join(append(slices.Clone(row.flags), row.how, fmt.Sprint(row.libraries)), " "), func(t *testing.T) {
			c := cmd(append([]string{program, row.how, fmt.Sprint(row.times)}, libraries[:row.libraries]...)...)
			without := run(t, c)
			with, r := counted(t, c, row.flags...)
			same(t, without, with)
			for _, l := range libraries[:row.libraries] {
				if steps, made := r.late(l, "late_step"), r.late(l, "late_made"); steps != uint64(3*row.times) || made != uint64(7*row.times) || r.ObjectsMissed != 0 {
					t.Errorf("late_step: %d calls, not %d; late_made: %d, not %d; missed: %+v", steps, 3*row.times, made, 7*row.times, r.Missed)
				}
			}
		})
	}
}

// TestLatePublished: an object that a program has loaded by itself, and tells debuggers of,
// is counted wherever its bytes lie, and ends nothing; one that lies nowhere may take the GS
// segment for all that is known, and is named.
func TestLatePublished(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "published.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,-Bsymbolic"}, "latelib.c")
	another := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for how, name := range map[string]string{"copied": library, "code": library, "data": library, "mapped": library, "nameless": "/no/such/file", "nowhere": ""} {
		t.Run(how, func(t *testing.T) {
			check := func(t *testing.T, r *report) {
				steps, late, more := r.calls(t, "step"), r.late(name, "late_step"), r.late(another, "late_step")
				if name == "" {
					if !r.Stopped || r.StoppedBy != "/no/such/file" || steps != 1 {
						t.Errorf("stopped: %t, by %q; step: %d calls, not 1", r.Stopped, r.StoppedBy, steps)
					}
				} else if steps != 2 || late != 300 || more != 100 || r.ObjectsMissed != 0 || r.Stopped {
					t.Errorf("step: %d calls, not 2; late_step: %d and %d, not 300 and 100; missed: %+v; stopped: %t by %q",
						steps, late, more, r.Missed, r.Stopped, r.StoppedBy)
				}
			}
			c := cmd(program, how, library, another)
			inVariants(t, c, check)
			with, r := counted(t, c, "--cache=false")
			same(t, run(t, c), with)
			check(t, r)
		})
	}
}

// TestLatePidNamespaces: processes whose threads have the same numbers, as each pid
// namespace has its own, add to one table at the same time.
func TestLatePidNamespaces(t *testing.T) {
	lane.Parallel(t)
	needsRoot(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "latepidns.c")
	const children, rounds = 6, 3
	args := []string{program, fmt.Sprint(children)}
	for range 6 {
		args = append(args, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	}
	without := run(t, cmd(args...))
	for _, flags := range [][]string{{"--cache=false"}, nil, {"--cache=false", "--control"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, cmd(args...), flags...)
			same(t, without, with)
			for i, l := range args[2:] {
				if n, want := r.late(l, "late_step"), uint64(children*rounds*10*(i+1)); n != want {
					t.Errorf("library %d: late_step: %d calls, not %d", i, n, want)
				}
				if n, want := r.late(l, "late_made"), uint64(children*rounds*7); n != want {
					t.Errorf("library %d: late_made: %d calls, not %d", i, n, want)
				}
			}
		})
	}
}

// TestLateCloses: what the program closes and unmaps while a library is planned is
// closed and unmapped; no planner has it yet. With --control that is a copy of the
// process, with its mappings.
func TestLateCloses(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "latecloses.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	controlled := []string{"--objects", "all", "--threshold", "1000", "--control"}
	for _, row := range []struct{ how, flags []string }{
		{[]string{"shared"}, nil},
		{[]string{"shared"}, []string{"--objects", "all", "--keep-calls"}},
		{nil, controlled},
		{[]string{"large", "shared"}, nil},
		{[]string{"large"}, controlled},
	} {
		t.Run(strings.Join(slices.Concat(row.flags, row.how), " "), func(t *testing.T) {
			c := cmd(append([]string{program, library}, row.how...)...)
			without := run(t, c)
			with, r := counted(t, c, row.flags...)
			same(t, without, with)
			if n := r.late(library, "late_step"); n != 12*10 || r.ObjectsMissed != 0 {
				t.Errorf("late_step: %d calls; missed: %+v", n, r.Missed)
			}
		})
	}
}

// TestLatePython: extension modules, and what they link.
func TestLatePython(t *testing.T) {
	lane.Parallel(t)
	python := "/usr/bin/python3.11"
	needFile(t, python)
	script := `import json, hashlib, decimal, ctypes, sqlite3, zlib, bz2, lzma
c = sqlite3.connect(":memory:")
c.execute("create table t(a)")
c.executemany("insert into t values(?)", [(i,) for i in range(1000)])
print(c.execute("select sum(a) from t").fetchone(), hashlib.sha256(b"x").hexdigest(), decimal.Decimal("1.1") * 3)
print(json.dumps({"a": [1, 2]}), len(bz2.compress(b"abc" * 1000)), len(lzma.compress(b"abc" * 1000)))`
	c := cmd(python, "-S", "-c", script)
	without := run(t, c)
	with, r := counted(t, c)
	same(t, without, with)
	for _, library := range []string{"libsqlite3.so.0.8.6", "libcrypto.so.3", "libbz2.so.1.0.4", "libffi.so.8.1.2"} {
		i := slices.IndexFunc(r.Functions, func(f function) bool { return strings.HasSuffix(f.Object, "/"+library) })
		if i < 0 {
			t.Errorf("%s is not in the report", library)
		}
	}
	if n := r.late("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", "sqlite3_step"); n < 1000 {
		t.Errorf("sqlite3_step: %d calls", n)
	}
}

// TestLateEvents: what the planner of later objects calls in its copy of the
// process crosses no threshold of the program's.
func TestLateEvents(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, more := range [][]string{nil, {"usesgs.S"}} {
		c := cmd(compile(t, gcc, []string{"-O1"}, append([]string{"late.c"}, more...)...), "once", library)
		c.env = []string{"DYNPROF_OBJECTS=all"}
		without := run(t, c)
		for _, n := range []uint64{1, 2, 3, 10} {
			with, r, list := countedWithEvents(t, c, n)
			same(t, without, with)
			events := map[string]int{} // those of a library that is loaded twice have two
			for _, e := range list {
				events[e.Object+e.Address]++
				if e.Calls != n {
					t.Errorf("%s: event at %d calls, not %d", e.Name, e.Calls, n)
				}
			}
			for _, f := range r.Functions {
				if f.Hot != (events[f.Object+f.Address] > 0) {
					t.Errorf("threshold %d: %s with %d calls: hot %t, %d events", n, f.Name, f.Calls, f.Hot, events[f.Object+f.Address])
				}
			}
		}
	}
}
