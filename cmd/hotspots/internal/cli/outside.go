package cli

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/attach"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/setting"
)

// Programs that load no library of ours, static ones and those of musl, are attached to in front
// of their first instruction.

// byLibraryOnly are the settings that need the library, or what it leaves beside the program.
var byLibraryOnly = []setting.ID{
	setting.Trips, setting.AllowTraps, setting.Translator, setting.PerfMap, setting.Heat,
	setting.Regions, setting.Overhead,
}

// takesLibrary is the flag of one that does, or empty.
func (f *runFlags) takesLibrary() string {
	asked := map[setting.ID]bool{setting.Translator: f.translator != "", setting.Heat: f.heat != "", setting.Overhead: f.overhead != ""}
	for _, id := range byLibraryOnly {
		if asked[id] || f.on[id] {
			return "--" + setting.All[id].Flag
		}
	}
	if f.on[setting.Blocks] && f.blocksOf == setting.BlocksHot {
		return "--" + setting.All[setting.Blocks].Flag + "=" + setting.BlocksHot
	}
	return ""
}

// outside is the request to count such programs.
func (a *app) outside(f *runFlags, j *job.Job) (*attach.Request, error) {
	blob, err := a.blob()
	if err != nil {
		return nil, err
	}
	r := &attach.Request{Output: j.Output, Blob: blob, RunID: j.ID, Args: f.on[setting.Args], FollowsExec: f.on[setting.FollowExec]}
	if r.Options, err = planOptions(f.objects, f.only, f.skip, f.threshold); err != nil {
		return nil, err
	}
	for _, id := range []setting.ID{setting.Lock, setting.KeepCalls} {
		r.Options.On[id] = f.on[id]
	}
	return r, chooseBlocks(&r.Options, &f.on, f.blocksOf)
}

// startCounted has a program counted that has not begun, and its counts served.
func (a *app) startCounted(f *runFlags, r *attach.Request, p *launch.Program, pid int, process *ptrace.Process) error {
	e, err := openEndpoint(f.listen, f.linger, p.Path, pid)
	remark, comes := listen.Remark(err)
	if remark != "" {
		a.say("%s", remark)
	}
	if !comes {
		e = nil
	}
	r.Pid, r.Listen = pid, e.Listens()
	result, err := attach.Start(r, process)
	if err != nil {
		e.Forget()
		return err
	}
	a.sayByCall(result)
	if e != nil {
		a.startEndpoint(e, result.Table, result.Nonce)
	}
	return nil
}

// firstOutside is the request for the program that is run, or why that cannot be counted.
func (a *app) firstOutside(f *runFlags, p *launch.Program, j *job.Job) (*attach.Request, error) {
	if flag := f.takesLibrary(); flag != "" {
		return nil, fmt.Errorf("%s, and %s takes one", p.Why, flag)
	}
	r, err := a.outside(f, j)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Why, err)
	}
	r.Inherits = true
	return r, nil
}

// followAll begins to count what is executed that takes no library, if it shall be.
func (a *app) followAll(f *runFlags, j *job.Job) (end func()) {
	if !f.on[setting.FollowExec] || f.takesLibrary() != "" {
		return func() {}
	}
	r, err := a.outside(f, j)
	if err == nil {
		var follows *attach.Follower
		r.Companion = a.companion(r.Options)
		if follows, err = attach.Follow(outsidePath(j.Note), r, launch.Hold, a.say); err == nil {
			return func() { follows.End(); r.Companion.End() }
		}
		r.Companion.End()
	}
	a.say("programs that load no library are not followed: %v", err)
	return func() {}
}

// runOutside runs such a program, counted from its first instruction on if that can be. Else
// it says so; or, if the user is strict, nothing runs.
func (a *app) runOutside(f *runFlags, r *attach.Request, p *launch.Program, env []string, watch func(int)) (result launch.Result, counted bool, err error) {
	var ended *ptrace.Ended
	isStrict := f.on[setting.Strict]
	r.Companion = a.companion(r.Options)
	defer func() { r.Companion.End() }()
	result, err = launch.RunHeld(p, env, func(pid int, execute func() error) error {
		told := false
		process, err := ptrace.Execute(pid, func() error { told = true; return execute() })
		if err == nil {
			err = a.startCounted(f, r, p, pid, process)
			if err != nil && !errors.As(err, &ended) && isStrict {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			process.Release()
		}
		counted = err == nil
		if counted || isStrict || !told || errors.Is(err, ptrace.ErrNotExecuted) || ended != nil {
			return err
		}
		a.say("nothing is counted: %v", err) // it runs already
		return nil
	}, watch)
	switch {
	case err == nil:
		return result, counted, nil
	case ended != nil: // as for want of a library
		a.say("nothing is counted: %v", err)
		return launch.ResultOf(r.Pid, syscall.WaitStatus(ended.Status)), false, nil
	case errors.Is(err, ptrace.ErrNotExecuted): // Run says why
	case isStrict:
		return result, false, fmt.Errorf("not run, as --strict says: %w", err)
	default:
		a.say("nothing is counted: %v", err)
	}
	result, err = launch.Run(p, env, nil)
	return result, false, err
}

// outsidePath is where a run listens: beside the note.
func outsidePath(note string) string { return note + ".outside" }
