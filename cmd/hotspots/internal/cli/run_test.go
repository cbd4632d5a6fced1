package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// compile builds a C source, in a directory of its own, with these flags.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	args := append([]string{"-w", "-o", out, "-x", "c", source}, flags...)
	if b, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, b)
	}
	return out
}

// fakeLibrary is compiled when it is first asked for, into scratch.
var fakeLibrary = sync.OnceValue(func() string {
	out := filepath.Join(scratch, "libfake.so")
	if b, err := exec.Command("cc", "-shared", "-fPIC", "-o", out, "testdata/fakelib.c").CombinedOutput(); err != nil {
		panic(string(b))
	}
	return out
})

// command is hotspots run as a process of its own, with the fake library.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"run", "--library", fakeLibrary(), "--summary=0"}, args...)...)
	cmd.Env = append(os.Environ(), asHotspots+"=1", "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	return cmd
}

// usualPath looks for programs in directories that everybody may look into: behind one that
// is another's (su without -) what is not found may be there, to execvp(3), too.
func usualPath(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
}

func output(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// templateTable is what the fake library copies.
func templateTable(t *testing.T) string {
	return demoTable(t, filepath.Join(t.TempDir(), "template.dynprof"), func(s *build.Spec) { s.PidNS = 7 })
}

func TestExitStatus(t *testing.T) {
	usualPath(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		argv   []string
		status int
	}{
		{"success", []string{"true"}, 0},
		{"its own status", []string{"sh", "-c", "exit 43"}, 43},
		{"killed", []string{"sh", "-c", "kill -KILL $$"}, 137},
		{"terminated", []string{"sh", "-c", "kill -TERM $$"}, 143},
		{"not found", []string{"no-such-program-anywhere"}, 127},
		{"path not found", []string{dir + "/none"}, 127},
		{"path below a file", []string{plain + "/none"}, 127},
		{"empty name", []string{""}, 127},
		{"not executable", []string{plain}, 126},
		{"a directory", []string{dir}, 126},
		{"the program's flags are its own", []string{"sh", "-c", `exit $#`, "sh", "--summary", "-o"}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, errOut, status := output(t, command(t, append([]string{"--"}, row.argv...)...))
			if status != row.status || strings.Count(errOut, "\n") > 1 {
				t.Errorf("status %d, want %d: %s", status, row.status, errOut)
			}
		})
	}
}

func TestStreamsAndArguments(t *testing.T) {
	cmd := command(t, "sh", "-c", `cat; printf '%s|' "$@" >&2; cat <&3`, "sh", "a b", "", "*")
	cmd.Stdin = strings.NewReader("from stdin\n")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.WriteString("from descriptor 3")
	w.Close()
	cmd.ExtraFiles = []*os.File{r}
	out, errOut, status := output(t, cmd)
	if out != "from stdin\nfrom descriptor 3" || !strings.HasPrefix(errOut, "a b||*|") || status != 0 {
		t.Errorf("stdout %q, stderr %q, status %d", out, errOut, status)
	}
}

