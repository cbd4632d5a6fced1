package job

import (
	"os"
	"path/filepath"
	"time"

	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
)

const (
	// UsualFold is how many tables of one program a run leaves, if not told otherwise.
	UsualFold = 16
	// foldEvery is how often it is looked for ended programs while the run goes on.
	foldEvery = 5 * time.Second
	// foldAge is how long nobody has written to a table that is folded while the run goes
	// on. Folded ones are not served: hotspots serve has had as long as it serves ended
	// programs.
	foldAge = time.Minute
)

// folding is the folding of ended short programs' tables beside a run that executes many:
// each takes hundreds of kilobytes, and a look at a directory goes through all.
type folding struct {
	last time.Time
	done chan struct{} // closed when the last one is; nil before the first
}

// folds reports whether tables of the run are folded: not if CPU times lie beside them.
func (j *Job) folds() bool { return j.Many && j.Fold > 0 && j.Times == nil }

// foldNow folds tables if it is time to, beside the program.
func (j *Job) foldNow() {
	if !j.folds() || j.folding.running() || time.Since(j.folding.last) < foldEvery {
		return
	}
	if j.folding.last = time.Now(); j.folding.done == nil && time.Since(j.begun) < foldAge {
		return
	}
	done := make(chan struct{})
	j.folding.done = done
	go func() {
		defer close(done)
		paths, _ := filepath.Glob(j.glob("*")) // the pattern is sound
		if len(paths) <= j.Fold {
			return
		}
		var old []string
		for _, path := range paths {
			fi, err := os.Stat(path)
			if err != nil {
				continue
			}
			if e := find.Own(path, j.ID); e != nil && (time.Since(fi.ModTime()) > foldAge || len(e.Folded) > 0) {
				old = append(old, path)
			}
		}
		edit.Fold(old, j.Fold+1) // what it leaves is folded at the end, or said then
		j.folding.last = time.Now()
	}()
}

func (f *folding) running() bool {
	if f.done == nil {
		return false
	}
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// foldLast folds the tables that the run has left. It reports whether there are fewer now.
func (j *Job) foldLast(all []*find.Entry) bool {
	if !j.folds() {
		return false
	}
	if j.folding.done != nil {
		<-j.folding.done
	}
	paths := make([]string, len(all))
	for i, e := range all {
		paths[i] = e.Path
	}
	gone, err := edit.Fold(paths, j.Fold+1)
	if err != nil {
		j.say("tables of short programs stay as they are: %v", err)
	}
	return gone > 0
}
