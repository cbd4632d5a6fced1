package test

import (
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// controlled is the program that controls itself (testdata/control.c).
func controlled(t *testing.T, compiler string, flags ...string) string {
	t.Helper()
	return compile(t, need(t, compiler), append(flags, "-Wall", "-Werror", "-I../libdynprof"), "control.c")
}

// ok fails unless a fixture found everything right.
func ok(t *testing.T, r result) {
	t.Helper()
	if r.stdout != "ok\n" || r.status != 0 || r.stderr != "" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestControlFromInside: the program pauses, resumes and resets, and knows how
// often it called what meanwhile.
func TestControlFromInside(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	plugin := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	for _, build := range lane.Some([][]string{{"gcc", "-O1"}, {"gcc", "-O2", "-fcf-protection=full"}, {"clang", "-O2"}}, 1) {
		p := controlled(t, build[0], build[1:]...)
		for i, args := range [][]string{{"finds"}, {"poor"}, {"exact"}, {"flips", "2000"}, {"forks"}, {"forks", plugin}} {
			for _, flags := range lane.Turn([][]string{nil, {"--threshold", "50"}, {"--objects", "all"}, {"--lock"}, {"--keep-calls"}}, i) {
				r, _ := counted(t, cmd(append([]string{p}, args...)...), flags...)
				if t.Run(build[0]+" "+args[0], func(t *testing.T) { ok(t, r) }); t.Failed() {
					return
				}
			}
		}
	}
}

// TestControlWithout: a program that includes dynprof.h runs without the
// library, and in C++.
func TestControlWithout(t *testing.T) {
	lane.Parallel(t)
	want := "0 0 -38 0 -38 -38 -38 -38\nok\n"
	for _, row := range [][]string{
		{"gcc", "-O2"}, {"clang", "-O1"}, {"clang", "-O0", "-no-pie", "-fPIE"},
	} {
		p := controlled(t, row[0], row[1:]...)
		if r := run(t, cmd(p, "off")); r.stdout != want || r.status != 0 {
			t.Errorf("%v: status %d: %s%s", row, r.status, r.stdout, r.stderr)
		}
		if r, _ := counted(t, cmd(p, "off")); r.stdout != "7 1 0 2 0 -2 1 0\nok\n" {
			t.Errorf("%v, counted: %s%s", row, r.stdout, r.stderr)
		}
	}
	p := compile(t, need(t, "g++"), []string{"-Wall", "-Werror", "-I../libdynprof"}, "controlpp.cc")
	if r := run(t, cmd(p)); r.stdout != "-38 0\n" {
		t.Errorf("C++: %s%s", r.stdout, r.stderr)
	}
	if r, _ := counted(t, cmd(p)); r.stdout != "0 1\n" {
		t.Errorf("C++, counted: %s%s", r.stdout, r.stderr)
	}
}

// TestSnapshotFromInside: the copy has what was counted before it was made.
func TestSnapshotFromInside(t *testing.T) {
	lane.Parallel(t)
	p := controlled(t, "gcc", "-O1")
	for _, row := range []struct{ flags, args []string }{
		{nil, nil}, {[]string{"--threshold", "5"}, nil}, {[]string{"--objects", "all"}, nil},
		{nil, []string{"half"}}, // whoever added objects has died
	} {
		path := filepath.Join(t.TempDir(), "copy.dynprof")
		r, final := counted(t, cmd(append([]string{p, "snapshot", path}, row.args...)...), row.flags...)
		ok(t, r)
		copied := readReport(t, path)
		if copied.Status != "snapshot" {
			t.Errorf("status %s", copied.Status)
		}
		for _, name := range []string{"outer", "loops", "carries", "narrow"} {
			if a, b := copied.calls(t, name), final.calls(t, name); a != 10 || b != 20 {
				t.Errorf("%s: %d calls in the copy, %d at the end", name, a, b)
			}
		}
		for i, f := range copied.Functions {
			if f.Calls > final.Functions[i].Calls && f.Name == final.Functions[i].Name {
				t.Errorf("%s: %d calls in the copy, %d at the end", f.Name, f.Calls, final.Functions[i].Calls)
			}
		}
		if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}