// The program's environment: the user's in its order, then ours.
func TestEnvironment(t *testing.T) {
	cmd := command(t, "-o", "t%%/%e-%t", "--threshold=5", "--only=^a", "--follow-exec=false", "env")
	dir := t.TempDir()
	cmd.Dir = dir
	cmd.Env = []string{"A=1", "LD_PRELOAD=libc.so.6", asHotspots + "=1", "DYNPROF_OTHER=x", "PATH=" + os.Getenv("PATH"), "DYNPROF_ONLY=never", "DYNPROF_OBJECTS=main", "Z=2", "XDG_CACHE_HOME=" + dir, "XDG_RUNTIME_DIR=" + dir}
	out, errOut, status := output(t, cmd)
	out = regexp.MustCompile(`[0-9a-f]{32}\n`).ReplaceAllString(out, "ID\n")
	out = regexp.MustCompile(`-\d+\n`).ReplaceAllString(out, "-TIME\n")
	want := "A=1\n" + asHotspots + "=1\nPATH=" + os.Getenv("PATH") + "\nZ=2\nXDG_CACHE_HOME=" + dir + "\nXDG_RUNTIME_DIR=" + dir +
		"\nLD_PRELOAD=libc.so.6:" + fakeLibrary() + "\nDYNPROF_OTHER=x\nDYNPROF_OUTPUT=" + dir + "/t%%/%e-TIME\n" +
		"DYNPROF_OBJECTS=main\nDYNPROF_ONLY=^a\nDYNPROF_THRESHOLD=5\nDYNPROF_FOLLOW_SELF=1\nDYNPROF_CACHE=1\nDYNPROF_RUN_ID=ID\nDYNPROF_NOTE=" + dir + "/dynprof/note.ID\nDYNPROF_PAD=1\n"
	if out != want || status != 0 {
		t.Errorf("status %d, stderr %s, got\n%swant\n%s", status, errOut, out, want)
	}
}

func TestTableIsFoundAndSummarized(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		name, output string
		want         string // file name
	}{
		{"pattern", "sub dir/[x]-%p-%e.dynprof", `^\[x\]-\d+-x\.dynprof$`},
		{"fixed name", "fixed.dynprof", `^fixed\.dynprof$`},
		{"the fixed name again", "fixed.dynprof", `^fixed\.dynprof$`},
		{"no extension", "100%%", `^100%$`},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(dir, row.output)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := command(t, "--summary=2", "-o", path, "sh", "-c", "kill -USR1 $$")
			cmd.Env = append(cmd.Env, "FAKE_TABLE="+templateTable(t))
			out, errOut, status := output(t, cmd)
			if status != 128+int(syscall.SIGUSR1) || out != "" {
				t.Fatalf("status %d, stdout %q, stderr %q", status, out, errOut)
			}
			for _, want := range []string{"killed by signal 10", "2,223 calls", "demo::add(int, int)", "31.49%", "hotspots report "} {
				if !strings.Contains(errOut, want) {
					t.Errorf("no %q in %q", want, errOut)
				}
			}
			if strings.Contains(errOut, "foo::bar") {
				t.Errorf("more than 2 functions: %q", errOut)
			}
			path = strings.TrimSpace(errOut[strings.LastIndex(errOut, "hotspots report ")+len("hotspots report "):])
			if !regexp.MustCompile(row.want).MatchString(filepath.Base(path)) {
				t.Errorf("table %s, want %s", path, row.want)
			}
			e, err := find.Stat(path)
			if err != nil || e.Ended.Kind != layout.EndedSignal || e.Ended.Code != 10 || e.Status != alive.Exited {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

func TestDefaultPlace(t *testing.T) {
	run := t.TempDir()
	cmd := command(t, "true")
	cmd.Env = append(cmd.Env, "FAKE_TABLE="+templateTable(t), "XDG_RUNTIME_DIR="+run)
	if _, errOut, status := output(t, cmd); status != 0 || errOut != "" {
		t.Fatalf("status %d: %s", status, errOut)
	}
	all, err := find.List(run + "/dynprof")
	if err != nil || len(all) != 1 || all[0].Ended.Kind != layout.EndedExit {
		t.Errorf("%v, %v", all, err)
	}
	fi, err := os.Stat(run + "/dynprof")
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
}

// With --follow-exec each program of the run leaves a table.
func TestFollowExec(t *testing.T) {
	dir := t.TempDir()
	cmd := command(t, "--summary=1", "--follow-exec", "-o", dir+"/%p.dynprof", "sh", "-c", "cat </dev/null; true | cat")
	cmd.Env = append(cmd.Env, "FAKE_TABLE="+templateTable(t))
	_, errOut, status := output(t, cmd)
	if status != 0 || !strings.Contains(errOut, "and 2 more") || !strings.Contains(errOut, "4,500 ") || !strings.Contains(errOut, "--run "+dir) {
		t.Errorf("status %d: %s", status, errOut)
	}
}

func TestNothingLost(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	spaced := filepath.Join(dir, "a b.so")
	if err := os.Symlink(fakeLibrary(), spaced); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "shared")
	if err := os.MkdirAll(open+"/dynprof", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open+"/dynprof", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		args []string
		env  string
		says string
	}{
		{"-o names a file that is no table", []string{"-o", file}, "", "no count table"},
		{"a default directory open to all", nil, "XDG_RUNTIME_DIR=" + open, "mode 0700"},
		{"a library that is not there", []string{"--library", dir + "/none.so"}, "", "no library there"},
		{"a library that LD_PRELOAD cannot name", []string{"--library", spaced}, "", "has a space"},
		{"no library embedded", []string{"--library="}, "", "built without the library"},
		{"the library counts nothing", nil, "", "left no count table"},
		{"the library says so itself", []string{"sh", "-c", `>$DYNPROF_NOTE; echo library: why >&2; exec "$@"`, "sh"}, "", "library: why"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd := command(t, append(append([]string{}, row.args...), "sh", "-c", "echo ran; exit 5")...)
			cmd.Env = append(cmd.Env, row.env)
			out, errOut, status := output(t, cmd)
			if out != "ran\n" || status != 5 || !strings.Contains(errOut, row.says) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("stdout %q, status %d, stderr %q", out, status, errOut)
			}
		})
	}
	if b, err := os.ReadFile(file); string(b) != "precious" || err != nil {
		t.Errorf("the file was changed: %q, %v", b, err)
	}
}

