package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// bisected is the JSON of hotspots bisect (docs/bisect.md).
type bisected struct {
	Verdict     string `json:"verdict"`
	Functions   int    `json:"functions"`
	Objects     int    `json:"objects"`
	Runs        int    `json:"runs"`
	Unstable    bool   `json:"unstable"`
	ByCall      string `json:"by_call"`
	Others      string `json:"others"`
	Skip        string `json:"skip"`
	Next        string `json:"next"`
	Differences []struct {
		What    string  `json:"what"`
		Line    int     `json:"line"`
		Without *string `json:"without"`
		With    *string `json:"with"`
	} `json:"differences"`
	Culprits []struct {
		Object  string   `json:"object"`
		Address string   `json:"address"`
		Name    string   `json:"name"`
		Tactic  string   `json:"tactic"`
		Moved   int      `json:"moved"`
		Note    string   `json:"note"`
		Code    []line   `json:"code"`
		Stub    []line   `json:"stub"`
		Copy    []string `json:"copy"`
	} `json:"culprits"`
}

type line struct {
	Address string `json:"address"`
	Bytes   string `json:"bytes"`
	Text    string `json:"text"`
}

// bisect runs hotspots bisect with flags that come before -- and the program.
func bisect(t *testing.T, c command, flags ...string) result {
	t.Helper()
	c.args = slices.Concat([]string{build(t, "hotspots"), "bisect"}, flags, []string{"--"}, c.args)
	if _, err := os.Stat("/dev/shm"); err == nil { // a busy disk must not look like a hang
		c.env = append([]string{"TMPDIR=/dev/shm"}, c.env...)
	}
	return run(t, c)
}

func bisectJSON(t *testing.T, c command, flags ...string) *bisected {
	t.Helper()
	r := bisect(t, c, append([]string{"--format", "json"}, flags...)...)
	var b bisected
	if err := json.Unmarshal([]byte(r.stdout), &b); err != nil {
		t.Fatalf("status %d, %v\n%s%s", r.status, err, r.stdout, r.stderr)
	}
	if want := map[string]int{"same": 0, "found": 1, "library": 1}[b.Verdict]; r.status != want {
		t.Errorf("status %d, verdict %s", r.status, b.Verdict)
	}
	return &b
}

func (b *bisected) names() (all []string) {
	for _, c := range b.Culprits {
		all = append(all, filepath.Base(c.Object)+":"+c.Name)
	}
	return all
}

func (b *bisected) difference() string {
	if len(b.Differences) == 0 {
		return ""
	}
	d := b.Differences[0]
	text := func(s *string) string {
		if s == nil {
			return "(end)"
		}
		return *s
	}
	return fmt.Sprintf("%s:%d:%s:%s", d.What, d.Line, text(d.Without), text(d.With))
}

// suspicious builds testdata/bisect.c, a program that notices when functions
// of its own are patched, and its library.
func suspicious(t *testing.T) string {
	t.Helper()
	cc := need(t, "gcc")
	dir := t.TempDir()
	library, program := filepath.Join(dir, "libbisect.so"), filepath.Join(dir, "program")
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-o", library, "testdata/bisectlib.c"},
		{"-DWITH_LIBRARY", "-o", program, "testdata/bisect.c", library, "-Wl,-rpath," + dir},
	} {
		args = append([]string{"-O2", "-fcf-protection=none"}, args...)
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", cc, args, err, out)
		}
	}
	return program
}

