package cli

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
	"github.com/dynprof/dynprof/internal/testproc"
)

var update = flag.Bool("update", false, "write golden files")

// asHotspots makes the test binary be hotspots.
const asHotspots = "HOTSPOTS_TEST_MAIN"

// scratch is a directory for what all tests share.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(asHotspots) != "" {
		os.Exit(Main(os.Args[1:], nil, nil, nil))
	}
	testproc.DefaultSignals()
	time.Local = time.UTC
	var err error
	if scratch, err = os.MkdirTemp("", "hotspots-test"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// hotspots runs the command line in this process.
func hotspots(args ...string) (stdout, stderr string, status int) {
	var out, err bytes.Buffer
	a := &app{stdout: bufio.NewWriter(&out), stderr: &err}
	status = a.main(args)
	return out.String(), err.String(), status
}

// demoTable is a table of a program that has exited with status 3.
func demoTable(t *testing.T, path string, change func(*build.Spec)) string {
	t.Helper()
	spec := tabletest.Spec()
	if change != nil {
		change(spec)
	}
	live := tabletest.Demo(t, path, spec)
	live.Fire(1, 0, 1, spec.Pid, 1000, 2500e6)
	live.Close()
	end := layout.Ended{Kind: layout.EndedExit, Code: 3, Time: time.Unix(1700000009, 0)}
	if err := edit.MarkEnded(path, end); err != nil {
		t.Fatal(err)
	}
	return path
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n--- got\n%s--- want\n%s", path, got, want)
	}
}

func TestGolden(t *testing.T) {
	dir := t.TempDir()
	one := demoTable(t, filepath.Join(dir, "one.dynprof"), nil)
	two := demoTable(t, filepath.Join(dir, "two.dynprof"), func(s *build.Spec) {
		s.Pid, s.Program, s.Realtime = 4300, "/opt/demo/child", s.Realtime.Add(time.Minute)
		s.Functions[3].Counter, s.Functions[3].Tactic, s.Functions[3].Reason = 4, 4, 0 // tiny is counted here
	})
	// A later build of the executable: its functions are known by their names.
	more := demoTable(t, filepath.Join(dir, "more.dynprof"), func(s *build.Spec) {
		s.Pid, s.Realtime = 4400, s.Realtime.Add(time.Hour)
		s.Objects[0].BuildID = "9f9f"
		s.Functions[0].Counter, s.Functions[1].Counter = 1, 0
		s.Functions[1].Address += 0x100
	})
	for _, row := range []struct {
		golden string
		args   []string
	}{
		{"report.txt", []string{"report", one}},
		{"report.json", []string{"report", one, "--format", "json"}},
		{"report.csv", []string{"report", one, "--format", "csv"}},
		{"report-mangled.txt", []string{"report", one, "--no-demangle"}},
		{"report-top-name.csv", []string{"report", one, "--format=csv", "--top=2", "--sort=name"}},
		{"report-size.csv", []string{"report", one, "--format=csv", "--sort=size"}},
		{"report-filter.csv", []string{"report", one, "--format=csv", "--filter", "plus"}},
		{"report-objects.txt", []string{"report", one, "--by", "object"}},
		{"report-objects.json", []string{"report", one, "--by", "object", "--format=json"}},
		{"report-objects.csv", []string{"report", one, "--by", "object", "--format=csv"}},
		{"report-merged.json", []string{"report", one, two, "--format=json"}},
		{"report-run.txt", []string{"report", two, "--run"}},
		{"diff.txt", []string{"diff", one, more}},
		{"diff.json", []string{"diff", one, more, "--format=json"}},
		{"diff.csv", []string{"diff", one, more, "--format=csv", "--sort=name"}},
		{"diff-top.csv", []string{"diff", one, more, "--format=csv", "--top=1"}},
		{"diff-filter.csv", []string{"diff", more, one, "--format=csv", "--filter=plus"}},
		{"show.txt", []string{"show", "demo::plus(int, int)", one}},
		{"show.json", []string{"show", "tiny", one, "--format=json"}},
		{"coverage.txt", []string{"coverage", one}},
		{"coverage.json", []string{"coverage", one, "--format=json"}},
		{"coverage.csv", []string{"coverage", one, "--format=csv"}},
		{"coverage-list.txt", []string{"coverage", one, "--list", "too-short"}},
		{"coverage-list.csv", []string{"coverage", one, "--list", "start", "--format=csv"}},
		{"events.txt", []string{"events", one}},
		{"events.json", []string{"events", one, "--format=json"}},
		{"events.csv", []string{"events", one, "--format=csv"}},
	} {
		t.Run(row.golden, func(t *testing.T) {
			out, errOut, status := hotspots(row.args...)
			// Of two builds of which no file is there functions without names are not compared.
			if uncompared := row.args[0] == "diff" && strings.HasPrefix(errOut, "hotspots: 2 functions without a name are not compared: "); status != 0 || errOut != "" && !uncompared {
				t.Fatalf("status %d: %s", status, errOut)
			}
			golden(t, row.golden, out)
		})
	}
}

