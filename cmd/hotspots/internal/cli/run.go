package cli

import (
	"crypto/rand"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/attach"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/audit"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/harvest"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/images"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/narrow"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/perf"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/record"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/overhead"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/regions"
	"github.com/dynprof/dynprof/internal/textfile"
)

type runFlags struct {
	output, objects, only, skip, library string
	listen                               string
	linger                               time.Duration
	translator                           string   // path of a plug-in, or -
	blocksOf                             string   // value of --blocks, if it has one
	heat                                 string   // what is noted, or empty
	region                               []string // as the user names them
	regions                              string   // all, as the library reads them
	window                               record.Window
	times                                bool
	kinds                                string // of accesses that are recorded
	audit                                bool   // what is recorded is compared with what protected pages tell
	overhead                             string // a bound
	threshold                            string // all of thresholds
	thresholds                           []string
	summary                              int
	fold                                 int // tables of one program that are not folded
	hertz                                int // samples of CPU time a second; 0: none
	on                                   setting.Switches
}

// texts are the settings that are one text.
func (f *runFlags) texts() map[setting.ID]*string {
	return map[setting.ID]*string{
		setting.Output: &f.output, setting.Objects: &f.objects, setting.Only: &f.only, setting.Skip: &f.skip,
		setting.Translator: &f.translator, setting.Listen: &f.listen, setting.Library: &f.library,
		setting.BlocksOf: &f.blocksOf, setting.Heat: &f.heat, setting.Overhead: &f.overhead,
	}
}

func (a *app) runCommand() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROG [ARG]...",
		Short: "Run a program and count the calls of its functions",
		Long: "Run PROG with its arguments and count every call of its functions into a table, which report reads.\n" +
			"Output, signals and exit status are those of PROG: 128+N if signal N killed it, 127 if it was not found, 126 if it cannot be executed, 125 if hotspots failed.\n\n" +
			"A program that cannot be counted (32-bit, set-user-ID, dynamically linked with another libc than glibc and musl) runs all the same, after a message.\n\n" +
			"NAMES of --only and --skip are a regular expression that matches anywhere in the name shown, or @FILE: a file with one whole name a line. " +
			"GLOBS of --objects are separated by commas; a glob with a slash matches the path, else the base name; all is everything, main the executable. What matches nothing is said at the end, with what may have been meant.\n" +
			"FILE of -o may have %e (program), %p (process), %h (host), %t (time).\n\n" +
			"--follow-exec counts the programs that PROG executes, too, dynamically linked and static ones, each process into a table of its own; of a program that ran more than 16 times (--fold) one is left, with the sums and the calls of each process. hotspots report --run adds all up.\n\n" +
			"--time samples, from outside, in which functions the program spends its CPU time; nothing is changed in it. Without HZ there are 997 samples a second; a frequency is said with =.",
		Example: "  hotspots run -- ./app args\n  hotspots run -o app.dynprof --summary 0 -- ./app\n  hotspots run --objects 'main,libssl*' --skip '^std::' -- ./app\n" +
			"  hotspots run --follow-exec -- make\n  hotspots run --time -- ./app                calls, CPU time, and time a call\n  hotspots run --region malloc@parse -- ./app  accesses to blocks that parse() asks malloc for\n  hotspots run --heat --allocs -- ./app       touched memory, and who has asked malloc for it: hotspots heat --objects\n  hotspots run --time=4000 -- ./app",
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
	addFlags(cmd, func(s *setting.Setting) string { return s.Help }, &f.on, f.texts())
	threshold, linger := &setting.All[setting.Threshold], &setting.All[setting.Linger]
	flags.StringArrayVar(&f.thresholds, threshold.Flag, nil, threshold.Help)
	flags.DurationVar(&f.linger, linger.Flag, listen.DefaultLinger, linger.Help)
	region := &setting.All[setting.Region]
	flags.StringArrayVar(&f.region, region.Flag, nil, region.Help)
	flags.StringVar(&f.kinds, "kinds", "", "with --regions or --region: record only accesses of this `kind`, load or store, with those that do both; see docs/regions.md")
	flags.BoolVar(&f.audit, launch.Audit, false, "with --regions or --region: protect their pages, too, and compare each access that faults with those that are recorded; an access takes some 30 µs; see docs/regions.md")
	flags.DurationVar(&f.window.After, "after", 0, "with --regions or --region: record nothing until the program has run for this `TIME`, as 2s or 500ms")
	flags.DurationVar(&f.window.For, "for", 0, "with --regions or --region: record nothing any more when that was done for this `TIME`")
	flags.BoolVar(&f.times, launch.Times, false, "with --regions or --region: note when accesses were made, to a microsecond or so, which takes some more time for each")
	acceptDirectCalls(cmd)
	flags.IntVar(&f.hertz, launch.Time, 0, "sample the CPU time of each function, too, `HZ` times a second; see docs/time.md")
	flags.Lookup(launch.Time).NoOptDefVal = strconv.Itoa(perf.UsualHertz)
	flags.IntVar(&f.summary, "summary", 10, "show the `N` functions called most at the end, on stderr; 0 shows none")
	flags.IntVar(&f.fold, "fold", job.UsualFold, "with --follow-exec: of a program that ran more than `N` times keep one table, with the calls of each process; 0 keeps all")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{exitRunFailure, fmt.Errorf("%w; see hotspots run --help", flagError(err))}
	})
	return cmd
}

