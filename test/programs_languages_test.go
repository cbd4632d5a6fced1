//go:build long

package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guest is a program in some language, with a runtime of its own: garbage
// collectors, exceptions, threads, code that is made at run time.
type guest struct {
	name   string
	needs  string   // besides the first words of the following
	build  []string // command in the fixtures' directory; {out} is the program
	run    []string // {out}, or an interpreter and its arguments
	counts map[string]uint64
}

var guests = []guest{
	{name: "Rust", build: []string{"rustc", "-O", "-o", "{out}", "guest.rs"}, run: []string{"{out}"}, counts: map[string]uint64{"step": 9000}},
	{name: "Rust, debug", build: []string{"rustc", "-g", "-o", "{out}", "guest.rs"}, run: []string{"{out}"}, counts: map[string]uint64{"step": 9000}},
	{name: "Fortran", build: []string{"gfortran", "-O1", "-o", "{out}", "guest.f90"}, run: []string{"{out}"}, counts: map[string]uint64{"total": 1000}},
	{name: "OCaml", needs: "ocamlopt", build: []string{"sh", "-c", "mkdir {out} && cp guest.ml {out} && cd {out} && ocamlopt -o program guest.ml"}, run: []string{"{out}/program"}, counts: map[string]uint64{"fib": 242785}},
	{name: "AddressSanitizer", build: []string{"g++", "-O1", "-g", "-fsanitize=address", "-o", "{out}", "guest.cc", "-pthread"}, run: []string{"{out}"}, counts: map[string]uint64{"step": 4000}},
	{name: "ThreadSanitizer", build: []string{"g++", "-O1", "-g", "-fsanitize=thread", "-o", "{out}", "guest.cc", "-pthread"}, run: []string{"{out}"}, counts: map[string]uint64{"step": 4000}},
	{name: "UBSan", build: []string{"g++", "-O1", "-g", "-fsanitize=undefined", "-o", "{out}", "guest.cc", "-pthread"}, run: []string{"{out}"}, counts: map[string]uint64{"step": 4000}},
	{name: "Java", build: []string{"javac", "-d", "{out}", "Guest.java"}, run: []string{"java", "-Xmx300m", "-cp", "{out}", "Guest"}},
	{name: "Node", run: []string{"node", "guest.js"}},
	{name: "Ruby", run: []string{"ruby", "-e", `require "json"; require "digest"; puts JSON.generate({a:[1,2]}), Digest::SHA256.hexdigest("x"), (1..1000).map{|x|x*x}.sum; begin; raise "x"; rescue => e; puts e.message; end; Thread.new{puts 1}.join; f = Fiber.new{Fiber.yield 1; 2}; p f.resume, f.resume`}},
	{name: "PHP", run: []string{"php", "-r", `echo json_encode([1,2]), hash("sha256","x"), array_sum(range(1,1000)), "\n"; try { throw new Exception("x"); } catch (Exception $e) { echo $e->getMessage(); }`}},
	{name: "Guile", run: []string{"guile", "-c", "(display (let f ((n 20)) (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))))"}},
	{name: "SBCL", run: []string{"sbcl", "--noinform", "--non-interactive", "--eval", `(progn (print (loop for i below 1000 sum i)) (handler-case (error "x") (error (e) (print (type-of e)))))`}},
	{name: "Perl modules", run: []string{"perl", "-MPOSIX", "-MList::Util=sum", "-MStorable", "-MDigest::MD5=md5_hex", "-e", `print md5_hex("x"), sum(1..100), POSIX::floor(2.5), "\n"; eval { die "x\n" }; print $@`}},
}

// TestLanguages: same behaviour, and exact counts where they are known.
func TestLanguages(t *testing.T) {
	for _, g := range guests {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			fill := func(args []string) (filled []string) {
				for _, a := range args {
					filled = append(filled, strings.ReplaceAll(a, "{out}", out))
				}
				return filled
			}
			if g.needs != "" {
				need(t, g.needs)
			}
			if g.build != nil {
				need(t, g.build[0])
				c := cmd(fill(g.build)...)
				c.dir = "testdata/guests"
				if r := run(t, c); r.status != 0 {
					t.Fatalf("%s: %s", g.build, r.stderr)
				}
			}
			c := cmd(fill(g.run)...)
			c.args[0] = need(t, c.args[0])
			c.dir = "testdata/guests"
			without := run(t, c)
			for _, flags := range objects {
				with, r := counted(t, c, flags...)
				same(t, without, with)
				if r.TotalCalls < 1000 {
					t.Errorf("%v: %d calls", flags, r.TotalCalls)
				}
				g.check(t, r)
			}
		})
	}
}

// check compares the functions of the executable whose names, however they are
// mangled, have a known part.
func (g *guest) check(t *testing.T, r *report) {
	t.Helper()
	for name, want := range g.counts {
		var calls []uint64
		for _, f := range r.of("") {
			if strings.Contains(f.Name, name) {
				calls = append(calls, f.Calls)
			}
		}
		if !slices.Contains(calls, want) {
			t.Errorf("%s: calls %v, not %d", name, calls, want)
		}
	}
}

// TestOtherPreloads: allocators that others preload, before ours and behind.
func TestOtherPreloads(t *testing.T) {
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "threads.c")
	ours := build(t, "libdynprof.so")
	for _, library := range []string{"libjemalloc.so.2", "libtcmalloc_minimal.so.4"} {
		path := "/usr/lib/x86_64-linux-gnu/" + library
		for i, preload := range []string{path + ":" + ours, ours + ":" + path} {
			t.Run(library+[]string{" before", " behind"}[i], func(t *testing.T) {
				needFile(t, path)
				table := filepath.Join(t.TempDir(), "table")
				c := cmd(p, "churn", "500")
				c.env = []string{"LD_PRELOAD=" + preload, "DYNPROF_OUTPUT=" + table}
				with := run(t, c)
				if with.status != 0 || with.stderr != "" {
					t.Errorf("status %d: %s", with.status, with.stderr)
				}
				if _, err := os.Stat(table); err != nil {
					t.Fatal(err)
				}
				selfCounting(t, comparison{exempt: untallied()}, with, readReport(t, table))
			})
		}
	}
}

// TestAliasedBuiltins: node maps V8's builtins again and calls them there, so
// they are left; all else of it is counted.
func TestAliasedBuiltins(t *testing.T) {
	node := need(t, "node")
	for _, flag := range []string{"--no-lite-mode", "--use-largepages=silent"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := cmd(node, flag, "guest.js")
			c.dir = "testdata/guests"
			without := run(t, c)
			with, r := counted(t, c, "--objects", "all")
			same(t, without, with)
			builtins := 0
			for _, f := range r.of(node) {
				if strings.HasPrefix(f.Name, "Builtins_") {
					if builtins++; f.Reason != "aliased-text" {
						t.Errorf("%+v", f)
					}
				}
			}
			if r.TotalCalls < 1e6 || without.status != 0 {
				t.Errorf("%d calls, %d builtins: %s", r.TotalCalls, builtins, without.stderr)
			}
		})
	}
}
