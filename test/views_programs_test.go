package test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestByProgram: of a run of several programs it is shown how often each ran, and its calls.
func TestByProgram(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	r := run(t, cmd(hotspots, "run", "--follow-exec", "--objects", "all", "-o", filepath.Join(dir, "%e.%p.dynprof"), "--", "/bin/sh", "-c", "/bin/true; /bin/true; /bin/true; /bin/false; exit 0"))
	if r.status != 0 || !regexp.MustCompile(`(?s) FUNCTION\n.* RUNS +PROGRAM\n.* 3  \S+/true\n`).MatchString(r.stderr) {
		t.Errorf("%+v", r)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.dynprof"))
	if err != nil || len(tables) != 5 {
		t.Fatalf("%v %v", tables, err)
	}
	var list struct {
		TotalCalls uint64 `json:"total_calls"`
		Programs   []struct {
			Program string
			Runs    int
			Calls   uint64
		}
	}
	if err := json.Unmarshal([]byte(run(t, cmd(append([]string{hotspots, "report", "--by", "program", "--format", "json"}, tables...)...)).stdout), &list); err != nil {
		t.Fatal(err)
	}
	total, runs := uint64(0), map[string]int{}
	for i, p := range list.Programs {
		if total += p.Calls; i > 0 && p.Calls > list.Programs[i-1].Calls {
			t.Errorf("%+v", list.Programs)
		}
		runs[filepath.Base(p.Program)] = p.Runs
	}
	if total != list.TotalCalls || runs["true"] != 3 || runs["false"] != 1 || len(runs) != 3 {
		t.Errorf("%+v", list)
	}
	for _, args := range [][]string{{"--by", "program"}, {"--by", "program", "--format", "csv"}} {
		r := run(t, cmd(append(append([]string{hotspots, "report"}, args...), tables...)...))
		if r.status != 0 || !regexp.MustCompile(`(?m)(^|  3  )\S+/true(,3,\d+)?$`).MatchString(r.stdout) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestArguments: processes of one program are told apart by their command lines, if the user
// wants them to be kept; else these are nowhere in a table.
func TestArguments(t *testing.T) {
	lane.Parallel(t)
	hotspots := build(t, "hotspots")
	const script = "/bin/echo s3cret one; /bin/echo s3cret two; exit 0"
	for _, flags := range [][]string{{"--args"}, nil} {
		dir := t.TempDir()
		args := append([]string{hotspots, "run", "--follow-exec", "--objects", "all", "--summary", "0", "-o", filepath.Join(dir, "%e.%p.dynprof")}, flags...)
		if r := run(t, cmd(append(args, "--", "/bin/sh", "-c", script)...)); r.status != 0 || r.stdout != "s3cret one\ns3cret two\n" {
			t.Fatalf("%+v", r)
		}
		tables, _ := filepath.Glob(filepath.Join(dir, "*"))
		shown := run(t, cmd(append([]string{hotspots, "report", "--by", "process"}, tables...)...))
		list := run(t, cmd(hotspots, "ls", dir))
		for what, text := range map[string]string{"report": shown.stdout, "ls": list.stdout} {
			for _, want := range []string{"/bin/echo s3cret one", "/bin/echo s3cret two", "/bin/sh -c " + script} {
				if strings.Contains(text, want) != (flags != nil) {
					t.Errorf("%v: %s has %q or not:\n%s", flags, what, want, text)
				}
			}
		}
		for _, table := range tables {
			if flags == nil && strings.Contains(read(t, table), "s3cret") {
				t.Errorf("%s has the program's arguments", table)
			}
		}
	}
}

// TestRunInRun: hotspots run with a table of one name, in a run whose --follow-exec it finds in
// the environment, runs and counts its program.
func TestRunInRun(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	inner := filepath.Join(dir, "inner")
	r := run(t, cmd(hotspots, "run", "--follow-exec", "--summary", "0", "-o", filepath.Join(dir, "%e.%p.dynprof"), "--",
		"/bin/sh", "-c", `"$0" run --summary 0 -o "$1" -- /bin/echo counted; true`, hotspots, inner))
	if r.status != 0 || r.stdout != "counted\n" {
		t.Fatalf("%+v", r)
	}
	if shown := run(t, cmd(hotspots, "report", inner)); !strings.HasPrefix(shown.stdout, "/bin/echo") && !strings.HasPrefix(shown.stdout, "/usr/bin/echo") {
		t.Errorf("%+v", shown)
	}
}
