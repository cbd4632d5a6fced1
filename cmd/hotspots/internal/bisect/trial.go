package bisect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// verdict is what a run says.
type verdict int

const (
	good    verdict = iota
	bad             // the program did otherwise
	unclear         // the check cannot tell
)

// selection is what is to be patched.
type selection struct {
	objects []string // paths; nil is what Config.Objects says
	names   []string // as displayed; nil is what Config.Only says
	byCall  bool     // blocks are not counted
}

// trial is one run and its verdict.
type trial struct {
	*outcome
	verdict     verdict
	differences []Difference // if bad
}

// session is the runs of one bisection.
type session struct {
	Config
	ctx       context.Context
	input     *input
	path      string // of the program, and its arguments
	args      []string
	lim       limits
	reference *outcome
	runs      int
	left      int // an estimate
	narrowed  string
}

// checkSkip is the status by which a check says that it cannot tell, as for
// git bisect run.
const checkSkip = 125

// The limits of a run, from the reference's time and output.
const (
	timeFactor, timeMore     = 10, 10 * time.Second
	outputFactor, outputMore = 4, 64 << 20
)

// begin announces a run and makes its directory.
func (s *session) begin(what string) (dir string, err error) {
	s.Progress(s.runs, s.left, what)
	s.runs++
	s.left = max(s.left-1, 0)
	dir = filepath.Join(s.Dir, "run-"+strconv.Itoa(s.runs))
	return dir, os.MkdirAll(filepath.Join(dir, tablesName), 0o700)
}

// plain runs the program without the library.
func (s *session) plain(what string) (*outcome, error) {
	dir, err := s.begin(what)
	if err != nil {
		return nil, err
	}
	return s.execute(os.Environ(), dir)
}

func (s *session) execute(env []string, dir string) (*outcome, error) {
	o, err := execute(s.ctx, s.path, s.args, env, s.input, dir, s.lim)
	if errors.Is(err, syscall.ENOEXEC) && s.path != shell {
		s.path, s.args = shell, append([]string{shell, s.path}, s.args[1:]...) // as execvp(3)
		return s.execute(env, dir)
	}
	return o, err
}

const shell = "/bin/sh"

// try runs the program with a selection patched, Config.Repeat times or until
// it is bad, and judges. The directory of the run stays until drop.
func (s *session) try(what string, sel selection) (*trial, error) {
	var t *trial
	for range max(s.Repeat, 1) {
		s.drop(t)
		dir, err := s.begin(what)
		if err != nil {
			return nil, err
		}
		env, err := s.environ(sel, dir)
		if err != nil {
			return nil, err
		}
		o, err := s.execute(env, dir)
		if err != nil {
			return nil, err
		}
		if err := s.counted(dir); err != nil {
			return nil, err
		}
		if t, err = s.judge(o); err != nil || t.verdict == bad {
			return t, err
		}
	}
	return t, nil
}

// drop removes what a run has left, unless all is kept.
func (s *session) drop(t *trial) {
	if t != nil && !s.Keep {
		os.RemoveAll(t.dir)
	}
}

// environ is the program's environment for a run with a selection patched.
func (s *session) environ(sel selection, dir string) ([]string, error) {
	settings := map[setting.ID]string{
		setting.Output:  strings.ReplaceAll(filepath.Join(dir, tablesName), "%", "%%") + "/%p" + tabledir.Ext,
		setting.Objects: s.Objects, setting.Only: s.Only, setting.Skip: s.Skip, setting.BlocksOf: s.BlocksOf,
		setting.Note:  filepath.Join(dir, noteName),
		setting.RunID: hex.EncodeToString(s.id[:]), setting.Threshold: "", setting.Translator: "", setting.Strict: "",
	}
	s.On.Values(settings, func(s *setting.Setting) bool { return s.Bisect != "" })
	if sel.byCall {
		settings[setting.Blocks], settings[setting.BlocksOf], settings[setting.Edges], settings[setting.Trips] = "", "", "", ""
	}
	if sel.objects != nil {
		settings[setting.Objects] = globs(sel.objects)
	}
	if sel.names != nil {
		file := filepath.Join(dir, namesName)
		if err := os.WriteFile(file, []byte(strings.Join(sel.names, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		settings[setting.Only] = "@" + file
	}
	return launch.Environ(os.Environ(), s.Library, s.Program.Preload, settings), nil
}

// globs are --objects for exactly these paths. A comma, which would end a
// glob, is any character.
func globs(paths []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `,`, `?`)
	var all []string
	for _, p := range paths {
		all = append(all, escape.Replace(p))
	}
	return strings.Join(all, ",")
}

// counted is an error if the library said that it counts nothing. What a
// program executes may be uncountable.
func (s *session) counted(dir string) error {
	why, err := os.ReadFile(filepath.Join(dir, noteName))
	if errors.Is(err, fs.ErrNotExist) || s.On[setting.FollowExec] {
		return nil
	}
	return fmt.Errorf("run %d was not counted: %s", s.runs, symname.Clean(string(why)))
}

// judge compares a run with the reference, or asks the check.
func (s *session) judge(o *outcome) (*trial, error) {
	t := &trial{outcome: o}
	var err error
	switch {
	case o.stopped != "" || s.Check == "":
		t.differences, err = compare(s.reference, o)
	default:
		return t, s.ask(t)
	}
	if len(t.differences) > 0 {
		t.verdict = bad
	}
	return t, err
}

// ask runs the check.
func (s *session) ask(t *trial) error {
	dir := filepath.Join(t.dir, checkName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	env := append(os.Environ(),
		"BISECT_STDOUT="+filepath.Join(t.dir, stdoutName),
		"BISECT_STDERR="+filepath.Join(t.dir, stderrName),
		"BISECT_STATUS="+strconv.Itoa(t.status()))
	c, err := execute(s.ctx, shell, []string{"sh", "-c", s.Check}, env, noInput, dir, s.lim)
	switch {
	case err != nil:
		return fmt.Errorf("--check: %w", err)
	case c.stopped != "":
		return fmt.Errorf("--check was %s", c.stopped)
	}
	switch c.status() {
	case 0:
	case checkSkip:
		t.verdict = unclear
	default:
		t.verdict = bad
		zero, end := "0", c.end()
		t.differences = []Difference{{What: checkName, Without: &zero, With: &end}}
		return s.illustrate(t)
	}
	return nil
}

// illustrate adds what else differs to a verdict of the check.
func (s *session) illustrate(t *trial) error {
	more, err := compare(s.reference, t.outcome)
	t.differences = append(t.differences, more...)
	return err
}
