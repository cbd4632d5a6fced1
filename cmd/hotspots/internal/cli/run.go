package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/textfile"
)

// lingerDefault is that of the library.
const lingerDefault = 15 * time.Second

type runFlags struct {
	output, objects, only, skip, library string
	listen                               string
	linger                               time.Duration
	translator                           string // path of a plug-in, or -
	threshold                            string // all of thresholds
	thresholds                           []string
	summary                              int
	followExec, strict, perfMap, control bool
	allowTraps, directCalls, lock        bool
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROG [ARG]...",
		Short: "Run a program and count the calls of its functions",
		Long: "Run PROG with its arguments and count every call of its functions into a table, which report reads.\n" +
			"Output, signals and exit status are those of PROG: 128+N if signal N killed it, 127 if it was not found, 126 if it cannot be executed, 125 if hotspots failed.\n\n" +
			"A program that cannot be counted (static, 32-bit, set-user-ID) runs all the same, after a message.\n\n" +
			"NAMES of --only and --skip are a regular expression that matches anywhere in the name shown, or @FILE: a file with one whole name a line. " +
			"GLOBS of --objects are separated by commas; a glob with a slash matches the path, else the base name; all is everything, main the executable.\n" +
			"FILE of -o may have %e (program), %p (process), %h (host), %t (time).",
		Example: "  hotspots run -- ./app args\n  hotspots run -o app.dynprof --summary 0 -- ./app\n  hotspots run --objects 'main,libssl*' --skip '^std::' -- ./app\n" +
			"  hotspots run --follow-exec -- make",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &exitError{exitRunFailure, errors.New("no program named: hotspots run [flags] -- PROG [ARG]..., see hotspots run --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.fromEnvironment(cmd)
			if err == nil {
				err = a.run(&f, args)
			}
			var exit *exitError
			if err == nil || errors.As(err, &exit) {
				return err
			}
			return &exitError{exitRunFailure, err}
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVarP(&f.output, "output", "o", "", "write the count table to `FILE` (default "+tabledir.DefaultPattern+" in $XDG_RUNTIME_DIR/dynprof or /tmp/dynprof-UID)")
	flags.StringVar(&f.objects, "objects", "", "count in the objects that match `GLOBS` (default: the executable and its libraries, without libc)")
	flags.StringVar(&f.only, "only", "", "count only functions with these `NAMES`")
	flags.StringVar(&f.skip, "skip", "", "leave out functions with these `NAMES`")
	flags.StringArrayVar(&f.thresholds, "threshold", nil, "note when a function has been called `N` times; NAME=N: for functions of that name, with * and ?; may be repeated, and the last that matches counts; see hotspots events")
	flags.IntVar(&f.summary, "summary", 10, "show the `N` functions called most at the end, on stderr; 0 shows none")
	flags.BoolVar(&f.followExec, "follow-exec", false, "count the programs that the program executes, too, each in its own table")
	flags.BoolVar(&f.perfMap, "perf-map", false, "tell perf the names of the stubs: /tmp/perf-PID.map")
	flags.BoolVar(&f.control, "control", false, "let hotspots pause and resume the counting: a process beside the program takes requests")
	flags.BoolVar(&f.allowTraps, "allow-traps", false, "count by int3 what no jump finds room for, at some microseconds a call; see docs/stubs.md")
	flags.BoolVar(&f.directCalls, "direct-calls", false, "lead calls straight to the counting code, not by way of the entry: faster, but a breakpoint set at an entry later misses them")
	flags.BoolVar(&f.lock, "lock", false, "count with lock, slower: for programs that take the GS segment after their start")
	flags.StringVar(&f.listen, "listen", "", "serve the counts for Prometheus at this `ADDRESS` while the program runs: IP:PORT, PORT, unix:PATH; see docs/listen.md")
	flags.DurationVar(&f.linger, "linger", lingerDefault, "after the program's end wait this `time` for a last scrape")
	flags.StringVar(&f.translator, "translator", "", "load `FILE.so` into the program: it is told of functions that reach their threshold and may send their calls to other code; -: a library that the program loads later will register one")
	flags.BoolVar(&f.strict, "strict", false, "do not run a program that cannot be counted")
	flags.StringVar(&f.library, "library", "", "preload this libdynprof.so (`FILE`) instead of the one that hotspots carries")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{exitRunFailure, fmt.Errorf("%w; see hotspots run --help", err)}
	})
	return cmd
}

// variables are those that stand for flags.
var variables = map[string]string{
	"output": launch.Output, "objects": launch.Objects, "only": launch.Only, "skip": launch.Skip,
	"threshold": launch.Threshold, "follow-exec": launch.FollowExec, "perf-map": launch.PerfMap, "control": launch.Control, "allow-traps": launch.AllowTraps, "lock": launch.Lock, "direct-calls": launch.DirectCalls, "translator": launch.Translator, "library": launch.LibraryPath,
	"listen": launch.Listen, "linger": launch.Linger,
}

