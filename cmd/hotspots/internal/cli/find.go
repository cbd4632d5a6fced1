package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// locate returns the path of the table that an argument means: a process or a
// file.
func locate(arg string) (string, error) {
	if arg == "" {
		return "", errors.New("an empty name is no table: leave it out for the newest")
	}
	if pid, err := strconv.ParseUint(arg, 10, 31); err == nil {
		return byPid(uint32(pid))
	}
	return arg, nil
}

func newest() (string, error) {
	dirs := searchDirs(os.Getuid())
	all, err := find.List(dirs...)
	if err != nil {
		return "", err
	}
	for _, e := range all {
		if e.State == layout.StateLive && e.Status != alive.Copied {
			return e.Path, nil
		}
	}
	where := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	return "", fmt.Errorf("no count table in %s: count a program with hotspots run -- PROG, or name a table", where)
}

// byPid finds the table that a process counts into, or has counted into.
func byPid(pid uint32) (string, error) {
	if path := find.MappedBy(int(pid)); path != "" {
		return path, nil
	}
	if isHotspots(pid) { // which a shell's $! names
		if path := find.Below(int(pid)); path != "" {
			return path, nil
		}
	}
	uid := os.Getuid()
	if fi, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		uid = int(fi.Sys().(*syscall.Stat_t).Uid)
	}
	all, err := find.List(searchDirs(uid)...)
	if err != nil {
		return "", err
	}
	if e := lastOf(all, pid); e != nil {
		return e.Path, nil
	}
	return "", fmt.Errorf("no count table of process %d: see hotspots ls, or name the table's file (./%d if that is one)", pid, pid)
}

// lastOf is the table, of all, newest first, of the process that was the last to have the number:
// numbers come round. That may be a program, or hotspots run, whose end is noted in the table of the
// program that it has started.
func lastOf(all []*find.Entry, pid uint32) *find.Entry {
	var run *find.Entry
	for _, e := range all {
		switch {
		case e.State != layout.StateLive || e.Status == alive.Copied:
		case run == nil && e.Has(pid):
			return e
		case e.RunID != [16]byte{} && e.Runner() == pid && (run == nil || e.RunID == run.RunID && run.Ended.Kind == layout.EndedUnknown):
			run = e
		}
	}
	return run
}

// isHotspots reports whether a process is hotspots run. Any other may have made some that are
// counted, and does not count itself.
func isHotspots(pid uint32) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == "hotspots"
}

func searchDirs(uid int) []string {
	return tabledir.Search(os.Getenv("XDG_RUNTIME_DIR"), uid)
}

// onTable is what a command does that is about one table: do with that of the argument, or with
// the newest.
func (a *app) onTable(do func(*table.Table) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		tables, done, err := a.openAll(args, false)
		if err != nil {
			return err
		}
		defer done()
		return do(tables[0])
	}
}

// openAll opens the tables that the arguments mean. With run, all tables of
// the same run are added: those in the same directory and in the default ones.
func (a *app) openAll(args []string, run bool) (tables []*table.Table, closeAll func(), err error) {
	set := tableSet{by: map[[16]byte]*table.Table{}}
	closeAll = func() {
		for _, t := range set.tables {
			t.Close()
		}
	}
	if len(args) == 0 {
		path, err := newest()
		if err != nil {
			return nil, nil, err
		}
		args = []string{path}
	}
	for _, arg := range args {
		path, err := locate(arg)
		if err == nil {
			err = a.appendTable(&set, path, errSameProgram)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
	}
	// One that is gone by now was folded into another that was there before. Those that
	// are open stay.
	const most = 20
	again := run
	for look := 0; again && look < most; look++ {
		again = false
		for _, path := range ofRun(set.tables[0].RunID, append(searchDirs(os.Getuid()), filepath.Dir(set.tables[0].Path()))...) {
			err := a.appendTable(&set, path, nil) // one that cannot be read is not merged
			again = again || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EAGAIN)
		}
	}
	return set.tables, closeAll, nil
}

// tableSet is tables that are added up.
type tableSet struct {
	tables []*table.Table
	by     map[[16]byte]*table.Table // which has the calls of a table with that nonce
}

// errSameProgram refuses to add up a table and copies of it.
func errSameProgram(have, more *table.Table) error { return sameProgram(have.Path(), more.Path()) }

func sameProgram(have, more string) error {
	return fmt.Errorf("%s and %s are of one program: the later has the calls of the earlier, too, and they are not added up; see what is between them with: hotspots diff %s %s",
		have, more, have, more)
}

// appendTable opens the table unless it is open already. Of another one that has some of its
// calls it is an error what refuse makes of it.
func (a *app) appendTable(set *tableSet, path string, refuse func(have, more *table.Table) error) error {
	t, err := a.openTable(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: hotspots ls lists the tables that there are", err)
	}
	if err != nil {
		return err
	}
	nonces, err := t.Nonces()
	if err != nil {
		return errors.Join(err, t.Close())
	}
	for _, n := range nonces {
		have := set.by[n]
		if have == nil {
			continue
		}
		if refuse != nil && !sameFile(have.Path(), path) {
			err = refuse(have, t)
		}
		return errors.Join(err, t.Close())
	}
	for _, n := range nonces {
		set.by[n] = t
	}
	set.tables = append(set.tables, t)
	return nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// ofRun lists the tables in dirs that belong to a run; none to the run zero.
func ofRun(id [16]byte, dirs ...string) []string {
	all, err := find.List(dirs...)
	if err != nil || id == [16]byte{} {
		return nil
	}
	var paths []string
	for _, e := range all {
		if e.RunID == id && e.State == layout.StateLive {
			paths = append(paths, e.Path)
		}
	}
	return paths
}
