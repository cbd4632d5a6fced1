package test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// fixture is a program of testdata and what is known of it.
type fixture struct {
	name      string
	flags     []string
	sources   []string
	hooks     []string // how it is built with hooks,
	args      []string // run,
	noHooks   []string // and which of its functions carry none
	callgrind []string // how it is built for callgrind
	unseen    map[string]uint64
	uncounted map[string]string
}

var fixtures = []fixture{
	{
		name:      "C",
		sources:   []string{"calls.c", "events.c"},
		hooks:     []string{"gcc -O0", "gcc -O2", "gcc -Os -no-pie", "clang -O0", "clang -O2 -no-pie", "clang -O3"},
		args:      []string{"faults"}, // callgrind does not survive them
		noHooks:   []string{"atexit", "preinit"},
		callgrind: []string{"gcc -O0", "gcc -O1 -no-pie", "gcc -O2 -fcf-protection=full", "gcc -O3", "gcc -Os", "clang -O1", "clang -O2 -no-pie", "clang -Os -falign-functions=16"},
		// Signal handlers: raised 3, 3, 4 and 5 times (events.c).
		unseen: map[string]uint64{"on_info": 3, "on_nested": 3, "on_usr1": 4, "on_timer": 5},
	},
	{
		name:    "C++",
		flags:   []string{"-fexceptions", "-Wl,--no-as-needed", "-lstdc++"},
		sources: []string{"cpp.cc", "cframes.c"},
		hooks:   []string{"gcc -O0", "gcc -O2 -no-pie", "clang -O0", "clang -O2"},
		// Thunks, and what initialises objects.
		noHooks: []string{"_ZThn8_NK6Circle4nameEv", "_ZTv0_n24_N4Join1vEi", "_GLOBAL__sub_I_cpp.cc",
			"_ZTHL5local", "_ZTWL5local", "__cxx_global_var_init"},
		callgrind: []string{"gcc -O0", "gcc -O1 -no-pie", "gcc -O2 -fcf-protection=full", "gcc -O3", "clang -O2 -no-pie", "clang -Os"},
	},
	{
		name:      "interpreter",
		sources:   []string{"vm.c"},
		hooks:     []string{"gcc -O2", "clang -O3 -no-pie"},
		callgrind: []string{"gcc -O2 -no-pie", "gcc -O3", "gcc -Os -falign-functions=16", "clang -O2"},
	},
	{
		name:      "SQLite",
		flags:     []string{"-Wl,--whole-archive,-l:libsqlite3.a,--no-whole-archive"},
		sources:   []string{"sql.c"},
		callgrind: []string{"gcc -O2"},
		uncounted: map[string]string{"sqlite3WhereSplit": "entry-loop"}, // a short jump to the entry, and calls
	},
	{
		name:    "threads",
		sources: []string{"threads.c"},
		hooks:   []string{"gcc -O1", "clang -O2"},
		args:    []string{"one", "300000"},
	},
	{
		name:    "thread churn",
		sources: []string{"threads.c"},
		hooks:   []string{"gcc -O2"},
		args:    []string{"churn", "2000"},
	},
	{
		name:    "forks",
		sources: []string{"forks.c"},
		hooks:   []string{"gcc -O2", "clang -O0"},
		noHooks: []string{"inline_fork"},
	},
}

// program builds the fixture; row is a compiler and its flags.
func (f *fixture) program(t *testing.T, row string, flags []string, more ...string) string {
	t.Helper()
	compiler, rowFlags, _ := strings.Cut(row, " ")
	all := slices.Concat(f.flags, strings.Fields(rowFlags), flags)
	if f.name == "SQLite" {
		needFile(t, "/usr/include/sqlite3.h", "/usr/lib/x86_64-linux-gnu/libsqlite3.a")
	}
	return compile(t, need(t, compiler), all, slices.Concat(f.sources, more)...)
}

