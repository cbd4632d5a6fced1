// Package find says which count tables there are: in directories, and which one a
// process counts into.
package find

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// Entry is a table on disk, not opened.
type Entry struct {
	layout.Header
	Path     string
	Status   alive.Status
	Paused   bool // it runs, and its calls are not counted at the moment
	Held     bool // some process may have it open or mapped
	Blocks   int64
	Modified time.Time
	Folded   []layout.Folded // the processes whose counts it has, where tables were folded into one
}

// Stat looks at one table. One that is still being built is no error.
func Stat(path string) (*Entry, error) {
	t, err := file.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	fi, err := t.OS().Stat()
	if err != nil {
		return nil, err
	}
	if err := t.ReadHead(); err != nil && !errors.Is(err, layout.ErrBuilding) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e := &Entry{
		Header: t.Header, Path: path, Status: alive.Of(t), Held: true,
		Blocks: fi.Sys().(*syscall.Stat_t).Blocks * 512, Modified: fi.ModTime(),
	}
	if e.Folded, err = t.Folded(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.Status == alive.Running {
		paused, err := t.U32(layout.HdrPaused)
		e.Paused = err == nil && paused != 0
	} else {
		held, known := t.Held()
		e.Held = held || !known
	}
	if e.State != layout.StateLive {
		e.Realtime = e.Modified // the header may not be there yet
	}
	return e, nil
}

// OfRun tells whether a file may be a table of a run, at less cost than Stat: there may
// be thousands beside it.
func OfRun(path string, run [16]byte) bool {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err == syscall.EAGAIN // another reader asks whether it is in use (file.Open)
	}
	defer syscall.Close(fd)
	var id [16]byte
	n, err := syscall.Pread(fd, id[:], layout.HdrRunID)
	return err == nil && n == len(id) && id == run
}

// Own is the table at path if it is one of a run, and no copy: that says nothing that
// its table does not. Whether its program still runs is not looked at.
func Own(path string, run [16]byte) *Entry {
	t, err := file.OpenHead(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer t.Close()
	if t.RunID != run || !t.Header.Snapshot.IsZero() {
		return nil
	}
	folded, err := t.Folded()
	if err != nil {
		return nil
	}
	return &Entry{Header: t.Header, Path: path, Held: true, Folded: folded}
}

// WithNonce is the table of that nonce; nil: there is none of them, or it is 0.
func WithNonce(all []*Entry, nonce [16]byte) *Entry {
	if i := slices.IndexFunc(all, func(e *Entry) bool { return e.Nonce == nonce }); i >= 0 && nonce != [16]byte{} {
		return all[i]
	}
	return nil
}

// Unfolded is all without those whose counts are in another of them: who folded them was
// killed before they were removed (edit.Fold).
func Unfolded(all []*Entry) []*Entry {
	type table struct{ run, nonce [16]byte }
	folded := map[table]bool{}
	for _, e := range all {
		for i := range e.Folded {
			if n := e.Folded[i].Nonce; n != e.Nonce {
				folded[table{e.RunID, n}] = true
			}
		}
	}
	if len(folded) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(e *Entry) bool { return folded[table{e.RunID, e.Nonce}] })
}

// Has reports whether the table has the counts of a process with that number.
func (e *Entry) Has(pid uint32) bool {
	return e.Pid == pid || slices.ContainsFunc(e.Folded, func(d layout.Folded) bool { return d.Pid == pid })
}

// List returns the tables in the directories, newest first. Files that are no
// tables are left out.
func List(dirs ...string) ([]*Entry, error) {
	var all []*Entry
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			if !f.Type().IsRegular() || !strings.HasSuffix(f.Name(), tabledir.Ext) {
				continue
			}
			if e, err := Stat(filepath.Join(dir, f.Name())); err == nil {
				all = append(all, e)
			}
		}
	}
	all = Unfolded(all)
	slices.SortStableFunc(all, func(a, b *Entry) int { return b.Realtime.Compare(a.Realtime) })
	return all, nil
}

// MappedBy returns the path of the table that process pid counts into, found
// among its mappings; empty if there is none, or it is not ours to see.
func MappedBy(pid int) string {
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil {
		return ""
	}
	seen := map[string]bool{}
	for i := range maps {
		m := &maps[i]
		if !m.Shared || m.Path == "" || seen[m.Path] { // a program maps its table shared
			continue
		}
		seen[m.Path] = true
		if e, err := Stat(m.Path); err == nil && e.State == layout.StateLive {
			return e.Path
		}
	}
	return ""
}

// Below returns the path of the table that a process counts into which pid has made, or
// one that has made that, the nearest first; empty if there is none.
func Below(pid int) string {
	const most = 1000 // processes, of a whole session perhaps
	next := children(pid)
	for i := 0; i < len(next) && i < most; i++ {
		if path := MappedBy(next[i]); path != "" {
			return path
		}
		next = append(next, children(next[i])...)
	}
	return ""
}

// children are the processes that pid has made (proc_tid_children(5)).
func children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range tasks {
		b, err := procfile.Read(file)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
