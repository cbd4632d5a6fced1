// Package selftest proves an installation: it counts a small program, which hotspots
// carries and whose calls are known, in all the ways that a program can be counted.
package selftest

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// variant is a way to count: flags of hotspots run.
type variant struct {
	name  string
	flags []string
}

// Variants are all of them. The second start of a program uses plans of the first.
var variants = []variant{
	{"usual", nil},
	{"again, with plans kept", nil},
	{"without plans", []string{"--cache=false"}},
	{"copies of text", []string{"--text-copies"}},
	{"calls by way of the entry", []string{"--keep-calls"}},
	{"libc, too", []string{"--objects", "all"}},
	{"threshold", []string{"--threshold", "100"}},
	{"translator", []string{"--translator", "-"}},
	{"control", []string{"--control"}},
	{"traps", []string{"--allow-traps"}},
	{"lock", []string{"--lock"}},
	{"blocks", []string{"--blocks"}},
	{"edges", []string{"--edges"}},
	{"blocks and edges", []string{"--blocks", "--edges"}},
	{"trips", []string{"--trips"}},
}

// Result is how one variant went.
type Result struct {
	Variant   string   `json:"variant"`
	Flags     []string `json:"flags"`
	Functions int      `json:"functions"` // whose calls are known
	Calls     uint64   `json:"calls"`     // of them
	Error     string   `json:"error"`     // what was wrong; empty: all was exact
}

// Config is what is tested.
type Config struct {
	Hotspots string       // the command
	Program  []byte       // the known program
	Tell     func(Result) // is told each result as it comes
}

// ErrNoProgram means that this build carries no known program.
var ErrNoProgram = errors.New("this hotspots carries no program to test with: it was built without make")

// Run tests all variants. An error means that none could be tested.
func Run(c Config) ([]Result, error) {
	if len(c.Program) == 0 {
		return nil, ErrNoProgram
	}
	dir, err := workDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "known")
	if err := os.WriteFile(program, c.Program, 0o700); err != nil {
		return nil, err
	}
	want, err := exec.Command(program).Output()
	if err != nil {
		return nil, fmt.Errorf("%s does not run here: %w; it needs glibc 2.34 or newer, and a directory that is not mounted noexec: set TMPDIR", program, reason(err))
	}
	var all []Result
	for i := range variants {
		r := c.try(&variants[i], dir, program, want)
		c.Tell(r)
		all = append(all, r)
	}
	return all, nil
}

// workDir is a directory of this run's own, with a path that LD_PRELOAD can express.
func workDir() (string, error) {
	dir, err := os.MkdirTemp("", "hotspots-selftest-")
	if err != nil {
		return "", fmt.Errorf("no place for a program to test with: %w; set TMPDIR", err)
	}
	return dir, nil
}

// try counts the program, and compares.
func (c *Config) try(v *variant, dir, program string, want []byte) Result {
	r := Result{Variant: v.name, Flags: append([]string{}, v.flags...)}
	table := filepath.Join(dir, "known"+tabledir.Ext)
	args := append([]string{"run", "-o", table, "--summary", "0"}, v.flags...)
	cmd := exec.Command(c.Hotspots, append(args, "--", program)...)
	cmd.Env = environ(dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	switch err := cmd.Run(); {
	case err != nil:
		r.Error = fmt.Sprintf("%v: %s", err, oneLine(stderr.String()))
	case stdout.String() != string(want):
		r.Error = "the program did something else when it was counted: " + oneLine(stdout.String())
	case stderr.Len() > 0:
		r.Error = oneLine(stderr.String())
	default:
		r.compare(want, func() ([]byte, error) {
			report := exec.Command(c.Hotspots, "report", "--format", "csv", table)
			report.Env = environ(dir)
			return report.Output()
		})
	}
	return r
}

// environ is this process's environment without settings of the user's, and with a
// cache of its own, so that the first start is one without plans.
func environ(dir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DYNPROF_") || strings.HasPrefix(v, "XDG_CACHE_HOME=")
	})
	return append(env, "XDG_CACHE_HOME="+dir)
}

// compare compares what the program says with the calls that were counted.
func (r *Result) compare(want []byte, report func() ([]byte, error)) {
	out, err := report()
	if err != nil {
		r.Error = reason(err).Error()
		return
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) == 0 {
		r.Error = "no report"
		return
	}
	name, calls := slices.Index(rows[0], "name"), slices.Index(rows[0], "calls")
	got := map[string]string{}
	for _, row := range rows[1:] {
		got[row[name]] = row[calls]
	}
	for line := range strings.Lines(string(want)) {
		var function string
		var n uint64
		if _, err := fmt.Sscan(line, &function, &n); err != nil {
			continue
		}
		r.Functions++
		r.Calls += n
		if g := got[function]; g != fmt.Sprint(n) && r.Error == "" {
			r.Error = fmt.Sprintf("%s was called %d times, and %q were counted", function, n, g)
		}
	}
	if r.Functions == 0 {
		r.Error = "the program said nothing"
	}
}

// reason is an error with what the program wrote to stderr.
func reason(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, oneLine(string(exit.Stderr)))
	}
	return err
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
