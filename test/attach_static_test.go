package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// staticBuilds are ways to build a program that loads no library.
var staticBuilds = [][]string{
	{"gcc", "-O1", "-static"}, {"gcc", "-O2", "-static-pie", "-fcf-protection=full"}, {"musl-gcc", "-O1", "-static"},
	{"clang", "-O2", "-static"},
}

// musl builds programs whose dynamic linker loads no library of ours.
var musl = []string{"musl-gcc", "-O1"}

// compileWith compiles a source by a compiler with flags. musl has no headers of the kernel.
func compileWith(t *testing.T, how []string, source string) string {
	t.Helper()
	flags := how[1:]
	if how[0] == "musl-gcc" {
		flags = append([]string{"-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"}, flags...)
	}
	return compile(t, need(t, how[0]), flags, source)
}

// TestAttachStatic: programs without a dynamic linker, and those with musl's, are attached to as
// others are.
func TestAttachStatic(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(append(staticBuilds, musl), 0, 1, 2, 4) {
		p := compileWith(t, how, "attached.c")
		for _, args := range lane.Some([][]string{{"4", "births", "forks", "signals"}, {"4", "births"}, {"1"}}, 0) {
			t.Run(strings.Join(append(how, args...), " "), func(t *testing.T) {
				attachAndDetach(t, append([]string{p}, args...)...)
			})
		}
	}
}

// TestAttachStaticCycles: nothing is left, without symbols either.
func TestAttachStaticCycles(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"gcc", "-O2", "-static", "-s"}, {"musl-gcc", "-O1"}, {"musl-gcc", "-static"}}, 0, 1) {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			a := startAttached(t, compileWith(t, how, "attached.c"), "2", "signals")
			before := a.state()
			for range lane.Of(3, 50) {
				os.Remove(a.attach())
				a.detach()
			}
			if now := a.state(); now != before {
				t.Errorf("something is left: %s", difference(before, now))
			}
			a.quiet()
			a.goOn()
			a.end()
		})
	}
}

// TestAttachStaticFull: where the last page of code has no room the thread that works for us
// works in the vdso's.
func TestAttachStaticFull(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1", "-static"}, "attached.c", "fullpage.S"), "2")
	before, calls := a.state(), a.quiet()
	table := a.attach()
	a.goOn()
	time.Sleep(20 * time.Millisecond)
	a.compare(calls, a.quiet(), nil, readReport(t, table))
	a.detach()
	if now := a.state(); now != before {
		t.Errorf("something is left: %s", difference(before, now))
	}
	a.goOn()
	a.end()
}

// needNoBlocks: of static programs trips are not counted, nor blocks of hot functions.
func needNoBlocks(t *testing.T) {
	t.Helper()
	if b := setting("TEST_BLOCKS"); b == "trips" || b == "hot" {
		t.Skip("static programs have no such blocks")
	}
}

// TestRunStatic: hotspots run counts a static program from its first instruction on.
func TestRunStatic(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(append(staticBuilds, musl), 0, 1, 2, 4) {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table.dynprof")
			a := converseAttached(t, exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", compileWith(t, how, "attached.c"), "4", "births", "forks", "signals"))
			time.Sleep(20 * time.Millisecond)
			all := a.quiet()
			a.compare(map[string]uint64{}, all, nil, readReport(t, table))
			a.goOn()
			a.end()
			last := readReport(t, table)
			if n := last.calls(t, "main"); n != 1 {
				t.Errorf("main was called %d times", n)
			}
			if last.Status != "exited" {
				t.Errorf("it has %s", last.Status)
			}
		})
	}
}

// TestRunStaticSame: a static program does what it does without us, and a script of one.
func TestRunStaticSame(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	for _, how := range [][]string{{"gcc", "-O1", "-static"}, {"gcc", "-O1", "-static-pie"}, musl} {
		program, made := compileWith(t, how, "victim.c"), filepath.Join(dir, "made")
		script := write(t, filepath.Join(t.TempDir(), "script"), "#!"+program+"\n", 0o755)
		for _, args := range [][]string{{program, made}, {script}} {
			without := run(t, cmd(args...))
			os.Remove(made)
			table := filepath.Join(t.TempDir(), "table")
			with := run(t, cmd(append([]string{hotspots, "run", "--strict", "--summary", "0", "-o", table, "--"}, args...)...))
			os.Remove(made)
			same(t, without, with)
			if r := readReport(t, table); r.calls(t, "main") != 1 {
				t.Errorf("main: %d calls", r.calls(t, "main"))
			}
		}
	}
}

// TestRunStaticThreshold: functions of a static program have their events.
func TestRunStaticThreshold(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	for _, how := range lane.Some(append(staticBuilds, musl), 0, 2, 4) {
		const threshold = 20
		c := cmd(compileWith(t, how, "victim.c"), filepath.Join(t.TempDir(), "made"))
		without := run(t, c)
		os.Remove(c.args[1])
		with, r, list := countedWithEvents(t, c, threshold)
		same(t, without, with)
		of := eventsOf(t, r, list)
		for _, f := range r.Functions {
			if _, has := of[f.Name]; has != (f.Calls >= threshold) {
				t.Errorf("%v: %s has %d calls, and an event: %v", how, f.Name, f.Calls, has)
			}
		}
	}
}