func TestColor(t *testing.T) {
	path := demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), nil)
	var out bytes.Buffer
	a := &app{stdout: bufio.NewWriter(&out), stderr: &out}
	a.style.Color = true
	if status := a.main([]string{"report", path}); status != 0 {
		t.Fatal(out.String())
	}
	if s := out.String(); !strings.Contains(s, "\x1b[31mdemo::add(int, int)\x1b[0m [hot]") || !strings.Contains(s, "\x1b[1m") {
		t.Errorf("no colour:\n%q", s)
	}
}

// ls and prune look at tables of this machine: their fields that vary are
// replaced.
func TestLsAndPrune(t *testing.T) {
	dir := t.TempDir()
	old := demoTable(t, filepath.Join(dir, "old.dynprof"), nil)
	recent := demoTable(t, filepath.Join(dir, "new.dynprof"), func(s *build.Spec) { s.Realtime = s.Realtime.Add(time.Hour) })
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	running := tabletest.Spec()
	running.Identity = alive.Identify(os.Getpid())
	running.Realtime = time.Unix(1800000000, 0)
	tabletest.CreateAt(t, filepath.Join(dir, "running.dynprof"), running)

	out, errOut, status := hotspots("ls", dir, "--format", "csv")
	if status != 0 || errOut != "" {
		t.Fatalf("ls: status %d: %s", status, errOut)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		f := strings.Split(line, ",")
		got = append(got, filepath.Base(f[0])+" "+f[1]+" "+f[3]+" "+f[4])
	}
	want := []string{
		"running.dynprof /opt/demo/demo running 2027-01-15T08:00:00Z",
		"new.dynprof /opt/demo/demo exited 2023-11-14T23:13:20Z",
		"old.dynprof /opt/demo/demo exited 2023-11-14T22:13:20Z",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("ls:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, step := range []struct {
		name string
		args []string
		want string // printed
		left int
	}{
		{"a day by default, only looking", []string{"prune", dir, "--dry-run"}, old + "\n", 3},
		{"keep the newest", []string{"prune", dir, "--older-than=0s", "--keep=3"}, "", 3},
		{"a day by default", []string{"prune", dir}, old + "\n", 2},
		{"all that ended", []string{"prune", dir, "--older-than=0s"}, recent + "\n", 1},
	} {
		out, _, status := hotspots(step.args...)
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if status != 0 || out != step.want || len(files) != step.left {
			t.Errorf("%s: status %d, printed %q, %d files left", step.name, status, out, len(files))
		}
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	good := demoTable(t, filepath.Join(dir, "a.dynprof"), nil)
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, []byte("no table"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, row := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"no such command", []string{"nonsense"}, 2, "unknown command"},
		{"a misspelt command", []string{"reprot"}, 2, "did you mean report?"},
		{"no number", []string{"report", "--top", "x"}, 2, "--top x: it is a whole number; see hotspots report --help"},
		{"no time", []string{"prune", "--older-than", "x"}, 2, "--older-than x: it is a time"},
		{"too many arguments", []string{"snapshot", "a", "b"}, 2, "see hotspots snapshot --help"},
		{"no such flag", []string{"report", "--nonsense"}, 2, "unknown flag"},
		{"bad format", []string{"report", good, "--format", "xml"}, 2, "text, json, csv"},
		{"bad order", []string{"report", good, "--sort", "age"}, 2, "calls, instructions, loads, stores, name, size"},
		{"loads without blocks", []string{"report", good, "--loads"}, 1, "it counts no blocks"},
		{"stores without blocks", []string{"report", good, "--sort", "stores"}, 1, "it counts no blocks"},
		{"bad filter", []string{"report", good, "--filter", "("}, 2, "--filter"},
		{"bad reason", []string{"coverage", good, "--list", "bored"}, 2, "too-short"},
		{"two tables for events", []string{"events", good, good}, 2, "at most 1"},
		{"negative top", []string{"report", good, "--top", "-1"}, 2, "0 or more"},
		{"foreign file", []string{"report", foreign}, 1, "not a dynprof count table"},
		{"missing file", []string{"coverage", dir + "/none"}, 1, "no such file"},
		{"unknown pid", []string{"report", "2147483647"}, 1, "no count table of process 2147483647"},
		{"missing file of a picture", []string{"heat", "picture", "-o", dir + "/x.png", dir + "/none"}, 1, "no such file"},
		{"missing file of accesses", []string{"regions", "export", dir + "/none"}, 1, "no such file"},
		{"missing directory", []string{"ls", dir + "/none"}, 1, "no such file"},
		{"run without program", []string{"run"}, 125, "no program named"},
		{"run with a bad flag", []string{"run", "--nonsense", "--", "true"}, 125, "unknown flag"},
		{"run with a bad regex", []string{"run", "--only", "(", "--", "true"}, 125, "--only"},
		{"run with a missing list", []string{"run", "--skip", "@" + dir + "/none", "--", "true"}, 125, "--skip"},
		{"run with a bad glob", []string{"run", "--objects", "a[", "--", "true"}, 125, "--objects"},
		{"follow-exec into one file", []string{"run", "--follow-exec", "-o", "x", "--", "true"}, 125, "-o needs %p"},
		{"large threshold", []string{"run", "--threshold", "99999999999", "--", "true"}, 125, "1 to 2147483647"},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, errOut, status := hotspots(row.args...)
			if status != row.status || !strings.Contains(errOut, row.says) || out != "" {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, errOut)
			}
			if strings.Count(errOut, "\n") != 1 {
				t.Errorf("more than one line: %q", errOut)
			}
		})
	}
}

