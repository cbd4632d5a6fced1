package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// observer is a program of testdata/transparent. Every call of the function
// step is known beforehand.
type observer struct {
	program, frames, segment, plugin, before, audit string
	void                                            string // an empty directory
	dir                                             string // read by all, also by users without rights
}

const (
	steps     = 1000 // calls of step in each work() of observe.c
	uncertain = -1   // the number of calls is not compared
	uncounted = -2   // nothing is counted, and nothing is seen of it
)

func buildObserver(t *testing.T) *observer {
	t.Helper()
	gcc, gxx := need(t, "gcc"), need(t, "g++")
	source := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join("transparent", name))
		}
		return paths
	}
	o := &observer{
		program: compile(t, gcc, []string{"-O1"}, source("observe.c", "sees.c", "does.c", "sandbox.c", "runs.c")...),
		frames:  compile(t, gxx, []string{"-O1", "-rdynamic", "-fnon-call-exceptions"}, source("frames.cc")...),
		segment: compile(t, gcc, []string{"-O1"}, source("segment.c")...),
		plugin:  compile(t, gcc, []string{"-shared", "-fPIC"}, source("plugin.c")...),
		audit:   compile(t, gcc, []string{"-shared", "-fPIC"}, source("audit.c")...),
		before:  compile(t, gcc, []string{"-shared", "-fPIC"}, source("before.c")...),
	}
	o.dir = observerDir(t)
	o.void = filepath.Join(o.dir, "void")
	if err := os.Mkdir(o.void, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]*string{"observe": &o.program, "frames": &o.frames, "segment": &o.segment, "plugin.so": &o.plugin, "before.so": &o.before, "audit.so": &o.audit} {
		to := filepath.Join(o.dir, name)
		if err := os.Rename(*file, to); err != nil {
			t.Fatal(err)
		}
		*file = to
	}
	return o
}

// observerDir is a directory that every user may read: t.TempDir is not.
func observerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dynprof-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scene is a row: a program run without the library and with it.
type scene struct {
	name string
	// args is the command. What stands before "@" is run as it is, without the
	// library; OBSERVE is the program, TABLE the directory of the table.
	args string
	env  []string
	in   string
	// preload is a library of the user's own.
	preload string
	// limit: a difference that the documents tell of.
	limit string
	// calls of step in all processes: steps if it is 0.
	calls int
	// refused: nothing is counted, and the library says one line with this. If
	// calls is uncertain it may be counted just as well.
	refused string
	// missing: the report says that there was no room for some threads.
	missing bool
	// how the library comes in: all unless it is set.
	only  string // "run" or "preload"
	needs []func(*testing.T)
	// edit takes away from the output what no two runs have in common.
	edit func(string) string
}

// play runs the scenes, without the library and with it.
func (o *observer) play(t *testing.T, scenes []scene) {
	for i, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, check := range s.needs {
				check(t)
			}
			before, after := o.words(t, s.args)
			do := func(table string, with ...string) result {
				args := slices.Concat(before, with, after)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "TABLE", table)
				}
				return s.run(t, args)
			}
			without := do(o.void)
			if slices.Contains([]int{2, 77, 126, 127}, without.status) {
				t.Fatalf("the row does not run: %+v", without)
			}
			ways := o.ways(t, s.preload)
			if s.only == "" { // in make test the scenes take turns: by one way counted with all objects, by the other without
				ways = lane.Some(ways, i%2, 3-i%2)
			}
			for _, way := range ways {
				if s.only == "" || s.only == way.name {
					s.compare(t, way.name+" "+way.objects, without, do(way.table, way.args...), way.table)
				}
			}
		})
	}
}

func (s *scene) run(t *testing.T, args []string) result {
	t.Helper()
	need(t, args[0])
	c := command{args: args, env: s.env, stdin: s.in}
	if s.preload != "" {
		c.env = append(c.env, "LD_PRELOAD="+s.preload)
	}
	r := run(t, c)
	if s.edit != nil {
		r.stdout, r.stderr = s.edit(r.stdout), s.edit(r.stderr)
	}
	return r
}

// compare fails unless the program did the same with the library, and was
// counted.
func (s *scene) compare(t *testing.T, how string, without, with result, table string) {
	t.Run(how, func(t *testing.T) {
		if s.refused != "" && (s.calls != uncertain || with.stderr != without.stderr) {
			if list := tables(t, table); len(list) != 0 {
				t.Errorf("there is %v", list)
			}
			if line := with.stderr; strings.Count(line, "\n") != 1 || !strings.Contains(line, s.refused) {
				t.Errorf("stderr is not one line about %s: %q", s.refused, line)
			}
			with.stderr = without.stderr
			same(t, without, with)
			return
		}
		if s.limit != "" && (without.stdout != with.stdout || without.status != with.status) {
			t.Skip("known difference: " + s.limit)
		}
		same(t, without, with)
		if s.calls == uncounted {
			if list := tables(t, table); len(list) != 0 {
				t.Errorf("there is %v", list)
			}
			return
		}
		if len(tables(t, table)) != 1 {
			t.Fatalf("%d tables", len(tables(t, table)))
		}
		r := readReport(t, tables(t, table)[0])
		want := s.calls
		if want == 0 {
			want = steps
		}
		if want > 0 {
			if n := r.calls(t, "step"); n != uint64(want) {
				t.Errorf("step: %d calls, not %d", n, want)
			}
		}
		text := run(t, cmd(build(t, "hotspots"), "report", tables(t, table)[0])).stdout
		if said := strings.Contains(text, "had no room"); said != s.missing {
			t.Errorf("the report says of missing threads: %v", said)
		}
	})
}

// way is one way to bring the library into a program.
type way struct {
	name, objects string
	args          []string // before the program's
	table         string   // directory of it
}

// ways: a library of the user's stands before ours, then behind it.
func (o *observer) ways(t *testing.T, users string) (ways []way) {
	t.Helper()
	for _, objects := range []string{"", "all"} {
		preload := build(t, "libdynprof.so")
		if users != "" && objects == "" {
			preload = users + ":" + preload
		} else if users != "" {
			preload += ":" + users
		}
		for _, name := range []string{"run", "preload"} {
			dir, err := os.MkdirTemp(o.dir, "table")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "table")
			args := []string{"env", "DYNPROF_OUTPUT=" + file, "DYNPROF_OBJECTS=" + objects, "LD_PRELOAD=" + preload}
			if name == "run" {
				args = []string{build(t, "hotspots"), "run", "--summary", "0", "--objects", objects, "-o", file, "--"}
			}
			ways = append(ways, way{name, objects, args, dir})
		}
	}
	return ways
}

func tables(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// words splits a command at spaces, but for those in single quotes, and at
// "@".
func (o *observer) words(t *testing.T, args string) (before, after []string) {
	t.Helper()
	for _, w := range regexp.MustCompile(`'[^']*'|[^ ]+`).FindAllString(args, -1) {
		switch w {
		case "@":
			before, after = after, nil
			continue
		case "OBSERVE":
			w = o.program
		}
		after = append(after, strings.Trim(w, "'"))
	}
	return before, after
}

func sorted(out string) string {
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may do this")
	}
}

func needsNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(need(t, "unshare"), "-Ur", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespaces here: %s", out)
	}
}

func (o *observer) needMDWE(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(o.program, "-mdwe", "true").CombinedOutput(); err != nil {
		t.Skipf("no PR_SET_MDWE in this kernel: %s", out)
	}
}