// acceptDirectCalls takes a flag of older scripts that asks for the default.
func acceptDirectCalls(cmd *cobra.Command) {
	cmd.Flags().Bool(launch.DirectCalls, false, "")
	cmd.Flags().MarkHidden(launch.DirectCalls)
}

// addFlags adds the flags of the switches, and of the texts that there are, for
// which help has something to say.
func addFlags(cmd *cobra.Command, help func(*setting.Setting) string, on *setting.Switches, texts map[setting.ID]*string) {
	for id := range setting.Count {
		s := &setting.All[id]
		switch help := help(s); {
		case s.Flag == "" || help == "":
		case id == setting.Blocks:
			f := cmd.Flags().VarPF(&blocksValue{&on[id], texts[setting.BlocksOf]}, s.Flag, "", help)
			f.NoOptDefVal = "all"
		case s.Kind == setting.Switch:
			cmd.Flags().BoolVar(&on[id], s.Flag, setting.Usual[id], help)
		case texts[id] != nil:
			cmd.Flags().StringVarP(texts[id], s.Flag, s.Short, "", help)
			if id == setting.Heat {
				cmd.Flags().Lookup(s.Flag).NoOptDefVal = setting.HeatUsual
			}
		}
	}
}

// blocksValue is the value of --blocks: all, which is that without a value, hot, or the names
// of functions; as of a switch, true or false.
type blocksValue struct {
	on *bool
	of *string
}

func (v *blocksValue) Set(value string) error {
	if on, err := strconv.ParseBool(value); err == nil || value == "all" {
		*v.on, *v.of = on || err != nil, ""
		return nil
	}
	if value == setting.BlocksHot {
		*v.on, *v.of = true, value
		return nil
	}
	if _, err := symname.ParseGlobs(value, textfile.Read); err != nil {
		return err
	}
	value, err := absoluteList(value)
	*v.on, *v.of = true, value
	return err
}

func (v *blocksValue) String() string {
	switch {
	case v.on == nil || !*v.on:
		return ""
	case *v.of != "":
		return *v.of
	}
	return "all"
}

func (v *blocksValue) Type() string { return "NAMES" }

// absoluteList makes the path of a list of names, @FILE, an absolute one. Other names stay.
func absoluteList(names string) (string, error) {
	file, isFile := strings.CutPrefix(names, "@")
	if !isFile {
		return names, nil
	}
	path, err := filepath.Abs(file)
	return "@" + path, err
}