// Signals to hotspots reach the program, once.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			cmd := command(t, "sh", "-c", `trap 'echo got; n=1' TERM HUP USR1 USR2 INT QUIT; echo ready; while [ -z "$n" ]; do sleep 0.02; done; exit 7`)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from any terminal
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			read(t, out, "ready\n")
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(out)
			if err != nil || string(rest) != "got\n" {
				t.Errorf("got %q, %v", rest, err)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("status %d", code)
			}
		})
	}
}

// What the caller ignores (nohup, systemd, shells) the program ignores, too.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "hotspots")
	build := exec.Command("go", "build", "-ldflags", "-E hotspots_entry", "-o", binary, "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	show := []string{"grep", "SigIgn", "/proc/self/status"}
	cmd := command(t, show...)
	cmd.Args[0] = binary
	for _, signals := range []string{"HUP INT", "PIPE", "TERM QUIT USR1 USR2 TSTP TTOU ALRM", "WINCH CHLD URG"} {
		t.Run(signals, func(t *testing.T) {
			under := func(argv []string) string {
				sh := exec.Command("sh", append([]string{"-c", "trap '' " + signals + `; exec "$@"`, "sh"}, argv...)...)
				sh.Env = cmd.Env
				out, err := sh.Output()
				if err != nil {
					t.Fatal(err)
				}
				return string(out)
			}
			if got, want := under(cmd.Args), under(show); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// read waits for exactly these bytes.
func read(t *testing.T, r io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
		t.Fatalf("got %q, %v; want %q", b, err, want)
	}
}

func TestClosedPipeIsNoError(t *testing.T) {
	path := demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := exec.Command(os.Args[0], "report", "--format", "json", path)
	cmd.Env = append(os.Environ(), asHotspots+"=1")
	cmd.Stdout = w
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil || errOut.Len() > 0 {
		t.Errorf("%v: %s", err, errOut.String())
	}
}

func TestJSONIsValid(t *testing.T) {
	path := demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), func(s *build.Spec) { s.Functions[0].Name = "a\"\x01\\<b>\xff" })
	for _, args := range [][]string{
		{"report", path}, {"report", path, "--by=object"}, {"report", path, "--filter=nothing"}, {"coverage", path}, {"events", path}, {"ls", filepath.Dir(path)},
	} {
		out, errOut, status := hotspots(append(args, "--format=json")...)
		var v struct{ Schema int }
		if err := json.Unmarshal([]byte(out), &v); err != nil || status != 0 || v.Schema != 1 {
			t.Errorf("%v: %v, status %d, %s", args, err, status, errOut)
		}
	}
}

// TestSettings: every switch reaches the library as its variable, and no other, said by
// its flag or by its variable; a flag goes before a variable.
func TestSettings(t *testing.T) {
	var all, unset, on, off, usual []string
	for i := range setting.All {
		if s := &setting.All[i]; s.Kind == setting.Switch && setting.ID(i) != setting.Regions && setting.ID(i) != setting.Allocs { // these do not go with all others, or not alone
			all, unset = append(all, s.Variable+"=1"), append(unset, "--"+s.Flag+"=false")
			on, off = append(on, "--"+s.Flag), append(off, s.Variable+"=0")
			if setting.Usual[i] {
				usual = append(usual, s.Variable+"=1")
			}
		}
	}
	template := templateTable(t)
	tabletest.OpenLive(t, template).Word(layout.HdrAgent, layout.AgentGone) // nobody waits for it
	named := regexp.MustCompile(`DYNPROF_CACHE=/.*/dynprof/plans`)          // with --follow-exec
	type row struct{ args, env, want []string }
	rows := []row{{nil, nil, usual}, {on, nil, all}, {nil, all, all}, {nil, off, nil}, {on, off, all}, {unset, all, nil}}
	for i := range on {
		want := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v != all[i] && !slices.Contains(usual, v) })
		rows = append(rows, row{on[i : i+1], nil, want})
	}
	for _, row := range rows {
		cmd := command(t, append(slices.Clone(row.args), "--", "env")...)
		cmd.Env = append(append(cmd.Env, "FAKE_TABLE="+template), row.env...)
		out, errOut, status := output(t, cmd)
		out = named.ReplaceAllString(out, "DYNPROF_CACHE=1")
		var got []string
		for _, v := range all {
			if strings.Contains("\n"+out, "\n"+v+"\n") {
				got = append(got, v)
			} else if name, _, _ := strings.Cut(v, "="); strings.Contains("\n"+out, "\n"+name+"=") != slices.Contains(usual, v) {
				t.Errorf("%q %q: %s is not as it was asked for", row.args, row.env, name) // 0, if it is on mostly
			}
		}
		if status != 0 || !slices.Equal(got, row.want) {
			t.Errorf("%q %q: %q, want %q; status %d, %s", row.args, row.env, got, row.want, status, errOut)
		}
	}
}