// TestRunStaticRefused: what a static program cannot be counted by is said, and it runs all the
// same, or, with --strict, does not.
func TestRunStaticRefused(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	hotspots, program := build(t, "hotspots"), victim(t, "-static")
	for _, row := range []struct{ flag, says string }{
		{"--blocks=hot", "is statically linked: it loads no library, and --blocks=hot takes one"},
		{"--trips", "and --trips takes one"},
		{"--overhead=5", "and --overhead takes one"},
		{"", "no function of .* is known that could be counted"},
	} {
		if row.flag == "" {
			program = compile(t, need(t, "gcc"), []string{"-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-asynchronous-unwind-tables", "-s"}, "bare.c")
			row.flag = "--lock"
		}
		made, table := filepath.Join(t.TempDir(), "made"), filepath.Join(t.TempDir(), "table")
		without := run(t, cmd(program, made))
		os.Remove(made)
		with := run(t, cmd(hotspots, "run", row.flag, "-o", table, "--", program, made))
		oneLine(t, with.stderr, row.says, without.stderr)
		with.stderr = without.stderr
		same(t, without, with)
		os.Remove(made)
		strict := run(t, cmd(hotspots, "run", "--strict", row.flag, "-o", table, "--", program, made))
		oneLine(t, strict.stderr, "--strict.*"+row.says, "")
		if _, err := os.Stat(made); err == nil || strict.status != 125 {
			t.Errorf("%s --strict: it ran, or status %d", row.flag, strict.status)
		}
	}
}

// TestRunStaticFollows: with --follow-exec the programs that a static one executes are counted,
// if they load the library.
func TestRunStaticFollows(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	dir := t.TempDir()
	executes, ends := compile(t, need(t, "gcc"), []string{"-O1", "-static"}, "executes.c"), compile(t, need(t, "gcc"), nil, "executes.c")
	r := run(t, cmd(build(t, "hotspots"), "run", "--strict", "--follow-exec", "-o", filepath.Join(dir, "%p"), "--", executes, ends))
	tables, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(tables) != 2 || r.status != 5 || strings.Contains(r.stderr, "not counted") {
		t.Fatalf("tables %q, status %d: %s", tables, r.status, r.stderr)
	}
	for _, table := range tables {
		if n := readReport(t, table).calls(t, "main"); n != 1 {
			t.Errorf("%s: main was called %d times", table, n)
		}
	}
}

// TestRunStaticPrograms: those of Debian say and do what they do without us.
func TestRunStaticPrograms(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	text := "../docs/trials.md"
	for _, args := range lane.Some([][]string{
		{"bash-static", "-c", `f() { ((${1}<=1)) && echo 1 || echo $(( $1 * $(f $(($1-1))) )); }; f 8; trap "echo t" TERM; kill -TERM $$; coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo $l; exit 9`},
		{"busybox", "sh", "-c", "for i in 1 2 3; do echo $i | sed s/2/x/; done; (exit 4); echo $?; yes | head -1000 | wc -l; kill -TERM $$"},
		{"busybox", "awk", "BEGIN { for (i = 0; i < 100000; i++) s += i * i; print s }"},
		{"busybox", "sort", text}, {"busybox", "gzip", "-c", text}, {"busybox", "sha512sum", text},
		{"busybox", "find", "testdata", "-name", "*.c"}, {"busybox", "id", "root"}, {"busybox", "nosuch"},
		{"sash", "-c", "-ls -l testdata"}, {"e2fsck.static", "-V"}, {"/sbin/ldconfig", "-p"},
		{"zsh-static", "-c", "x=(a b c); print -l ${(j:-:)x}; (exit 3) & wait $!; echo $?"},
		{"qemu-x86_64-static", "/bin/ls", "testdata"}, {"gpgv-static", "--version"},
	}) {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			program := need(t, args[0])
			without := run(t, cmd(append([]string{program}, args[1:]...)...))
			with := run(t, cmd(append([]string{build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", filepath.Join(t.TempDir(), "table"), "--", program}, args[1:]...)...))
			same(t, without, with)
		})
	}
}

// TestRunStaticSites: a C library's system calls that must be known of before are known, whatever
// it is: those of musl load their numbers further in front.
func TestRunStaticSites(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	const threads, forks, each = 300, 20, 1000 // anysites.c
	for _, how := range lane.Some(append(staticBuilds, musl), 0, 2, 4) {
		program := compileWith(t, how, "anysites.c")
		for _, takes := range []string{"counts", "GS"} {
			t.Run(strings.Join(append(how, takes), " "), func(t *testing.T) {
				args, table := []string{program, takes}, filepath.Join(t.TempDir(), "table")
				without := run(t, cmd(args...))
				same(t, without, run(t, cmd(append([]string{build(t, "hotspots"), "run", "--strict", "--summary", "0", "-o", table, "--"}, args...)...)))
				r := readReport(t, table)
				for function, want := range map[string]uint64{"work": threads + 2*forks*each, "runs": threads} {
					if n := r.calls(t, function); n != want {
						t.Errorf("%s was called %d times, not %d", function, n, want)
					}
				}
			})
		}
	}
}