// fromEnvironment takes what was not said on the command line from the
// library's variables, and checks all of it before anything runs.
func (f *runFlags) fromEnvironment(cmd *cobra.Command) error {
	source := map[string]string{} // what the user wrote: the flag, or its variable
	for i := range setting.All {
		s := &setting.All[i]
		if s.Flag == "" {
			continue
		}
		source[s.Flag] = "--" + s.Flag
		v := os.Getenv(s.Variable)
		if v == "" || cmd.Flags().Changed(s.Flag) {
			continue
		}
		source[s.Flag] = s.Variable
		if s.Kind == setting.Switch {
			v = strconv.FormatBool(setting.IsOn(v))
		}
		if err := cmd.Flags().Set(s.Flag, v); err != nil {
			return fmt.Errorf("%s: %w", s.Variable, flagError(err))
		}
	}
	if of := &setting.All[setting.BlocksOf]; os.Getenv(of.Variable) != "" && !cmd.Flags().Changed(setting.All[setting.Blocks].Flag) {
		if err := cmd.Flags().Set(setting.All[setting.Blocks].Flag, os.Getenv(of.Variable)); err != nil {
			return fmt.Errorf("%s: %w", of.Variable, err)
		}
	}
	if f.overhead != "" {
		if _, err := overhead.Parse(f.overhead); err != nil {
			return fmt.Errorf("%s: %w", source["overhead"], err)
		}
		if f.on[setting.Trips] || f.on[setting.Edges] {
			return errors.New("--trips and --edges cost what no estimate knows: they do not go with --overhead")
		}
		f.on[setting.Blocks], f.on[setting.Control] = true, true
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
		path, err := absoluteList(*names)
		if err != nil {
			return err
		}
		*names = path
	}
	if f.on[setting.FollowExec] && f.output != "" && !strings.Contains(strings.ReplaceAll(f.output, "%%", ""), "%p") {
		follow := &setting.All[setting.FollowExec]
		if around := os.Getenv(setting.All[setting.Note].Variable) != ""; !around || source[follow.Flag] != follow.Variable {
			return errors.New("-o needs %p with --follow-exec: each program gets a table of its own")
		}
		f.on[setting.FollowExec] = false // it was asked of a run around this one
	}
	if f.listen != "" {
		if _, err := listen.Parse(f.listen); err != nil {
			return fmt.Errorf("%s: %w", source["listen"], err)
		}
	}
	if f.listen != "" {
		f.on[setting.FollowSelf] = false // the first program's endpoint has the address
	}
	if err := f.checkHeat(source[setting.All[setting.Heat].Flag]); err != nil {
		return err
	}
	if err := f.checkRegions(); err != nil {
		return err
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
		if f.translator = path; f.on[setting.Strict] {
			if err := checkPlugin(path); err != nil {
				return fmt.Errorf("%s: %w; see docs/translator.md", source["translator"], err)
			}
		}
	}
	if f.threshold = strings.Join(f.thresholds, ";"); f.threshold != "" {
		if _, err := symname.ParseThresholds(f.threshold); err != nil {
			return fmt.Errorf("%s: %w; see hotspots run --help", source["threshold"], err)
		}
	}
	if cmd.Flags().Changed(launch.Time) && (f.hertz < 1 || f.hertz > perf.MostHertz) {
		return fmt.Errorf("--time=%d: it is 1 to %d samples a second", f.hertz, perf.MostHertz)
	}
	if f.summary < 0 {
		return fmt.Errorf("--summary %d: it is 0 or more", f.summary)
	}
	if f.fold < 0 {
		return fmt.Errorf("--fold %d: it is 0 or more", f.fold)
	}
	if cmd.Flags().Changed("fold") && !f.on[setting.FollowExec] {
		return errors.New("--fold is of programs that the program executes: it needs --follow-exec")
	}
	return nil
}

// checkHeat refuses what does not go with touched pages, which are those of one process and of
// all that it does.
func (f *runFlags) checkHeat(flag string) error {
	if err := checkGranules(flag, f.heat); err != nil {
		return err
	}
	switch {
	case f.heat == "" && f.on[setting.Allocs]:
		return errors.New("--allocs notes blocks beside touched memory: it needs --heat")
	case f.heat == "":
		return nil
	case f.on[setting.FollowExec], f.blocksOf == setting.BlocksHot:
		return fmt.Errorf("%s goes neither with --follow-exec, nor --blocks=%s", flag, setting.BlocksHot)
	}
	return nil
}