func TestBisectFindsTheFunction(t *testing.T) {
	t.Parallel()
	program := suspicious(t)
	type row struct {
		mode       string
		flags      []string
		culprits   []string
		difference string
		others     string
	}
	for _, row := range lane.Some([]row{
		{"one", nil, []string{"program:alpha"}, "stdout:2:alpha 0:alpha 1", "same"},
		{"status", nil, []string{"program:beta"}, "status:0:3:4", "same"},
		{"both", nil, []string{"program:alpha", "program:beta"}, "stdout:2:together 0:together 1", "same"},
		{"either", nil, []string{"program:alpha"}, "stderr:1:one of them 0:one of them 1", "differ"},
		{"either", []string{"--skip", "^alpha$"}, []string{"program:beta"}, "stderr:1:one of them 0:one of them 1", "same"},
		{"crash", nil, []string{"program:alpha"}, "status:0:0:134 (aborted)", "same"},
		{"hang", []string{"--timeout", "3s", "--only", "^(alpha|beta)$"}, []string{"program:beta"}, "status:0:0:killed: it did not end within 3s", "same"},
		{"endless", nil, []string{"program:beta"}, "status:0:0:killed: it wrote more than 64 MB", "same"},
		{"exec", []string{"--follow-exec"}, []string{"program:alpha"}, "stdout:2:alpha 0:alpha 1", "same"},
		{"library", nil, []string{"libbisect.so:twin"}, "stdout:2:17 of the library 0:17 of the library 1", "same"},
		{"one", []string{"--objects", "main", "--only", "^a"}, []string{"program:alpha"}, "stdout:2:alpha 0:alpha 1", "same"},
		{"clock", []string{"--check", "! grep -q 'alpha 1' $BISECT_STDOUT"}, []string{"program:alpha"}, "check:0:0:1", "same"},
		{"status", []string{"--check", "test $BISECT_STATUS = 3", "--repeat", "2"}, []string{"program:beta"}, "check:0:0:1", "same"},
		{"both", []string{"--check", "if grep -q 'together 1' $BISECT_STDOUT; then exit 9; fi; exit 0"}, []string{"program:alpha", "program:beta"}, "check:0:0:9", "same"},
	}, 2, 3, 5, 9, 11) {
		t.Run(row.mode+" "+strings.Join(row.flags, " "), func(t *testing.T) {
			b := bisectJSON(t, cmd(program, row.mode), row.flags...)
			if !slices.Equal(b.names(), row.culprits) || b.difference() != row.difference || b.Others != row.others || b.Unstable {
				t.Errorf("%v, %s, others %s, unstable %v", b.names(), b.difference(), b.Others, b.Unstable)
			}
			for _, c := range b.Culprits {
				if c.Note != "" || len(c.Code) == 0 || len(c.Stub) < 2 || !strings.HasPrefix(c.Stub[0].Text, "incq %gs:0x") || c.Code[0].Address != c.Address {
					t.Errorf("not explained: %+v", c)
				}
			}
			if b.Runs > 40 {
				t.Errorf("%d runs", b.Runs)
			}
		})
	}
}

// With blocks, it is told whether the copy makes the difference, and what the copy is.
func TestBisectBlocks(t *testing.T) {
	t.Parallel()
	program := suspicious(t)
	for _, row := range []struct {
		mode, name, byCall string
	}{
		{"copy", "copied", "same"}, {"one", "alpha", "differ"},
	} {
		b := bisectJSON(t, cmd(program, row.mode), "--blocks")
		if !slices.Equal(b.names(), []string{"program:" + row.name}) || b.ByCall != row.byCall || b.Others != "same" {
			t.Fatalf("%s: %+v", row.mode, b)
		}
		c := b.Culprits[0]
		if copied := row.byCall == "same"; c.Note != "" || copied != (len(c.Copy) > 0) || copied && (len(c.Stub) != 1 || !strings.Contains(strings.Join(c.Copy, "\n"), "home ")) {
			t.Errorf("%s: %+v", row.mode, c)
		}
	}
	r := bisect(t, cmd(program, "copy"), "--blocks=cop*,alpha")
	if r.status != 1 || !strings.Contains(r.stdout, "its copy does") || !strings.Contains(r.stdout, "hotspots run '--blocks=cop*,alpha' --skip") {
		t.Errorf("%+v", r)
	}
	if b := bisectJSON(t, cmd(program, "copy"), "--blocks=alpha"); b.Verdict != "same" {
		t.Errorf("%+v", b)
	}
}

