// Package resume goes on with a run whose program was started before the Go runtime
// (launch.Started), as soon as what it needs is initialised: the packages that serve
// metrics or read flags take longer for that than a short program runs. Go initialises
// a package when all that it imports are, in the order of their names, so that those
// which nothing here needs come after it, mostly.
package resume

import (
	"os"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/narrow"
	"github.com/dynprof/dynprof/internal/setting"
)

func init() {
	if e := launch.Started(); e != nil {
		os.Exit(run(e))
	}
}

// failure is the status of `hotspots run` if it is not the program's.
const failure = 125

func run(e *launch.Early) (status int) {
	j := &job.Job{
		ID: e.ID, Output: e.Output, Note: e.Note, Summary: e.Summary, Mangled: e.Mangled, Width: narrow.Width(syscall.Stderr),
		Agent: e.On[setting.Control], Copies: e.On[setting.Cache] && e.On[setting.TextCopies], Messages: stderr{},
	}
	j.Expect(e.Path, e.Pid)
	r, err := e.Resume(j.Watch)
	if err != nil {
		job.Say(stderr{}, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return failure
	}
	if counted := j.Finish(e.Path, r); !counted && e.On[setting.Strict] {
		return failure
	}
	return r.Status()
}

// stderr is that of the process. To write to a closed pipe is an error; of os.Stderr it
// would be the end, unless package os/signal has a thread for it.
type stderr struct{}

func (stderr) Write(b []byte) (int, error) { return syscall.Write(syscall.Stderr, b) }
