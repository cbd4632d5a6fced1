package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/attach"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/textfile"
	"github.com/dynprof/dynprof/patcher"
)

type attachFlags struct {
	output, objects, only, skip string
	thresholds                  []string
	listen                      string
	lasts, linger               time.Duration
	blocksOf                    string // value of --blocks, if it has one
	on                          setting.Switches
}

func (a *app) attachCommand() *cobra.Command {
	f := attachFlags{}
	cmd := &cobra.Command{
		Use:   "attach [flags] PID",
		Short: "Count the calls of a program that runs already",
		Long: "Count every call of a process's functions from now on, without starting it again, into a table, which report reads. " +
			"It is stopped for some milliseconds. hotspots detach gives it back what it was.\n\n" +
			"What is not attached to, with the reason and status 1: programs that somebody traces, with a seccomp filter that does more than refuse system calls, with a Go runtime and a libc, of 32 bits. Programs in containers are attached to from outside. " +
			"Libraries that it loads from then on are counted with --for; else report names them, and a second attach has them counted. See docs/attach.md.\n\n" +
			"NAMES and GLOBS are those of hotspots run.",
		Example: "  hotspots attach 4711\n  hotspots attach --for 30s 4711      count for half a minute, and report\n  hotspots report 4711; hotspots detach 4711\n" +
			"  hotspots attach --for 1m --listen 9464 4711",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.attach(&f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write the counts to `FILE`, or add them to those that it has of an earlier attach; it may have %e, %p, %h, %t")
	flags.StringVar(&f.objects, "objects", "", "count the functions of these `GLOBS` of objects")
	flags.StringVar(&f.only, "only", "", "count the functions of these `NAMES` only")
	flags.StringVar(&f.skip, "skip", "", "leave out the functions of these `NAMES`")
	flags.StringArrayVar(&f.thresholds, setting.All[setting.Threshold].Flag, nil, setting.All[setting.Threshold].Help)
	flags.BoolVar(&f.on[setting.Edges], setting.All[setting.Edges].Flag, false, "count direct calls by who makes them, too, as hotspots calls shows them; with --blocks those by pointers as well")
	blocks := flags.VarPF(&blocksValue{&f.on[setting.Blocks], &f.blocksOf}, setting.All[setting.Blocks].Flag, "", "count how often each basic block runs, too, as hotspots annotate shows it; or only in the functions of these `NAMES`: globs, separated by commas")
	blocks.NoOptDefVal = "all"
	flags.BoolVar(&f.on[setting.Control], setting.All[setting.Control].Flag, false, "with --blocks: hotspots pause and resume do for them, too, which costs some more")
	flags.DurationVar(&f.lasts, "for", 0, "detach after this `TIME`, as 30s, and report")
	flags.StringVar(&f.listen, setting.All[setting.Listen].Flag, "", "serve the counts for Prometheus at this `ADDRESS` as long as there are more: IP:PORT, PORT, unix:PATH; see docs/listen.md")
	flags.DurationVar(&f.linger, setting.All[setting.Linger].Flag, listen.DefaultLinger, "then wait this `time` for a last scrape")
	return cmd
}

func (a *app) detachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "detach PID",
		Short: "End what hotspots attach has begun",
		Long: "Give a process its code, its signal handlers and its memory back, as they were before hotspots attach. " +
			"The table stays. Children that it has made meanwhile are processes of their own: detach from each.",
		Example: "  hotspots detach 4711",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.detach(args[0]) },
	}
}

func processOf(arg string) (int, error) {
	pid, err := strconv.ParseUint(arg, 10, 31)
	if err != nil || pid == 0 {
		return 0, usage("%q is no number of a process", arg)
	}
	return int(pid), nil
}

// blob is the code to attach.
func (a *app) blob() (*attach.Blob, error) {
	if len(a.resident) == 0 {
		return nil, errors.New("this hotspots was built without the code to attach: build it with make")
	}
	return attach.NewBlob(a.resident)
}

func (f *attachFlags) request(pid int, blob *attach.Blob) (r *attach.Request, err error) {
	output := ""
	replaces := f.output != "" && !varies(f.output)
	if f.output != "" {
		output, err = named(f.output)
	}
	if err == nil && replaces {
		err = mayReplace(plain(output))
	}
	if err != nil {
		return nil, err
	}
	if f.listen != "" {
		if _, err := listen.Parse(f.listen); err != nil {
			return nil, usage("--listen: %w", err)
		}
	}
	if f.linger < 0 {
		return nil, usage("--linger %v: it is 0s or more", f.linger)
	}
	r = &attach.Request{Pid: pid, Output: output, Replaces: replaces, Blob: blob}
	if r.Options, err = planOptions(f.objects, f.only, f.skip, strings.Join(f.thresholds, ";")); err != nil {
		return nil, err
	}
	return r, chooseBlocks(&r.Options, &f.on, f.blocksOf)
}