// The stub shown is the one that counted: a library's twin has other code than
// the executable's function of that name.
func TestBisectShowsCodeOfTheRightObject(t *testing.T) {
	lane.Parallel(t)
	program := suspicious(t)
	b := bisectJSON(t, cmd(program, "library"))
	if len(b.Culprits) != 1 {
		t.Fatalf("%v", b.names())
	}
	library := filepath.Join(filepath.Dir(program), "libbisect.so")
	out, err := exec.Command(need(t, "objdump"), "-d", "--disassemble=twin", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range b.Culprits[0].Code {
		spaced := regexp.MustCompile("..").ReplaceAllString(l.Bytes, "$0 ")
		want := regexp.MustCompile(" " + strings.TrimPrefix(l.Address, "0x") + ":\t" + spaced + " *\t")
		if !want.Match(out) {
			t.Errorf("%s %s %s is not in\n%s", l.Address, l.Bytes, l.Text, out)
		}
	}
}

func TestBisectVerdicts(t *testing.T) {
	lane.Parallel(t)
	program := suspicious(t)
	t.Run("no difference", func(t *testing.T) {
		r := bisect(t, cmd(program, "none"))
		if want := regexp.MustCompile(`^no difference with \d\d functions of 2 objects patched \(3 runs, [\d.]+ s\)\n$`); r.status != 0 || !want.MatchString(r.stdout) || r.stderr != "" {
			t.Errorf("status %d, %q, %q", r.status, r.stdout, r.stderr)
		}
	})
	t.Run("the library", func(t *testing.T) {
		b := bisectJSON(t, cmd(program, "preload"))
		if b.Verdict != "library" || len(b.Culprits) > 0 || b.difference() != "stdout:2:library 0:library 1" {
			t.Errorf("%+v", b)
		}
	})
	for _, row := range []struct {
		name, mode string
		flags      []string
		says       string
	}{
		{"not the same twice", "clock", nil, "does not do the same twice without the library (stdout line 2: "},
		{"bad without the library", "one", []string{"--check", "exit 1"}, "--check says bad (status 1) of "},
		{"no such check", "one", []string{"--check", "no-such-command"}, "--check says bad (status 127) of "},
		{"unclear without the library", "one", []string{"--check", "exit 125"}, "--check cannot tell (status 125) of "},
		{"unclear with everything", "one", []string{"--check", "grep -q 'alpha 0' $BISECT_STDOUT || exit 125"}, "with everything patched"},
		{"endless check", "one", []string{"--timeout", "3s", "--check", "sleep 1000"}, "--check was killed: it did not end within 3s"},
		{"nothing to patch", "one", []string{"--only", "^no such function$"}, "no function of "},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := bisect(t, cmd(program, row.mode), row.flags...)
			if r.status != 125 || !strings.Contains(r.stderr, row.says) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
				t.Errorf("status %d, %q, %q", r.status, r.stdout, r.stderr)
			}
		})
	}
}

func TestBisectTextAndSkip(t *testing.T) {
	lane.Parallel(t)
	program := suspicious(t)
	c := cmd(program, "input")
	c.stdin = "one\ntwo\nthree\n"
	r := bisect(t, c)
	for _, want := range []string{
		"makes a difference\n\nalpha\n", "  object   " + program, "  tactic   whole-body: 5 bytes overwritten at 0x", "stub, which ran at 0x", "incq %gs:0x",
		"stdout line 3\n  without  +two\n  with     -two\n", "\nthen nothing differs\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	_, skip, found := strings.Cut(r.stdout, "leave it out:\n  hotspots ")
	skip, _, _ = strings.Cut(skip, "\n")
	if !found {
		t.Fatalf("no command in\n%s", r.stdout)
	}
	again := cmd("/bin/sh", "-c", build(t, "hotspots")+" "+skip)
	again.stdin, again.env = c.stdin, []string{"XDG_RUNTIME_DIR=" + t.TempDir()}
	if got := run(t, again); !strings.Contains(got.stdout, "+two\n") || !strings.Contains(got.stderr, "calls") {
		t.Errorf("%s: %+v", skip, got)
	}
}

// All runs can be looked at, if that was asked for, else nothing is left.
func TestBisectKeep(t *testing.T) {
	lane.Parallel(t)
	program := suspicious(t)
	tmp := t.TempDir()
	c := cmd(program, "one")
	c.env = []string{"TMPDIR=" + tmp}
	bisect(t, c)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	r := bisect(t, c, "--keep")
	_, dir, _ := strings.Cut(strings.TrimSpace(r.stderr), "the runs are kept in ")
	for _, file := range []string{"run-1/stdout", "run-7/stderr", "run-7/names", "run-7/tables"} {
		if _, err := os.Stat(filepath.Join(dir, file)); dir == "" || err != nil {
			t.Errorf("%v in %q", err, r.stderr)
		}
	}
}

// Interrupted, it ends its run, leaves nothing, and says how far it came.
func TestBisectInterrupted(t *testing.T) {
	lane.Parallel(t)
	program := suspicious(t)
	tmp := t.TempDir()
	e := exec.Command(build(t, "hotspots"), "bisect", "--timeout", "30s", "--", program, "hang")
	e.Env = append(os.Environ(), "TMPDIR="+tmp)
	var stderr strings.Builder
	e.Stderr = &stderr
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for { // run 3 is the first that hangs
		if m, _ := filepath.Glob(tmp + "/*/run-3/tables/*"); len(m) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no third run")
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.Process.Signal(syscall.SIGTERM)
	e.Wait()
	if e.ProcessState.ExitCode() != 130 || stderr.String() != "hotspots: interrupted after 3 runs\n" {
		t.Errorf("status %d, %q", e.ProcessState.ExitCode(), stderr.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if m, _ := filepath.Glob("/proc/[0-9]*/exe"); slices.ContainsFunc(m, func(exe string) bool {
		path, _ := os.Readlink(exe)
		return path == program
	}) {
		t.Error("the program lives")
	}
}
