package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// compared is the JSON of hotspots diff.
type compared struct {
	Delta     int64
	Functions []struct {
		Address, Name, Match string
		NameBefore           string `json:"name_before"`
		Before               uint64 `json:"calls_before"`
		After                uint64 `json:"calls_after"`
	}
}

// twoBuilds compiles two builds of builds.c, stripped ones as well, in directories old and
// new of one, and counts each.
func twoBuilds(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	gcc, dir := need(t, "gcc"), t.TempDir()
	for build, more := range map[string][]string{"old": nil, "new": {"-DLATER"}} {
		program := compile(t, gcc, append(append(flags, "-O2", "-fno-ipa-icf", "-Wl,--build-id"), more...), "builds.c")
		if err := os.Mkdir(filepath.Join(dir, build), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, strip := range map[string][]string{"named": {"-g"}, "stripped": nil} {
			out := filepath.Join(dir, build, name)
			if msg, err := exec.Command(need(t, "strip"), append(strip, "-o", out, program)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, msg)
			}
			countedTo(t, out, out+".dynprof")
		}
	}
	return dir
}

// countedTo has a program of builds.c counted.
func countedTo(t *testing.T, program, table string) {
	t.Helper()
	if r := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", program, "100")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
}

// namesOf are the names of a table's functions by their addresses.
func namesOf(t *testing.T, table string) map[string]string {
	t.Helper()
	return namesBy(t, build(t, "hotspots"), "report", table)
}

// TestDiffBuilds: functions of stripped builds are told by their code, none is taken for
// another, and a table with names lends them to one without.
func TestDiffBuilds(t *testing.T) {
	lane.Parallel(t)
	for i, flags := range [][]string{{"-pie"}, {"-no-pie"}} {
		dir := twoBuilds(t, flags...)
		before, after := namesOf(t, dir+"/old/named.dynprof"), namesOf(t, dir+"/new/named.dynprof")
		for _, old := range lane.Turn([]string{"stripped", "named"}, i) {
			var d compared
			r := run(t, cmd(build(t, "hotspots"), "diff", "--format", "json", dir+"/old/"+old+".dynprof", dir+"/new/stripped.dynprof"))
			if err := json.Unmarshal([]byte(r.stdout), &d); err != nil || r.status != 0 || r.stderr != "" {
				t.Fatalf("%v: %+v", err, r)
			}
			matched := map[string]string{}
			for _, f := range d.Functions {
				was := f.NameBefore
				if _, address, ok := strings.Cut(was, "+"); ok {
					was = before[address]
				}
				is := after[f.Address]
				switch f.Match {
				case "gone":
					matched[was] = f.Match
					continue
				case "new":
					matched[is] = f.Match
					continue
				}
				if is != was {
					t.Errorf("%v %s: %s is taken for %s, by %s", flags, old, is, was, f.Match)
				}
				if old == "named" && f.Name != is {
					t.Errorf("%v: %s is shown as %s", flags, is, f.Name)
				}
				matched[is] = f.Match
				if want := map[string][2]uint64{"leaf": {300, 300}, "twin_a": {100, 200}, "changed": {100, 100}}[is]; want[0] > 0 && want != [2]uint64{f.Before, f.After} {
					t.Errorf("%v %s: %s has %d and %d calls", flags, old, is, f.Before, f.After)
				}
			}
			for name, by := range map[string]string{"leaf": "body", "twin_a": "body", "twin_b": "body", "hello": "body", "bye": "body", "changed": "caller", "added": "new", "dropped": "gone"} {
				if matched[name] != by && !(by == "body" && matched[name] == "caller") {
					t.Errorf("%v %s: %s by %q, not %s", flags, old, name, matched[name], by)
				}
			}
		}
	}
}

// TestDiffGate: limits are judged of builds that have no names, by exit statuses of their own;
// a build that is gone cannot be judged, unless its file is named.
func TestDiffGate(t *testing.T) {
	lane.Parallel(t)
	dir := twoBuilds(t, "-pie")
	old, later := dir+"/old/stripped.dynprof", dir+"/new/stripped.dynprof"
	gate := func(args ...string) result {
		return run(t, cmd(append([]string{build(t, "hotspots"), "diff", "--top", "1", old, later}, args...)...))
	}
	budget := func(text string) string { return "--budget=" + write(t, filepath.Join(t.TempDir(), "b"), text, 0o600) }
	for _, row := range []struct {
		args   []string
		status int
		stderr []string // beginnings of lines
	}{
		{nil, 0, nil},
		{[]string{"--exit-code"}, 1, nil},
		{[]string{"--fail-over", "200%"}, 0, nil},
		{[]string{"--fail-over", "60%"}, 1, []string{"stripped+0x"}},
		{[]string{budget("stripped+0x*=100%\n@new=5")}, 0, nil},
		{[]string{budget("*=100%\n@new=0\n@total=+5")}, 1, []string{"all calls: ", "stripped+0x"}},
		{[]string{budget("no such=5")}, 2, nil},
		{[]string{budget("main")}, 2, nil},
		{[]string{"--fail-over", "much"}, 2, nil},
		{[]string{"--budget", "/no/such"}, 2, nil},
		{[]string{"third"}, 2, nil},
		{[]string{"--binary", "/etc/passwd"}, 2, nil},
	} {
		r := gate(row.args...)
		lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
		if row.status == 2 {
			row.stderr = []string{""}
		}
		if r.stderr == "" {
			lines = nil
		}
		if r.status != row.status || len(lines) != len(row.stderr) {
			t.Errorf("%v: %+v", row.args, r)
			continue
		}
		for i, want := range row.stderr {
			if row.status == 1 && !strings.HasPrefix(lines[i], "hotspots: over budget: "+want) {
				t.Errorf("%v: %s", row.args, lines[i])
			}
		}
	}
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(dir+"/old/stripped", moved); err != nil {
		t.Fatal(err)
	}
	if r := gate(); r.status != 0 || !strings.Contains(r.stderr, " functions without a name are not compared: ") {
		t.Errorf("%+v", r)
	}
	if r := gate("--fail-over", "200%"); r.status != 2 {
		t.Errorf("%+v", r)
	}
	if r := gate("--fail-over", "200%", "--binary", moved); r.status != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}

// TestDiffBudget: the budget of the example workflow is one.
func TestDiffBudget(t *testing.T) {
	lane.Parallel(t)
	table := filepath.Join(t.TempDir(), "t.dynprof")
	countedTo(t, compile(t, need(t, "gcc"), []string{"-O2"}, "builds.c"), table)
	if r := run(t, cmd(build(t, "hotspots"), "diff", table, table, "--budget", "../deploy/ci/calls.budget")); r.status != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}
