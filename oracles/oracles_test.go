package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadTAP(t *testing.T) {
	r, err := readTAP(&output{stdout: []byte("1..7\nok 1 - a\nnot ok 2 # TODO later\n# ok 9\nok # skip no fork\nok 4\nok 4 again\nok\nBail out!\n")})
	if err != nil {
		t.Fatal(err)
	}
	want := results{"plan": "7", "1": "ok", "2": "not ok todo", "3": "ok skip", "4": "ok", "4#2": "ok", "5": "ok"}
	if !maps.Equal(r, want) {
		t.Errorf("%v, want %v", r, want)
	}
}

func TestReadRedis(t *testing.T) {
	r, err := readRedis(&output{stdout: []byte("\x1b[0;32m[ok]\x1b[0m: SET (a) (3 ms)\n[err]: GET in x.tcl\n[ready]: 1\n")})
	if want := (results{"SET (a)": "ok", "GET in x.tcl": "err"}); err != nil || !maps.Equal(r, want) {
		t.Errorf("%v, %v, want %v", r, err, want)
	}
}

func TestReadJUnit(t *testing.T) {
	dir := t.TempDir()
	text := `<testsuites><testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase><testcase name="c"><failure>x</failure></testcase></testsuite></testsuites>`
	if err := os.WriteFile(filepath.Join(dir, "junit.xml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &output{dir: dir}
	r, err := readJUnit("junit.xml")(o)
	if want := (results{"a": "ok", "b": "skipped", "c": "failure"}); err != nil || !maps.Equal(r, want) {
		t.Errorf("%v, %v, want %v", r, err, want)
	}
	// The report of an earlier run must not be read again.
	if r, err = readJUnit("junit.xml")(o); err != nil || !maps.Equal(r, results{"report": "missing"}) {
		t.Errorf("%v, %v: read twice", r, err)
	}
}

func TestCompare(t *testing.T) {
	got := compare("u", results{"same": "ok", "worse": "ok", "gone": "ok"}, results{"same": "ok", "worse": "not ok", "new": "ok"})
	want := []difference{{"u", "gone", "ok", none}, {"u", "new", none, "ok"}, {"u", "worse", "ok", "not ok"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCollect: what differs once remains a difference, unless it is unsteady
// without the library, too.
func TestCollect(t *testing.T) {
	run := func(without, with results) *pair {
		return &pair{outcome: [2]results{without, with}, differ: compare("u", without, with)}
	}
	found := collect([]*pair{
		run(results{"a": "ok", "b": "ok", "c": "ok"}, results{"a": "bad", "b": "bad", "c": "ok"}),
		run(results{"a": "ok", "b": "bad", "c": "ok"}, results{"a": "ok", "b": "bad", "c": "ok"}),
	})
	var got []string
	for _, f := range found {
		got = append(got, f.test+" "+map[bool]string{true: "unsteady", false: "differs"}[f.unsteady()])
	}
	if want := []string{"a differs", "b unsteady"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestChoose(t *testing.T) {
	s := &suite{name: "s"}
	units := []unit{{name: "a"}, {name: "b", slow: true}}
	for _, c := range []struct {
		pattern string
		quick   bool
		want    string
		all     bool
	}{
		{"", false, "a b", true}, {"", true, "a", true}, {"^s$", true, "a", true}, {"^s/b$", true, "b", false}, {"^x$", false, "", false},
	} {
		var pattern *regexp.Regexp
		if c.pattern != "" {
			pattern = regexp.MustCompile(c.pattern)
		}
		chosen, all := choose(s, units, pattern, c.quick)
		var names []string
		for _, u := range chosen {
			names = append(names, u.name)
		}
		if got := strings.Join(names, " "); got != c.want || all != c.all {
			t.Errorf("%q quick %v: %q all %v, want %q all %v", c.pattern, c.quick, got, all, c.want, c.all)
		}
	}
}

// TestStart: a command that hangs, with a child in a session of its own, is
// ended and leaves nothing behind; one that cannot start is an error.
func TestStart(t *testing.T) {
	m := &machine{ctx: context.Background(), work: t.TempDir()}
	mark := fmt.Sprintf("ORACLES_MARK=test.%d", os.Getpid()) // another test's processes have others
	env := []string{"PATH=/usr/bin:/bin", mark}
	o, err := m.start(m.ctx, m.work, []string{"/bin/sh", "-c", "echo before; setsid sleep 1000 & sleep 1000"}, env, nil, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if o.status != "time limit" || string(o.stdout) != "before\n" {
		t.Errorf("%s, %q", o.status, o.stdout)
	}
	if n := endMarked(mark); n < 1 {
		t.Error("the one in a session of its own is not found")
	}
	if n := endMarked(mark); n != 0 {
		t.Errorf("%d processes still there", n)
	}
	if _, err := m.start(m.ctx, m.work, []string{"/no/such/program"}, env, nil, time.Second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that does not exist: %v", err)
	}
	o, err = m.start(m.ctx, m.work, []string{"/bin/sh", "-c", "kill -9 $$"}, env, nil, time.Minute)
	if err != nil || o.status != "signal 9 (killed)" {
		t.Errorf("%v, %v", o, err)
	}
}

// TestSuites: names are what -run and the file system take.
func TestSuites(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+$`)
	seen := map[string]bool{}
	for _, s := range suites {
		if !name.MatchString(s.name) || seen[s.name] || s.least == 0 || s.leastQuick == 0 || s.about == "" {
			t.Errorf("suite %+v", s)
		}
		seen[s.name] = true
	}
}

// TestHow: what -how and -part take, and that what makes no sense is said.
func TestHow(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"blocks", "DYNPROF_BLOCKS=1"}, {"blocks,edges", "DYNPROF_BLOCKS=1 DYNPROF_EDGES=1"}, {"hot", "DYNPROF_BLOCKS_OF=hot"}, {"heat", ""},
	} {
		h, err := parseHow(c.text)
		if got := strings.Join(h.variables(), " "); err != nil || got != c.want || h.byCommand() != (c.text == "heat") {
			t.Errorf("-how %q: %q, %v", c.text, got, err)
		}
	}
	units := []unit{{name: "a"}, {name: "b"}, {name: "c"}}
	for text, want := range map[string]string{"1/1": "a b c", "1/2": "a c", "2/2": "b", "5/9": ""} {
		p, err := parsePart(text)
		var names []string
		for _, u := range p.of(units) {
			names = append(names, u.name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("-part %s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"block", "blocks,", ",", "blocks edges"} {
		if h, err := parseHow(text); err == nil {
			t.Errorf("-how %q: %v", text, h)
		}
	}
	for _, text := range []string{"", "1", "0/2", "3/2", "1/2x", "a/2", "-1/2"} {
		if p, err := parsePart(text); err == nil {
			t.Errorf("-part %q: %v", text, p)
		}
	}
}

// TestTables: tables of processes that have ended go while the command runs, and
// are counted once.
func TestTables(t *testing.T) {
	over := exec.Command("true")
	if err := over.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{fmt.Sprint(over.Process.Pid), fmt.Sprint(over.Process.Pid, ".2"), fmt.Sprint(os.Getpid())} {
		if err := os.WriteFile(filepath.Join(dir, name+tableSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := &tables{dir: dir}
	left.take(false)
	if names, _ := os.ReadDir(dir); left.counted != 2 || len(names) != 1 {
		t.Errorf("%d counted, %v left", left.counted, names)
	}
	if left.take(true); left.counted != 3 {
		t.Errorf("%d counted at the end", left.counted)
	}
	if n := available(); n == 0 {
		t.Error("no memory")
	}
}

// TestOverdue: tests that a command did not come to in its time are no differences.
func TestOverdue(t *testing.T) {
	without := results{"1": "ok", "2": "ok", "3": "ok", "exit": "exit 0"}
	err := overdue(time.Minute, true, [2]results{without, {"1": "ok", "2": "not ok", "exit": timeLimit}})
	if want := "the time limit of 1m0s was reached with the library: 2 results of 3, 1 of them differ"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