// checkGranules refuses what is no name of granules that are noted; none is noted without one.
func checkGranules(flag, name string) error {
	if name != "" && !heat.IsName(name) {
		return fmt.Errorf("%s %s: it is %s", flag, name, heat.AllNames)
	}
	return nil
}

// checkRegions refuses what does not go with accesses that are recorded, as with touched pages.
func (f *runFlags) checkRegions() error {
	f.on[setting.Regions] = f.on[setting.Regions] || len(f.region) > 0
	switch {
	case !f.on[setting.Regions] && f.audit:
		return errors.New("--audit is of regions: it needs --regions or --region")
	case !f.on[setting.Regions] && f.kinds != "":
		return errors.New("--kinds is of regions: it needs --regions or --region")
	case f.kinds != "" && f.kinds != regions.All.String() && regions.KindsOf[f.kinds] == 0:
		return fmt.Errorf("--kinds %s: it is load, store or all", f.kinds)
	case f.audit && slices.ContainsFunc(f.region, isSite):
		return errors.New("--audit does not go with --region malloc@...: pages of blocks are not protected")
	case f.window.After < 0 || f.window.For < 0:
		return errors.New("--after and --for are times from 0 on, as 500ms")
	case !f.on[setting.Regions] && f.window != record.Window{}:
		return errors.New("--after and --for are of regions: they need --regions or --region")
	case !f.on[setting.Regions] && f.times:
		return errors.New("--times are of regions: they need --regions or --region")
	case !f.on[setting.Regions]:
		return nil
	case f.heat != "", f.on[setting.FollowExec], f.overhead != "", f.blocksOf == setting.BlocksHot:
		return fmt.Errorf("--regions goes neither with --heat, nor --follow-exec, nor --overhead, nor --blocks=%s", setting.BlocksHot)
	case f.audit && (f.on[setting.Control] || f.window != record.Window{}):
		return errors.New("--audit needs all accesses: it goes neither with --control, nor --after, nor --for")
	}
	f.on[setting.FollowSelf] = f.on[setting.FollowSelf] && !f.audit // which leaves what is executed alone
	return nil
}

// checkPlugin refuses what is no translator. What only the dynamic linker finds out, the
// library says.
func checkPlugin(path string) error {
	e, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s cannot be loaded: %w", path, err)
	}
	defer e.Close()
	if e.Type != elf.ET_DYN || e.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s cannot be loaded: it is no shared library of x86-64", path)
	}
	symbols, err := e.DynamicSymbols()
	if err != nil || !slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
		return s.Name == "dynprof_plugin_init" && s.Section != elf.SHN_UNDEF
	}) {
		return fmt.Errorf("%s has no dynprof_plugin_init", path)
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
	namer, err := a.localNamer()
	if err != nil {
		return usage("%w", err)
	}
	memory, path, err := a.memory(f, p)
	if err != nil {
		return err
	}
	if memory != nil {
		defer memory.close()
	}
	j, env, err := f.prepare(p, a.library, path)
	if err != nil {
		if f.on[setting.Strict] {
			return fmt.Errorf("not run, as --strict says: %w", err)
		}
		return a.uncounted(p, err)
	}
	var outside *attach.Request
	if p.Outside {
		if outside, err = a.firstOutside(f, p, j); err != nil && f.on[setting.Strict] {
			return fmt.Errorf("not run, as --strict says: %w", err)
		} else if err != nil {
			return a.uncounted(p, err)
		}
	}
	if p.Note != "" && !f.on[setting.FollowExec] {
		a.say("%s", p.Note)
	}
	if j.Mangled, j.Messages = a.noDemangle, a.stderr; !a.wide {
		j.Width = narrow.Width(syscall.Stderr)
	}
	if s := f.selection(); !s.Empty() {
		j.Check = func(tables []string, ended bool) bool { return a.checkSelection(s, tables, ended) }
	}
	if len(a.names) > 0 { // else the end does not wait for files to be looked through
		j.Name = namer.Name
	}
	if memory != nil {
		j.Heat = memory.start(j.Tables)
		defer j.Heat.Stop()
	}
	watch := j.Watch
	if f.hertz > 0 {
		runtime.LockOSThread() // the program inherits what is opened on this thread
		defer runtime.UnlockOSThread()
		watch = a.sample(j, p, f.hertz)
	}
	endFollowing := a.followAll(f, j)
	var result launch.Result
	left := true // tables
	if outside != nil {
		result, left, err = a.runOutside(f, outside, p, env, watch)
	} else if memory != nil && memory.audit != nil {
		result, err = a.runAudited(memory, p, env, watch)
	} else {
		result, err = launch.Run(p, env, watch)
	}
	endFollowing()
	if (err != nil || !left) && j.Times != nil {
		j.Times.Stop()
	}
	if err != nil {
		return startError(err)
	}
	if !left {
		return status(result)
	}
	counted := j.Finish(p.Path, result)
	if memory != nil {
		a.sayUnbegun(f.region, memory.taken())
	}
	if !counted && f.on[setting.Strict] {
		return &exitError{status: exitRunFailure}
	}
	return status(result)
}

