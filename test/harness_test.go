// Package test runs the built product on real programs: libdynprof.so and
// hotspots as `make` leaves them in build/, from outside, as a user would.
package test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/testproc"
)

// built is the directory of the product. It has another name where its own has a
// space or a colon, which LD_PRELOAD cannot have.
var built string

func TestMain(m *testing.M) {
	testproc.DefaultSignals()
	if err := testproc.OwnDescriptors(); err != nil {
		panic(err)
	}
	names, err := os.MkdirTemp("", "dynprof-names")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(names, 0o755); err != nil { // programs of other users, too
		panic(err)
	}
	takeSettings()
	os.Unsetenv("DEBUGINFOD_URLS") // nobody is asked for names but by tests
	ownCache(names)
	built = plain(cmp.Or(setting("BUILD"), "../build"), names+"/build")
	status := m.Run()
	os.RemoveAll(names)
	os.Exit(status)
}

// settings are the variables of these tests that begin with DYNPROF_.
var settings = map[string]string{}

// takeSettings takes them out of the environment: programs see their variables
// without ours, and a test compares what they see.
func takeSettings() {
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DYNPROF_") {
			settings[name] = value
			os.Unsetenv(name)
		}
	}
}

// ownCache has all programs keep their plans in a directory that is empty at first and gone
// at the end; what Go has built stays where it is.
func ownCache(below string) {
	old, err := os.UserCacheDir()
	if err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(old, "go-build"))
	}
	os.Setenv("XDG_CACHE_HOME", filepath.Join(below, "cache"))
	if err := os.Mkdir(os.Getenv("XDG_CACHE_HOME"), 0o700); err != nil {
		panic(err)
	}
}

// setting is what DYNPROF_<name> is.
func setting(name string) string { return settings["DYNPROF_"+name] }

// plain is the absolute path of a directory, or other, made a link to it.
func plain(dir, other string) string {
	path, err := filepath.Abs(dir)
	if err == nil && strings.ContainsAny(path, " :") {
		err = os.Symlink(path, other)
		path = other
	}
	if err != nil {
		panic(err)
	}
	return path
}

// build is where make leaves the product.
func build(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(built, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make first", err)
	}
	return path
}

// need returns the path of a program; a test without it is skipped, and listed as such at the end
// of make test, with who installs it.
func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s on this machine (%s)", program, installs(program))
	}
	return path
}

// installs is who installs a program or file, by scripts/deps.
func installs(what string) string {
	for _, set := range [][2]string{{"test", "make deps"}, {"long", "make long"}, {"prometheus", "make prometheus"}} {
		list, _ := os.ReadFile("../scripts/deps/" + set[0]) // of no list nobody installs anything
		for line := range strings.Lines(string(list)) {
			has, _, _ := strings.Cut(line, ":")
			if has == what || filepath.Base(has) == filepath.Base(what) && has[0] != '#' {
				return set[1] + " installs it"
			}
		}
	}
	return installsNothing
}

const installsNothing = "nothing here installs it"

// command is a program to run.
type command struct {
	before []string // runs all that follows, hotspots too

	args  []string
	env   []string // added to ours
	stdin string
	dir   string
}

func cmd(args ...string) command { return command{args: args} }

// result is what a program did.
type result struct {
	stdout, stderr string
	status         int // exit status, 128+N after signal N
}

const patience = 3 * time.Minute // for one program; a hang is a failure

// run runs c as it is.
func run(t testing.TB, c command) result {
	t.Helper()
	args := slices.Concat(c.before, c.args)
	e := exec.Command(args[0], args[1:]...)
	e.Env = append(os.Environ(), c.env...)
	switch setting("TEST_BLOCKS") { // all that is counted is counted by block, or call site, too
	case "":
	case "sites":
		e.Env = append(e.Env, "DYNPROF_EDGES=1")
	case "edges":
		e.Env = append(e.Env, "DYNPROF_BLOCKS=1", "DYNPROF_EDGES=1")
	case "trips":
		e.Env = append(e.Env, "DYNPROF_EDGES=1", "DYNPROF_TRIPS=1")
	case "hot":
		e.Env = append(e.Env, "DYNPROF_BLOCKS_OF=hot")
	case "switched":
		e.Env = append(e.Env, "DYNPROF_BLOCKS=1", "DYNPROF_CONTROL=1")
	default:
		e.Env = append(e.Env, "DYNPROF_BLOCKS=1")
	}
	e.Dir, e.Stdin = c.dir, strings.NewReader(c.stdin)
	var out, errout bytes.Buffer
	e.Stdout, e.Stderr = &out, &errout
	e.WaitDelay = 20 * time.Second // what it wrote is read late on a busy machine
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() {
		t.Errorf("%v hangs", c.args)
		e.Process.Kill()
	})
	err := e.Wait()
	kill.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	r := result{stdout: out.String(), stderr: errout.String(), status: e.ProcessState.ExitCode()}
	if s := e.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		r.status = 128 + int(s.Signal())
	}
	return r
}

