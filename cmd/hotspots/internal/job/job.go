// Package job is what a counted run does besides running the program: it looks at the
// program meanwhile, notes its end in the tables that it has left, and shows what was
// called most.
//
// It needs no package that takes long to start (package main).
package job

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/code"
	"github.com/dynprof/dynprof/internal/table/control"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// Job is a run that is counted.
type Job struct {
	ID       [16]byte
	Output   string             // value of setting.Output: %e and %p are left in it
	Note     string             // path of setting.Note, empty if there is no place for it
	Summary  int                // so many functions are shown at the end
	Mangled  bool               // with their names as they are in the file
	Name     func(*table.Table) // names those that have no name; may be nil
	Width    int                // columns of the terminal that Messages goes to; 0: it is none
	Many     bool               // programs that the program executes have tables of their own
	Fold     int                // of a program that has more of them they are folded into one; 0: they stay
	Agent    bool               // a process beside the program has the table open
	Copies   bool               // copies of text are kept
	Heat     Heat               // nil: touched memory is not noted
	Times    Times              // nil: CPU time is not sampled
	Messages io.Writer

	// Check, if it is not nil, is given the tables when the program has ended, and, of one
	// that runs for longer, once before. It reports whether they are as the user wanted them.
	Check func(paths []string, ended bool) bool

	expected string      // path of the table, if it got the name that it gets mostly
	code     code.Memory // of the program's first process
	begun    time.Time   // when the program was looked at first
	folding  folding
	checked  bool // Check was called before the end
	wrong    bool // what it said last is no
}

// Times samples the program's CPU time, and writes it beside its tables (package selftime,
// which takes long to start).
type Times interface {
	// Watch has it written now and then, beside the tables that there are then.
	Watch(tables func() []*find.Entry)
	// Stop ends the sampling.
	Stop()
	// Write writes it beside all tables of the run.
	Write(tables []*find.Entry) error
}

// Heat has the pages that the program touches (package harvest).
type Heat interface {
	// Watch tells the number of the program, while that runs.
	Watch(pid int)
	// Stop ends looking for more.
	Stop()
	// Write writes them beside a table, whose nonce is given.
	Write(table string, nonce [16]byte) error
}

// checkAfter is how long a program runs before Check does not wait for its end.
const checkAfter = time.Second

// Watch looks at the program while it runs.
func (j *Job) Watch(pid int) {
	if j.code == nil {
		j.code, j.begun = code.Memory{}, time.Now()
	}
	j.code.See(pid)
	if j.Heat != nil {
		j.Heat.Watch(pid)
	}
	j.foldNow()
	if j.Check != nil && !j.checked && time.Since(j.begun) > checkAfter {
		j.checked = j.check(j.named(strconv.Itoa(pid)), false)
	}
}

// check has the tables that are complete checked, if there are any.
func (j *Job) check(all []*find.Entry, ended bool) bool {
	var paths []string
	for _, e := range all {
		if e.State == layout.StateLive {
			paths = append(paths, e.Path)
		}
	}
	if j.Check == nil || len(paths) == 0 {
		return false
	}
	j.wrong = !j.Check(paths, ended)
	return true
}

// WatchTimes has times written while the program, which is at that path, runs.
func (j *Job) WatchTimes(path string, pid int) {
	if j.expected == "" {
		j.Expect(path, pid)
	}
	j.Times.Watch(func() []*find.Entry { return j.tables(path, pid) })
}

// say writes a message: one line, whatever the names in it hold.
func (j *Job) say(format string, args ...any) { Say(j.Messages, format, args...) }

// Say writes a message: one line, whatever the names in it hold.
func Say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "hotspots: %s\n", symname.Clean(fmt.Sprintf(format, args...)))
}

// said reports whether the library has told the user why it counts nothing.
func (j *Job) said() bool { return os.Remove(j.Note) == nil }

// agentPatience is how long run waits for the agent of a program that has ended.
// Where a child of the program lives on, so does the agent, and run does not wait.
const agentPatience = 3 * time.Second

// Finish notes the end of the program, which was at that path, in the tables and shows
// the summary. It reports whether what the user wanted was counted.
func (j *Job) Finish(path string, r launch.Result) bool {
	if j.Times != nil {
		j.Times.Stop()
	}
	if j.Heat != nil {
		j.Heat.Stop()
	}
	all, said := j.tables(path, r.Pid), j.said()
	if len(all) == 0 {
		if !said {
			j.say("nothing was counted: %s left no count table", path)
		}
		return false
	}
	if j.Agent { // while it has the table open, that cannot be made compact
		control.AwaitAgent(all[len(all)-1].Path, agentPatience)
	}
	// Of several of one process, exec ended all but the last.
	for _, e := range slices.Backward(all) {
		if int(e.Pid) == r.Pid {
			if err := j.noteEnd(e.Path, r); err != nil {
				j.say("%v", err)
			}
			break
		}
	}
	if j.foldLast(all) {
		all = j.tables(path, r.Pid)
	}
	compact(all)
	if j.Copies {
		j.fillCopies()
	}
	var before []*find.Entry
	if n := len(all); !j.Many && n > 1 { // the program went on as others: the last one did the work
		before, all = all[:n-1], j.inItsPlace(all)
	}
	if j.Heat != nil {
		for _, e := range slices.Concat(all, before) {
			if err := j.Heat.Write(e.Path, e.Nonce); err != nil {
				j.say("%v", err)
			}
		}
	}
	if j.Times != nil {
		if err := j.Times.Write(slices.Concat(before, all)); err != nil {
			j.say("no CPU time is shown: %v", err)
		}
	}
	if j.Summary > 0 {
		if err := j.summarize(all); err != nil {
			j.say("no summary: %v", err)
		}
		j.tellBefore(before)
	}
	j.check(all, true)
	return !j.wrong
}