// memory is what the program has mapped of ours, to note touched pages or to record accesses in.
type memory struct {
	start    func(tables func() []*find.Entry) job.Heat
	close    func()
	audit    *audit.Auditor // nil: there is none
	recorder *record.Recorder

	mu    sync.Mutex
	rings []*regions.Ring // of each program that has run in the process
}

// record begins to take what is recorded in one.
func (m *memory) record(ring *regions.Ring, w record.Window, begun time.Time, tables func() []*find.Entry) *record.Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rings = append(m.rings, ring)
	return record.Start(ring, w, begun, tables)
}

// taken are those that there were.
func (m *memory) taken() []*regions.Ring {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rings
}

// memory makes it, with the path by which the program opens it, if there shall be any. Whatever
// fails but what the user has named, the program runs.
func (a *app) memory(f *runFlags, p *launch.Program) (m *memory, path string, err error) {
	switch {
	case f.heat != "":
		all, first, err := shadows(f.shadows)
		if err != nil {
			a.say("touched memory is not noted: %v", err)
			return nil, "", nil
		}
		return &memory{start: func(tables func() []*find.Entry) job.Heat {
			return images.Start(first, func(s *heat.Shadow, pid int) images.Image { return harvest.Start(s, tables, pid) })
		}, close: all.Close}, all.Path(), nil
	case f.on[setting.Regions]:
		chosen, err := chosenRegions(f.region, p.Path)
		if err != nil {
			return nil, "", err
		}
		f.regions = chosen.text
		if len(chosen.thresholds) > 0 {
			f.threshold = strings.TrimPrefix(f.threshold+";"+strings.Join(chosen.thresholds, ";"), ";")
		}
		if kinds := regions.KindsOf[f.kinds]; kinds != 0 {
			f.regions = fmt.Sprintf("%%%d;%s", kinds, f.regions)
		}
		for _, r := range chosen.remarks {
			a.say("%s", r)
		}
		all, first, err := shadows(f.rings)
		if err != nil {
			a.say("accesses are not recorded: %v", err)
			f.on[setting.Regions] = false
			return nil, "", nil
		}
		m := &memory{close: all.Close}
		ring := regions.Of(first)
		m.start = func(tables func() []*find.Entry) job.Heat {
			begun := time.Now()
			m.recorder = m.record(ring, f.window, begun, tables)
			return images.Start(first, func(s *heat.Shadow, _ int) images.Image {
				if s == first {
					return m.recorder
				}
				return m.record(regions.Of(s), f.window, begun, tables)
			})
		}
		if f.audit {
			m.audit = audit.New(ring)
		}
		return m, all.Path(), nil
	}
	return nil, "", nil
}

// shadows are those that touched memory is noted in.
func (f *runFlags) shadows() (*heat.Shadows, error) {
	if f.on[setting.Allocs] {
		return heat.NamedWithBlocks(f.heat)
	}
	return heat.Named(f.heat)
}

// rings are shadows that have them.
func (f *runFlags) rings() (*heat.Shadows, error) {
	all, err := regions.New()
	if err != nil {
		return nil, err
	}
	err = regions.Prepare(all, regions.Beginning{Turns: f.on[setting.Control], Waits: f.window.After > 0, Times: f.times})
	if err != nil {
		all.Close()
	}
	return all, err
}