func TestNewestAndPid(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	if err := tabledir.MakePrivate(run + "/dynprof"); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"old", "new"} {
		demoTable(t, run+"/dynprof/"+name+tabledir.Ext, func(s *build.Spec) {
			s.Pid, s.Realtime = uint32(4000001+i), time.Unix(4e9+int64(i), 0)
			s.Program = "/bin/" + name
		})
	}
	for arg, want := range map[string]string{"": "/bin/new (pid 4000002)", "4000001": "/bin/old (pid 4000001)"} {
		out, errOut, status := hotspots(append([]string{"report"}, strings.Fields(arg)...)...)
		if status != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("report %s: %q %q", arg, out, errOut)
		}
	}
}

// TestHelp: of every command, help has an example and the exit statuses, and fits a
// terminal; the status of wrong usage is as it says.
func TestHelp(t *testing.T) {
	root := (&app{}).root()
	root.InitDefaultHelpCmd()
	addCompletion(root)
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Name() != "help" && !(c.Hidden && c.Name() != "man") {
				each(c)
			}
		}
		path := strings.Fields(cmd.CommandPath())
		out, errOut, status := hotspots(append(path[1:], "--help")...)
		_, examples, _ := strings.Cut(out, "Examples:\n")
		if status != 0 || errOut != "" || !strings.Contains(examples, strings.Join(path, " ")) && path[0] != path[len(path)-1] {
			t.Errorf("%s --help: status %d, %s, no example:\n%s", cmd.CommandPath(), status, errOut, out)
		}
		if !strings.Contains(strings.ToLower(out), "exit status") {
			t.Errorf("%s --help: no exit status:\n%s", cmd.CommandPath(), out)
		}
		if cmd.Runnable() && !cmd.DisableFlagParsing {
			want := exitUsage
			if cmd.Name() == "run" {
				want = exitRunFailure
			}
			out, errOut, status := hotspots(append(path[1:], "--no-such-flag")...)
			if status != want || out != "" || !strings.HasSuffix(errOut, "unknown flag: --no-such-flag; see "+cmd.CommandPath()+" --help\n") {
				t.Errorf("%s --no-such-flag: status %d, %s%s", cmd.CommandPath(), status, out, errOut)
			}
		}
		for line := range strings.SplitSeq(out, "\n") {
			limit := 80
			if strings.Contains(examples, line+"\n") { // a command that goes on in the next line is not copied as easily
				limit = 120
			}
			if width := utf8.RuneCountInString(line); width > limit {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), width, line)
			}
		}
	}
	each(root)
}

func TestManAndCompletion(t *testing.T) {
	dir := t.TempDir()
	if _, errOut, status := hotspots("man", dir); status != 0 {
		t.Fatal(errOut)
	}
	for _, page := range []string{"hotspots", "hotspots-run", "hotspots-report", "hotspots-coverage", "hotspots-bisect", "hotspots-events", "hotspots-ls", "hotspots-prune"} {
		b, err := os.ReadFile(filepath.Join(dir, page+".1"))
		if err != nil || !bytes.Contains(b, []byte(".SH EXAMPLE")) {
			t.Errorf("%s: %v", page, err)
		}
	}
	out, _, status := hotspots("completion", "bash")
	if status != 0 || !strings.Contains(out, "__start_hotspots") {
		t.Errorf("completion: status %d", status)
	}
	if out, _, _ := hotspots("__complete", "report", "--format", ""); !strings.HasPrefix(out, "text\njson\ncsv\n") {
		t.Errorf("completion of --format: %q", out)
	}
}
