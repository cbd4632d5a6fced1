package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/perf"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/selftime"
	"github.com/dynprof/dynprof/internal/procfile"
)

// sample has the CPU time of the program that runs next on this thread sampled. Where the kernel
// refuses, a line says how to allow it, and all else is as ever.
func (a *app) sample(j *job.Job, p *launch.Program, hertz int) (watch func(pid int)) {
	err := mayAsk()
	var sampler *selftime.Sampler
	if err == nil {
		sampler, err = selftime.Start(hertz)
	}
	if err != nil {
		a.say("no CPU time is sampled: %v", err)
		return j.Watch
	}
	j.Times = sampler
	watching := false
	return func(pid int) {
		j.Watch(pid)
		if !watching {
			watching = true
			j.WatchTimes(p.Path, pid)
		}
	}
}

// probe is the command that tries what a sandbox's filter may kill for.
const probe = "perf-probe"

var errKills = errors.New("perf_event_open: a sandbox's filter kills who asks for it: allow it in the seccomp profile")

// mayAsk reports whether the kernel can be asked for perf events: a seccomp filter may kill
// who does, and the program would not run. So where one is in force another process asks first.
func mayAsk() error {
	status, err := procfile.Read("/proc/self/status")
	if err == nil && !strings.Contains(string(status), "\nSeccomp:\t2") {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	const patience = 10 * time.Second // one thread of it may be killed alone
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, probe)
	var exit *exec.ExitError
	if err = cmd.Run(); err == nil || errors.As(err, &exit) && exit.ExitCode() == exitFailure { // it was refused: so will we be
		return nil
	}
	return errKills
}

func (a *app) probeCommand() *cobra.Command {
	return &cobra.Command{
		Use: probe, Hidden: true, Short: "Ask for perf events, for hotspots run --time",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			runtime.LockOSThread()
			events, err := perf.Open(perf.UsualHertz)
			if err == nil {
				events.Close()
			}
			return err
		},
	}
}