// planOptions are those of a plan that is made here.
func planOptions(objects, only, skip, threshold string) (o patcher.Options, err error) {
	o.Threshold = &symname.Thresholds{}
	if threshold != "" {
		if o.Threshold, err = symname.ParseThresholds(threshold); err != nil {
			return o, usage("--threshold: %w", err)
		}
	}
	if objects != "" {
		if o.Objects, err = symname.ParseObjects(objects); err != nil {
			return o, usage("--objects: %w", err)
		}
	}
	for flag, names := range map[string]struct {
		text string
		to   **symname.Names
	}{"only": {only, &o.Only}, "skip": {skip, &o.Skip}} {
		if names.text == "" {
			continue
		}
		if *names.to, err = symname.ParseNames(names.text, textfile.Read); err != nil {
			return o, usage("--%s: %w", flag, err)
		}
	}
	return o, nil
}

// chooseBlocks adds to the options of a plan that is made here what it says of calls and blocks.
func chooseBlocks(o *patcher.Options, on *setting.Switches, of string) (err error) {
	for _, id := range []setting.ID{setting.Blocks, setting.Edges, setting.Control} {
		o.On[id] = on[id]
	}
	switch of {
	case "":
	case setting.BlocksHot:
		return usage("--blocks=%s: only hotspots run has that, of programs that load its library", of)
	default:
		if o.BlocksOf, err = symname.ParseGlobs(of, textfile.Read); err != nil {
			return usage("--blocks: %w", err)
		}
	}
	return nil
}

func (a *app) attach(f *attachFlags, arg string) error {
	pid, err := processOf(arg)
	if err != nil {
		return err
	}
	blob, err := a.blob()
	if err != nil {
		return err
	}
	r, err := f.request(pid, blob)
	if err != nil {
		return err
	}
	var ended chan os.Signal
	if f.lasts > 0 {
		ended = make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(ended)
	}
	e, err := a.endpointFor(f, pid)
	if err != nil {
		return err
	}
	r.Listen = e.Listens()
	if f.lasts > 0 { // it stays beside the program
		r.Companion = a.companion(r.Options)
	}
	result, err := attach.Attach(r)
	if err != nil {
		r.Companion.End()
		e.Forget()
		return err
	}
	if result.Anew != nil {
		a.say("%v", result.Anew)
	}
	a.sayByCall(result)
	server := 0
	switch {
	case result.Added > 0:
		a.say("process %d is counted already; now with %s that it has loaded since: %s (%s, stopped for %s)", pid, figures.Count(uint64(result.Added), "object"), result.Table, figures.Count(uint64(result.Threads), "thread"), milliseconds(result.Pause))
		if e != nil {
			e.Forget()
			a.say("--listen: an endpoint begins where the program is attached to first")
		}
	default:
		a.say("process %d is counted%s: %s (%s, stopped for %s)%s", pid, map[bool]string{true: " again"}[result.GoesOn], result.Table, figures.Count(uint64(result.Threads), "thread"), milliseconds(result.Pause), atAddress(e))
		if e != nil {
			server = a.startEndpoint(e, result.Table, result.Nonce)
		}
	}
	if f.lasts == 0 {
		return nil
	}
	interrupted := awaitEnd(pid, f.lasts, ended)
	r.Companion.End()
	if err := a.detach(arg); err != nil && alive.Start(uint32(pid)) != 0 {
		return err
	}
	report := a.reportCommand()
	report.SetArgs([]string{result.Table})
	err = report.Execute()
	if server != 0 {
		awaitEndpoint(server, f.linger, ended, interrupted)
	}
	return err
}

// sayByCall says that blocks were asked for, and are not counted.
func (a *app) sayByCall(r *attach.Result) {
	if r.ByCall {
		a.say("its functions are counted by call, without blocks: it has a Go runtime")
	}
}

// companion plans what programs load later that are attached to; nil: nobody does.
func (a *app) companion(o patcher.Options) *attach.Companion {
	c, err := attach.Accompany(o)
	if err != nil {
		a.say("libraries that come later are not counted: %v", err)
		return nil
	}
	c.Fail = func(err error) { a.say("%v", err) }
	return c
}

// endpointFor opens the socket of --listen, before the process is touched.
func (a *app) endpointFor(f *attachFlags, pid int) (*listen.Endpoint, error) {
	program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // only for %e
	e, err := openEndpoint(f.listen, f.linger, program, pid)
	remark, comes := listen.Remark(err)
	if !comes {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if remark != "" {
		a.say("%s", remark)
	}
	return e, nil
}

// awaitEnd waits for a time, or until a process has ended, or a signal comes.
func awaitEnd(pid int, lasts time.Duration, signals <-chan os.Signal) (interrupted bool) {
	const tick = 100 * time.Millisecond
	start := alive.Start(uint32(pid))
	for end := time.Now().Add(lasts); start != 0 && time.Now().Before(end) && alive.Start(uint32(pid)) == start; {
		select {
		case <-signals:
			return true
		case <-time.After(min(tick, time.Until(end))):
		}
	}
	return false
}

func (a *app) detach(arg string) error {
	pid, err := processOf(arg)
	if err != nil {
		return err
	}
	blob, err := a.blob()
	if err != nil {
		return err
	}
	left, err := attach.Detach(pid, blob)
	if err != nil {
		return err
	}
	if left.Stays {
		a.say("process %d runs its own code again (stopped for %s); some memory of ours stays mapped, as a thread may come back to it: detach again later", pid, milliseconds(left.Pause))
		return nil
	}
	a.say("process %d is as it was (stopped for %s)", pid, milliseconds(left.Pause))
	return nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