// TestRegionsSwitch: what records accesses reaches the library, which goes on with what the program executes in its place, but
// under an audit.
func TestRegionsSwitch(t *testing.T) {
	for _, row := range []struct{ args, env []string }{{[]string{"--regions"}, nil}, {nil, []string{"DYNPROF_REGIONS=1"}}, {[]string{"--regions", "--audit"}, nil}} {
		cmd := command(t, append(row.args, "--", "env")...)
		cmd.Env = append(append(cmd.Env, "FAKE_TABLE="+templateTable(t)), row.env...)
		out, errOut, status := output(t, cmd)
		if status != 0 || !strings.Contains("\n"+out, "\nDYNPROF_REGIONS=1\n") || strings.Contains("\n"+out, "\nDYNPROF_FOLLOW_SELF=1\n") == slices.Contains(row.args, "--audit") {
			t.Errorf("%+v: status %d, %s, %s", row, status, out, errOut)
		}
	}
}

// TestPlansNamed: the directory of plans that the user names is the program's, too.
func TestPlansNamed(t *testing.T) {
	for value, want := range map[string]string{"/where/plans": "/where/plans", "1": "1", "relative": "1", "0": "0"} {
		cmd := command(t, "--", "env")
		cmd.Env = append(cmd.Env, "FAKE_TABLE="+templateTable(t), "DYNPROF_CACHE="+value)
		if out, errOut, status := output(t, cmd); status != 0 || !strings.Contains("\n"+out, "\nDYNPROF_CACHE="+want+"\n") {
			t.Errorf("%s: status %d, %s, %s", value, status, out, errOut)
		}
	}
}