// shadows are those of all programs that run in the process, one after the other, and of the first.
func shadows(make func() (*heat.Shadows, error)) (all *heat.Shadows, first *heat.Shadow, err error) {
	if all, err = make(); err != nil {
		return nil, nil, err
	}
	if first, err = all.Shadow(0); err != nil {
		all.Close()
	}
	return all, first, err
}

// runAudited runs a program that is traced. If it cannot be, it says so, and the program runs.
func (a *app) runAudited(m *memory, p *launch.Program, env []string, watch func(int)) (launch.Result, error) {
	m.recorder.Compare(m.audit)
	result, err := launch.RunHeld(p, env, func(pid int, execute func() error) error {
		return m.audit.Start(pid, execute, m.recorder.Take, launch.Hold())
	}, watch)
	if err == nil {
		return result, nil
	}
	if !errors.Is(err, ptrace.ErrNotExecuted) { // Run says why
		a.say("accesses are not compared with protected pages: %v", err)
	}
	m.recorder.Compare(nil)
	return launch.Run(p, env, watch)
}

// uncounted runs the program as if hotspots were not there, after it has said
// why. Of a program that the kernel most likely refuses it is said only if it
// has run.
func (a *app) uncounted(p *launch.Program, why error) error {
	if !p.Doubtful {
		a.say("nothing is counted: %v", why)
	}
	result, err := launch.Run(p, launch.Variables(), nil)
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

// prepare makes everything ready that counting needs, and the program's environment.
// An error means that the program cannot be counted.
func (f *runFlags) prepare(p *launch.Program, carried *launch.Carried, memory string) (*job.Job, []string, error) {
	if p.Why != "" && !p.Outside {
		return nil, nil, errors.New(p.Why)
	}
	library, err := "", error(nil)
	if !p.Outside || f.on[setting.FollowExec] {
		library, err = launch.UserLibrary(f.library, carried)
	}
	if err != nil {
		return nil, nil, err
	}
	j := &job.Job{Summary: f.summary, Many: f.on[setting.FollowExec], Fold: f.fold, Agent: f.on[setting.Control], Copies: f.on[setting.Cache] && f.on[setting.TextCopies]}
	if _, err := rand.Read(j.ID[:]); err != nil {
		return nil, nil, err
	}
	binary.LittleEndian.PutUint32(j.ID[len(j.ID)-4:], uint32(os.Getpid())) // layout.HdrRunID
	if j.Output, err = outputPattern(f.output); err != nil {
		return nil, nil, err
	}
	j.Note = notePath(j.ID[:])
	settings := map[setting.ID]string{
		setting.Output: j.Output, setting.Note: j.Note, setting.RunID: hex.EncodeToString(j.ID[:]),
		setting.Objects: f.objects, setting.Only: f.only, setting.Skip: f.skip,
		setting.Threshold: f.threshold, setting.Translator: f.translator, setting.BlocksOf: f.blocksOf,
		setting.Overhead: f.overhead,
		setting.Listen:   f.listen, setting.Linger: "", setting.Hotspots: "", setting.Heat: memory, setting.Region: f.regions, setting.Outside: "",
	}
	f.on.Values(settings, func(*setting.Setting) bool { return true })
	if f.on[setting.FollowExec] {
		settings[setting.Outside] = outsidePath(j.Note)
	}
	// The program may give others another home, and its own files there.
	if dir, named := job.PlansDir(); f.on[setting.Cache] && dir != "" && (named || f.on[setting.FollowExec]) {
		settings[setting.Cache] = dir
	}
	if f.listen != "" {
		settings[setting.Linger] = f.linger.String()
		if settings[setting.Hotspots], err = os.Executable(); err != nil {
			return nil, nil, err
		}
	}
	if library == "" {
		around := setting.All[setting.Outside].Variable + "=" // of a run around this one, who would be told
		return j, slices.DeleteFunc(launch.Variables(), func(v string) bool { return strings.HasPrefix(v, around) }), nil
	}
	return j, launch.Environ(launch.Variables(), library, p.Preload, settings), nil
}