// inItsPlace is the last of the tables, which gets the name that the user gave, if that is
// one's for all programs.
func (j *Job) inItsPlace(all []*find.Entry) []*find.Entry {
	last := all[len(all)-1]
	named := strings.Contains(strings.ReplaceAll(j.Output, "%%", ""), "%e")
	for _, e := range all {
		if e.Path == j.expected && !named && exchange(e.Path, last.Path) {
			exchangeBeside(e.Path, last.Path)
			e.Path, last.Path = last.Path, e.Path
			break
		}
	}
	return []*find.Entry{last}
}

// exchange gives each of two files the other's name. Both have one at each moment.
func exchange(a, b string) bool {
	aside := b + "~"
	if os.Link(a, aside) != nil {
		return false
	}
	if os.Rename(b, a) != nil {
		os.Remove(aside)
		return false
	}
	return os.Rename(aside, b) == nil
}

// exchangeBeside does that with what lies beside two tables, if anything does.
func exchangeBeside(a, b string) {
	for _, beside := range []func(string) string{heat.PathOf, heat.AllocsPath, regions.PathOf} {
		a, b := beside(a), beside(b)
		_, noA := os.Lstat(a)
		_, noB := os.Lstat(b)
		switch {
		case noA == nil && noB == nil:
			exchange(a, b)
		case noA == nil:
			os.Rename(a, b)
		case noB == nil:
			os.Rename(b, a)
		}
	}
}

// tellBefore says which programs ran in the place of the one that is shown, before it.
func (j *Job) tellBefore(all []*find.Entry) {
	const shown = 3
	for i, e := range all {
		if i == shown {
			j.say("and %d more", len(all)-shown)
			break
		}
		j.say("before that it was %s: hotspots report %s", filepath.Base(e.Program), e.Path)
	}
}

// compact makes all tables compact. A file system may take some milliseconds to let go of
// each large one, and mostly waits.
func compact(all []*find.Entry) {
	const atATime = 16
	var group sync.WaitGroup
	turns := make(chan struct{}, atATime)
	for _, e := range all {
		if len(e.Folded) > 0 {
			continue // it was written so
		}
		turns <- struct{}{}
		group.Go(func() {
			edit.Compact(e.Path) // an error means that it stays as it is: others count into it, or there is no room
			<-turns
		})
	}
	group.Wait()
}

func (j *Job) noteEnd(path string, r launch.Result) error {
	end := layout.Ended{Kind: layout.EndedExit, Code: uint32(r.Code), Time: time.Now(), Transfers: r.Transfers}
	if r.Signal != 0 {
		end.Kind, end.Code = layout.EndedSignal, uint32(r.Signal)
	}
	var seen error
	if j.code != nil {
		seen = code.Note(path, j.code)
	}
	return errors.Join(seen, edit.MarkEnded(path, end))
}

// open opens a table. What was called most in several together need not be what was
// called most in one of them.
func (j *Job) open(path string, alone bool) (t *table.Table, err error) {
	if alone && j.Times == nil { // which functions took most time is not told by their calls
		t, err = table.OpenMost(path, j.Summary)
	} else {
		t, err = table.Open(path)
	}
	if err == nil && j.Name != nil {
		j.Name(t)
	}
	return t, err
}

// summarize shows the functions called most, of all tables together.
func (j *Job) summarize(all []*find.Entry) error {
	var tables []*table.Table
	for _, e := range all {
		t, err := j.open(e.Path, len(all) == 1)
		if err != nil {
			return err
		}
		defer t.Close()
		if !slices.ContainsFunc(tables, func(have *table.Table) bool { return have.Nonce == t.Nonce }) { // somebody has copied it
			tables = append(tables, t)
		}
	}
	most := j.Summary
	if j.Times != nil {
		most = 0
	}
	r, err := report.New(tables, report.Options{Mangled: j.Mangled, Most: most})
	if err != nil {
		return err
	}
	r.WithTimes()
	r.Sort(r.DefaultOrder())
	r.Top(j.Summary)
	if err := r.Text(j.Messages, report.Style{Width: j.Width}); err != nil {
		return err
	}
	if err := r.ProgramsText(j.Messages, j.Summary, report.Style{Width: j.Width}); err != nil {
		return err
	}
	hint := all[0].Path
	if len(all) > 1 {
		hint = "--run " + hint
	}
	j.say("more with: hotspots report %s", hint)
	return nil
}