// fromEnvironment takes what was not said on the command line from the
// library's variables, and checks all of it before anything runs.
func (f *runFlags) fromEnvironment(cmd *cobra.Command) error {
	source := map[string]string{} // what the user wrote: the flag, or its variable
	for name, variable := range variables {
		source[name] = "--" + name
		if os.Getenv(variable) != "" && !cmd.Flags().Changed(name) {
			source[name] = variable
		}
	}
	for name, variable := range variables {
		if v := os.Getenv(variable); v != "" && !cmd.Flags().Changed(name) {
			if cmd.Flags().Lookup(name).Value.Type() == "bool" {
				v = strconv.FormatBool(v != "0")
			}
			if err := cmd.Flags().Set(name, v); err != nil {
				return fmt.Errorf("%s: %w", variable, err)
			}
		}
	}
	if f.objects != "" {
		if _, err := symname.ParseObjects(f.objects); err != nil {
			return fmt.Errorf("%s: %w", source["objects"], err)
		}
	}
	for flag, names := range map[string]*string{"only": &f.only, "skip": &f.skip} {
		if *names == "" {
			continue
		}
		if _, err := symname.ParseNames(*names, textfile.Read); err != nil {
			return fmt.Errorf("%s: %w", source[flag], err)
		}
		if file, ok := strings.CutPrefix(*names, "@"); ok {
			path, err := filepath.Abs(file)
			if err != nil {
				return err
			}
			*names = "@" + path
		}
	}
	if f.followExec && f.output != "" && !strings.Contains(strings.ReplaceAll(f.output, "%%", ""), "%p") {
		return errors.New("-o needs %p with --follow-exec: each program gets a table of its own")
	}
	if f.listen != "" {
		if _, err := listen.Parse(f.listen); err != nil {
			return fmt.Errorf("%s: %w", source["listen"], err)
		}
	}
	if f.linger < 0 {
		return fmt.Errorf("--linger %v: it is 0s or more", f.linger)
	}
	if f.translator != "" && f.translator != "-" {
		path, err := filepath.Abs(f.translator)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s: %w", source["translator"], err)
		}
		f.translator = path
	}
	if f.threshold = strings.Join(f.thresholds, ";"); f.threshold != "" {
		if _, err := symname.ParseThresholds(f.threshold); err != nil {
			return fmt.Errorf("%s: %w; see hotspots run --help", source["threshold"], err)
		}
	}
	if f.summary < 0 {
		return fmt.Errorf("--summary %d: it is 0 or more", f.summary)
	}
	return nil
}

// run executes the program and reports. Whatever fails in counting, the
// program runs.
func (a *app) run(f *runFlags, argv []string) error {
	p, err := launch.Resolve(argv, searchPath())
	if err != nil {
		return startError(err)
	}
	job, err := f.prepare(p, a.library)
	if err != nil {
		if f.strict {
			return fmt.Errorf("not run, as --strict says: %w", err)
		}
		return a.uncounted(p, err)
	}
	if p.Note != "" && !f.followExec {
		a.say("%s", p.Note)
	}
	result, err := launch.Run(p, job.env, job.watch)
	if err != nil {
		return startError(err)
	}
	if counted := a.finish(f, job, p, result); !counted && f.strict {
		return &exitError{status: exitRunFailure}
	}
	return status(result)
}

// uncounted runs the program as if hotspots were not there, after it has said
// why. Of a program that the kernel most likely refuses it is said only if it
// has run.
func (a *app) uncounted(p *launch.Program, why error) error {
	if !p.Doubtful {
		a.say("nothing is counted: %v", why)
	}
	result, err := launch.Run(p, os.Environ(), nil)
	if err != nil {
		return startError(err)
	}
	if p.Doubtful {
		a.say("nothing was counted: %v", why)
	}
	return status(result)
}

func status(r launch.Result) error {
	if n := r.Status(); n != 0 {
		return &exitError{status: n}
	}
	return nil
}

func startError(err error) error {
	switch {
	case errors.Is(err, launch.ErrNotFound):
		return &exitError{exitNotFound, err}
	case errors.Is(err, launch.ErrNotExecutable):
		return &exitError{exitNotExecutable, err}
	}
	return err
}

// searchPath is the PATH that execvp(3) would use.
func searchPath() string {
	if path, ok := os.LookupEnv("PATH"); ok {
		return path
	}
	return "/bin:/usr/bin"
}

// job is a run that is counted.
type job struct {
	id     [16]byte
	output string // pattern with %e and %p left in it
	note   string // path of launch.Note, empty if there is no place for it
	env    []string

	mu   sync.Mutex
	code code.Memory // of the program's first process
}

// watch looks at the program while it runs.
func (j *job) watch(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.code.See(pid)
}

// prepare makes everything ready that counting needs. An error means that the
// program cannot be counted.
func (f *runFlags) prepare(p *launch.Program, embedded *io.SectionReader) (*job, error) {
	if p.Why != "" {
		return nil, errors.New(p.Why)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "" // no HOME: /tmp it is
	}
	library, err := launch.Library(f.library, embedded, cache)
	if err != nil {
		return nil, err
	}
	j := &job{code: code.Memory{}}
	if _, err := rand.Read(j.id[:]); err != nil {
		return nil, err
	}
	if j.output, err = f.outputPattern(); err != nil {
		return nil, err
	}
	j.note = j.notePath()
	settings := map[string]string{
		launch.Output: j.output, launch.Note: j.note, launch.RunID: hex.EncodeToString(j.id[:]),
		launch.Objects: f.objects, launch.Only: f.only, launch.Skip: f.skip,
		launch.Threshold: f.threshold, launch.Translator: f.translator,
		launch.FollowExec: launch.Switch(f.followExec), launch.Strict: launch.Switch(f.strict),
		launch.PerfMap: launch.Switch(f.perfMap), launch.Control: launch.Switch(f.control), launch.Lock: launch.Switch(f.lock),
		launch.AllowTraps: launch.Switch(f.allowTraps), launch.DirectCalls: launch.Switch(f.directCalls),
		launch.Listen: f.listen, launch.Linger: "", launch.Hotspots: "",
	}
	if f.listen != "" {
		settings[launch.Linger] = f.linger.String()
		if settings[launch.Hotspots], err = os.Executable(); err != nil {
			return nil, err
		}
	}
	j.env = launch.Environ(os.Environ(), library, p.Preload, settings)
	return j, nil
}
