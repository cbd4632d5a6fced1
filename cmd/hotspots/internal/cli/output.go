package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// outputPattern returns the value of DYNPROF_OUTPUT: absolute, with only %e,
// %p and %% left for the library, so that the tables can be found again.
func (f *runFlags) outputPattern() (string, error) {
	if f.output == "" {
		dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
		if err := tabledir.MakePrivate(dir); err != nil {
			return "", err
		}
		return filepath.Join(escapePercent(dir), tabledir.DefaultPattern), nil
	}
	pattern, err := expandEarly(f.output)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(pattern) {
		dir, err := os.Getwd()
		if err != nil {
			return "", err
		}
		pattern = filepath.Join(escapePercent(dir), pattern)
	}
	if !f.varies() {
		return pattern, makeWay(strings.ReplaceAll(pattern, "%%", "%"))
	}
	return pattern, nil
}

// varies reports whether the output's name depends on the program.
func (f *runFlags) varies() bool {
	plain := strings.ReplaceAll(f.output, "%%", "")
	return strings.Contains(plain, "%p") || strings.Contains(plain, "%e")
}

// expandEarly replaces %h and %t.
func expandEarly(pattern string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	// Doubling keeps %e, %p and %% through this expansion.
	kept := strings.NewReplacer("%%", "%%%%", "%e", "%%e", "%p", "%%p").Replace(pattern)
	return tabledir.Expand(kept, tabledir.Names{Host: host, Time: time.Now()})
}

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// makeWay removes an old table that the user names as output again. The
// library never writes over a file.
func makeWay(path string) error {
	if err := mayReplace(path); err != nil {
		return err
	}
	// Asked first: of a file that is not there, a kernel may say that the file
	// system is read-only.
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Remove(path)
}

// mayReplace refuses to write over what is no table, or one that is in use.
func mayReplace(path string) error {
	e, err := find.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("cannot create the count table: %w; choose another name with -o", err)
	case err != nil:
		return fmt.Errorf("-o would write over a file that is no count table: %w; remove it, or choose another name", err)
	case e.Status == alive.Running, e.Held && !free(path):
		return fmt.Errorf("-o %s: a running program counts into it; choose another name", path)
	}
	return nil
}

// free waits, not for long, until nobody counts into a table whose program has
// ended. Readers do not matter, nor does an agent that is about to go: what they
// have open stays as it is.
func free(path string) bool {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		counting, err := alive.Counting(path)
		if err != nil || !counting || time.Now().After(end) {
			return err == nil && !counting
		}
	}
}

// tables lists the tables that the run has left, oldest first.
func (j *job) tables() []*find.Entry {
	glob := strings.NewReplacer("%%", "%", "%e", "*", "%p", "*").Replace(escapeGlob(j.output))
	if base, ok := strings.CutSuffix(glob, tabledir.Ext); ok {
		glob = base + "*" + tabledir.Ext // a number, where the name was taken
	} else {
		glob += "*"
	}
	paths, err := filepath.Glob(glob)
	if err != nil {
		return nil // "BUG": escapeGlob leaves no bad pattern
	}
	var all []*find.Entry
	for _, path := range paths {
		if !find.OfRun(path, j.id) {
			continue
		}
		// A copy that was made meanwhile says nothing that its table does not.
		if e, err := find.Stat(path); err == nil && e.RunID == j.id && e.State == layout.StateLive && e.Status != alive.Copied {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *find.Entry) int { return a.Realtime.Compare(b.Realtime) })
	return all
}

// notePath is where the library leaves word that it counts nothing. In a user
// namespace the directory may be that of another user who is 0 outside; then it is a
// name that nobody can foresee.
func (j *job) notePath() string {
	dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if tabledir.MakePrivate(dir) != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "note."+hex.EncodeToString(j.id[:]))
}

// said reports whether the library has told the user why it counts nothing.
func (j *job) said() bool { return os.Remove(j.note) == nil }

// agentPatience is how long run waits for the agent of a program that has ended.
// Where a child of the program lives on, so does the agent, and run does not wait.
const agentPatience = 3 * time.Second

// finish notes the end in the tables and shows the summary. It reports whether
// anything was counted.
func (a *app) finish(f *runFlags, j *job, p *launch.Program, r launch.Result) bool {
	all, said := j.tables(), j.said()
	if len(all) == 0 {
		if !said {
			a.say("nothing was counted: %s left no count table", p.Path)
		}
		return false
	}
	end := layout.Ended{Kind: layout.EndedExit, Code: uint32(r.Code), Time: time.Now()}
	if r.Signal != 0 {
		end.Kind, end.Code = layout.EndedSignal, uint32(r.Signal)
	}
	if f.on[setting.Control] { // while it has the table open, that cannot be made compact
		control.AwaitAgent(all[len(all)-1].Path, agentPatience)
	}
	// Of several of one process, exec ended all but the last.
	for _, e := range slices.Backward(all) {
		if int(e.Pid) == r.Pid {
			j.mu.Lock()
			defer j.mu.Unlock()
			if err := errors.Join(code.Note(e.Path, j.code), edit.MarkEnded(e.Path, end)); err != nil {
				a.say("%v", err)
			}
			break
		}
	}
	for _, e := range all {
		edit.Compact(e.Path) // an error means that it stays as it is: others count into it, or there is no room
	}
	if f.summary > 0 {
		if err := a.summarize(all, f.summary); err != nil {
			a.say("no summary: %v", err)
		}
	}
	return true
}

// summarize shows the functions called most, of all tables together.
func (a *app) summarize(all []*find.Entry, n int) error {
	var paths []string
	for _, e := range all {
		paths = append(paths, e.Path)
	}
	tables, done, err := openAll(paths, false)
	if err != nil {
		return err
	}
	defer done()
	r, err := report.New(tables, report.Options{Mangled: a.noDemangle, Most: n})
	if err != nil {
		return err
	}
	r.Sort("calls")
	r.Top(n)
	if err := r.Text(a.stderr, report.Style{}); err != nil {
		return err
	}
	hint := paths[0]
	if len(paths) > 1 {
		hint = "--run " + hint
	}
	a.say("more with: hotspots report %s", hint)
	return nil
}