// TestExactHooks compares with hooks of the same run.
func TestExactHooks(t *testing.T) {
	lane.Parallel(t)
	for n, f := range fixtures {
		for i, row := range lane.Thin(f.hooks, 2) {
			t.Run(f.name+" "+row, func(t *testing.T) {
				t.Parallel()
				compiler, _, _ := strings.Cut(row, " ")
				p := f.program(t, row, hooked[compiler], "hooks.c")
				c := cmd(append([]string{p}, f.args...)...)
				c.env = []string{"HOOKS=" + filepath.Join(t.TempDir(), "hooks")}
				without := run(t, c)
				symbols := readSymbols(t, p)
				for _, flags := range lane.Turn([][]string{nil, {"--threshold", "100"}, {"--objects", "all"}, {"--keep-calls"}}, n+i) {
					with, r, want := countedWithHooks(t, c, flags...)
					same(t, without.withoutTallies(), with.withoutTallies())
					comparison{exempt: noHooks(f.noHooks)}.exact(t, r, want, symbols)
				}
			})
		}
	}
}

// TestExactCallgrind compares with another run under callgrind.
func TestExactCallgrind(t *testing.T) {
	lane.Parallel(t)
	for n, f := range fixtures {
		for i, row := range lane.Thin(f.callgrind, 3) {
			t.Run(f.name+" "+row, func(t *testing.T) {
				t.Parallel()
				p := f.program(t, row, nil)
				symbols := readSymbols(t, p)
				under, want := underCallgrind(t, cmd(p), p, symbols)
				for _, flags := range lane.Turn([][]string{nil, {"--threshold", "100"}}, n+i) {
					with, r := counted(t, cmd(p), flags...)
					same(t, under, with)
					callgrindSees(f.unseen, f.uncounted).exact(t, r, want, symbols)
				}
			})
		}
	}
}

// TestExactStripped: without symbols functions are known by their FDEs; the
// addresses are those of the program with symbols.
func TestExactStripped(t *testing.T) {
	lane.Parallel(t)
	f := fixture{name: "interpreter", sources: []string{"vm.c"}}
	for _, row := range lane.Some([]string{"gcc -O2", "gcc -Os -no-pie -falign-functions=16", "clang -O2"}, 1) {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			p := f.program(t, row, nil)
			symbols := readSymbols(t, p)
			under, want := underCallgrind(t, cmd(p), p, symbols)
			stripped := p + ".stripped"
			if out := run(t, cmd("strip", "-o", stripped, p)); out.status != 0 {
				t.Fatal(out.stderr)
			}
			with, r := counted(t, cmd(stripped))
			same(t, under, with)
			c := callgrindSees(nil, nil)
			c.exempt = crt // has no FDE
			c.exact(t, r, want, symbols)
		})
	}
}

// TestExactLibrary: the functions of a shared library, called through linkage
// tables, from other objects and from themselves.
func TestExactLibrary(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct {
		f           *fixture
		build, main string
	}{
		{&fixtures[0], "gcc -O2 -fPIC", "library_main"},
		{&fixtures[0], "clang -O1 -fPIC -fcf-protection=full", "library_main"},
		{&fixtures[1], "gcc -O1 -fPIC", "_Z12library_mainv"},
		{&fixtures[1], "clang -O2 -fPIC", "_Z12library_mainv"},
	} {
		t.Run(row.f.name+" "+row.build, func(t *testing.T) {
			t.Parallel()
			library := row.f.program(t, row.build, []string{"-shared", "-Dmain=library_main"})
			p := compile(t, need(t, "gcc"), []string{"-Wl,--no-as-needed", library, "-DENTRY=" + row.main}, "driver.c")
			symbols := readSymbols(t, library)
			under, want := underCallgrind(t, cmd(p), library, symbols)
			with, r := counted(t, cmd(p))
			same(t, under, with)
			c := callgrindSees(row.f.unseen, nil)
			c.object = library
			c.exact(t, r, want, symbols)
		})
	}
}
