package job

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// tables lists the tables that the run has left, oldest first.
func (j *Job) tables(program string, pid int) []*find.Entry {
	if !j.Many {
		if j.expected == "" {
			j.Expect(program, pid)
		}
		if e := find.Own(j.expected, j.ID); e != nil && e.WentOn == 0 {
			return []*find.Entry{e}
		}
		if all := j.named(strconv.Itoa(pid)); len(all) > 0 { // of a script's interpreter, or another number
			return all
		}
	}
	return j.named("*")
}

// Tables lists those that the run has left by now, oldest first.
func (j *Job) Tables() []*find.Entry { return j.named("*") }

// named lists the tables of the run that have that in place of %p, oldest first.
func (j *Job) named(pid string) []*find.Entry {
	paths, err := filepath.Glob(j.glob(pid))
	if err != nil {
		return nil // "BUG": escapeGlob leaves no bad pattern
	}
	var all []*find.Entry
	for _, path := range paths {
		if !find.OfRun(path, j.ID) {
			continue
		}
		if e := find.Own(path, j.ID); e != nil {
			all = append(all, e)
		}
	}
	all = find.Unfolded(all)
	slices.SortStableFunc(all, func(a, b *find.Entry) int { return a.Realtime.Compare(b.Realtime) })
	return all
}

// Expect finds out which name the table of the program itself gets mostly, so that it is
// found at the end however many there are beside it. It can be done while that runs.
func (j *Job) Expect(program string, pid int) {
	file, err := filepath.EvalSymlinks(program)
	if err != nil {
		file = program
	}
	j.expected, _ = tabledir.Expand(j.Output, tabledir.Names{Program: file, Pid: pid}) // %t and %h are not in it any more
}

// glob is a pattern of all names that tables of the run may have, with that pid.
func (j *Job) glob(pid string) string {
	glob := strings.NewReplacer("%%", "%", "%e", "*", "%p", pid).Replace(escapeGlob(j.Output))
	if base, ok := strings.CutSuffix(glob, tabledir.Ext); ok {
		return base + "*" + tabledir.Ext // a number, where the name was taken
	}
	return glob + "*"
}

// escapeGlob makes a pattern that matches s alone.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