// function is one entry of the JSON report (docs/json.md).
type function struct {
	Object  string   `json:"object"`
	Address string   `json:"address"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Size    uint64   `json:"size"`
	Calls   uint64   `json:"calls"`
	Hot     bool     `json:"hot"`
	Source  string   `json:"source"`
	Tactic  string   `json:"tactic"`
	Reason  string   `json:"reason"`
}

// report is the JSON of hotspots report.
type report struct {
	Program           string     `json:"program"`
	Pid               int        `json:"pid"`
	Status            string     `json:"status"`
	TotalCalls        uint64     `json:"total_calls"`
	TotalInstructions uint64     `json:"total_instructions"`
	Lock              string     `json:"lock"`
	Stopped           bool       `json:"stopped"`
	StoppedBy         string     `json:"stopped_by"`
	Functions         []function `json:"functions"`

	TextChanged int `json:"text_changed"`
	Dispatched  int `json:"dispatched"`
	Executed    int `json:"executed"`

	OldBirths []string `json:"old_births"`

	ObjectsMissed int      `json:"objects_missed"`
	Missed        []missed `json:"missed"`

	table string // path
}

// missed is a library that was loaded later and is not counted.
type missed struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
	Times  int    `json:"times"`
}

// calls returns the calls of the executable's function of that name.
func (r *report) calls(t testing.TB, name string) uint64 {
	t.Helper()
	return r.named(t, name).Calls
}

// named returns the executable's function of that name.
func (r *report) named(t testing.TB, name string) function {
	t.Helper()
	for _, f := range r.Functions {
		if f.Name == name && f.Object == r.Program {
			return f
		}
	}
	t.Errorf("no function %q of %s in the report", name, r.Program)
	return function{}
}

// counted runs c under hotspots with more flags of hotspots run, and returns
// what it did and the report.
func counted(t testing.TB, c command, flags ...string) (result, *report) {
	t.Helper()
	r, table := countedAt(t, c, flags...)
	return r, readReport(t, table)
}

// countedAt does that and returns where the table is.
func countedAt(t testing.TB, c command, flags ...string) (result, string) {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	if b := setting("TEST_BLOCKS"); b != "" && b != "switched" && b != "hot" { // copies without a switch cannot be paused
		flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "--control" })
	}
	args := append([]string{build(t, "hotspots"), "run", "-o", table, "--summary", "0"}, flags...)
	c.args = append(append(args, "--"), c.args...)
	return run(t, c), table
}

// converse starts a command that is written to and read from.
func converse(t *testing.T, c *exec.Cmd) (to io.WriteCloser, from *bufio.Reader) {
	t.Helper()
	to, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return to, bufio.NewReader(out)
}

// until waits for something that comes soon.
func until(t *testing.T, done func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// halt stops a process. When kill returns its threads may run yet, and do what they were asked for.
func halt(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return err == nil && !slices.ContainsFunc(threads, func(thread string) bool {
			b, err := os.ReadFile(thread)
			return err == nil && procfile.StateOf(b) != 'T'
		})
	}, "it does not stop")
}

// readReport reads a table with hotspots report, and more flags of it.
func readReport(t testing.TB, table string, flags ...string) *report {
	t.Helper()
	out := run(t, cmd(append([]string{build(t, "hotspots"), "report", "--format", "json", "--no-demangle", table}, flags...)...))
	var r report
	if err := json.Unmarshal([]byte(out.stdout), &r); err != nil {
		t.Fatalf("report of %s: %v\n%s", table, err, out.stderr)
	}
	r.table = table
	return &r
}

// same fails unless the program did the same with and without the library.
func same(t testing.TB, without, with result) {
	t.Helper()
	if with.status != without.status {
		t.Errorf("status %d, without the library %d", with.status, without.status)
	}
	for _, s := range []struct{ name, without, with string }{
		{"stdout", without.stdout, with.stdout}, {"stderr", without.stderr, with.stderr},
	} {
		if s.with != s.without {
			t.Errorf("%s differs: %s", s.name, difference(s.without, s.with))
		}
	}
}

// difference shows the first line that differs.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return "line " + strings.Join([]string{"without: " + a, "with: " + b}, "\n\t")
		}
	}
	return "nothing"
}

// compile builds a program from fixtures of testdata: a file of the test's own, which it may change.
func compile(t testing.TB, compiler string, flags []string, sources ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	args := slices.Clone(flags)
	for _, s := range sources {
		args = append(args, filepath.Join("testdata", s))
	}
	if !slices.Contains(flags, "-nostdlib") { // there may be no 32-bit ones
		args = append(args, "-pthread", "-lm")
	}
	build := func(out string) error {
		msg, err := exec.Command(compiler, append([]string{"-o", out}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", compiler, strings.Join(args, " "), err, msg)
		}
		return err
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, os.TempDir()) }) { // of this test alone
		if err := build(out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	once, _ := compiled.LoadOrStore(strings.Join(append(args, compiler), "\x00"), sync.OnceValues(func() ([]byte, error) {
		if err := build(out); err != nil {
			return nil, err
		}
		return os.ReadFile(out)
	}))
	content, err := once.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(out); err != nil {
		write(t, out, string(content), 0o755)
	}
	return out
}

// compiled is what compile has built, by what it was built of: many tests ask for the same.
var compiled sync.Map