// Not to run uncounted can be said by the variable, too.
func TestStrictVariable(t *testing.T) {
	for value, want := range map[string]int{"1": exitRunFailure, "0": 0} {
		cmd := command(t, "--library", "/no/such.so", "--", "echo", "ran")
		cmd.Env = append(cmd.Env, "DYNPROF_STRICT="+value)
		if out, errOut, status := output(t, cmd); status != want || (out == "ran\n") != (want == 0) || !strings.Contains(errOut, "no library there") {
			t.Errorf("%s: status %d, %q, %q", value, status, out, errOut)
		}
	}
}

// Values that are none are refused, by the name that the user wrote.
func TestMalformedSettings(t *testing.T) {
	for _, row := range []struct{ arg, env, says string }{
		{"--lock=maybe", "", "--lock maybe: it is true or false"},
		{"--objects=[", "", "--objects: "}, {"", "DYNPROF_OBJECTS=[", "DYNPROF_OBJECTS: "},
		{"--only=(", "", "--only: "}, {"", "DYNPROF_ONLY=(", "DYNPROF_ONLY: "},
		{"--skip=(", "", "--skip: "}, {"", "DYNPROF_SKIP=(", "DYNPROF_SKIP: "},
		{"--threshold=x", "", "--threshold: "}, {"", "DYNPROF_THRESHOLD=x", "DYNPROF_THRESHOLD: "},
		{"--listen=:x", "", "--listen: "}, {"", "DYNPROF_LISTEN=:x", "DYNPROF_LISTEN: "},
		{"--linger=x", "", "--linger"}, {"", "DYNPROF_LINGER=x", "DYNPROF_LINGER: "},
		{"--translator=/no/such", "", "--translator: "}, {"", "DYNPROF_TRANSLATOR=/no/such", "DYNPROF_TRANSLATOR: "},
		{"--translator=run_test.go", "DYNPROF_STRICT=1", "--translator: "}, {"--translator=" + fakeLibrary(), "DYNPROF_STRICT=1", "has no dynprof_plugin_init"},
	} {
		args := []string{"--", "echo", "ran"}
		if row.arg != "" {
			args = append([]string{row.arg}, args...)
		}
		cmd := command(t, args...)
		cmd.Env = append(cmd.Env, row.env)
		if out, errOut, status := output(t, cmd); out != "" || status != exitRunFailure || !strings.Contains(errOut, row.says) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s %s: status %d, %q, %q", row.arg, row.env, status, out, errOut)
		}
	}
	cmd := command(t, "--", "echo", "ran") // what nobody knows is left alone
	cmd.Env = append(cmd.Env, "DYNPROF_NEW=x", "FAKE_TABLE="+templateTable(t))
	if out, errOut, status := output(t, cmd); out != "ran\n" || status != 0 {
		t.Errorf("status %d, %q, %q", status, out, errOut)
	}
}

// TestSwitches: what finds the program where the Go runtime cannot start knows which
// flags take no value.
func TestSwitches(t *testing.T) {
	cmd := (&app{}).runCommand()
	cmd.InitDefaultHelpFlag()
	names := regexp.MustCompile(`(?m)^ .{5}--([a-z-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1)
	if len(names) < 10 {
		t.Errorf("only %d flags", len(names))
	}
	for _, n := range names {
		f := cmd.Flags().Lookup(n[1])
		if launch.IsSwitch(f.Name) != (f.NoOptDefVal != "") {
			t.Errorf("--%s takes a value: %t", f.Name, launch.IsSwitch(f.Name))
		}
	}
}
