package exporter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// How often an endpoint of many programs looks for new tables at most, and
// whether the known ones are still counted into.
const lookEvery = time.Second

// host is the source of all tables in some directories.
type host struct {
	dirs   func() []string // looked up anew each time
	linger time.Duration   // how long programs that have ended are served
	opt    Options
	now    func() time.Time

	looked     time.Time
	known      map[string]*found // by path
	unreadable int
	duplicates int
	labels     map[[2]string]*found // of those that are served
}

// found is a table of a directory.
type found struct {
	p        *program // nil: its program ended long ago, or it is a copy
	inode    uint64
	modified time.Time
	ended    time.Time // zero: some process counts into it
	label    [2]string // program and pid
}

// NewHost returns the endpoint of all programs whose tables are in the
// directories that dirs lists. Programs that have ended are served for the time
// linger, so that the last counts are scraped.
func NewHost(dirs func() []string, linger time.Duration, opt Options) *Endpoint {
	return newEndpoint(&host{dirs: dirs, linger: linger, opt: opt, now: time.Now, known: map[string]*found{}}, opt)
}

func (h *host) many() bool { return true }

func (h *host) programs(f *families) ([]*program, error) {
	h.look()
	all := h.sorted()
	programs := make([]*program, 0, len(all))
	for _, t := range all {
		programs = append(programs, t.p)
	}
	f.tally(0, h.unreadable, h.duplicates)
	return programs, nil
}

// sorted are the tables that are served, in order of their labels.
func (h *host) sorted() []*found {
	var all []*found
	for _, t := range h.known {
		if t.p != nil {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *found) int { return slices.Compare(a.label[:], b.label[:]) })
	return all
}

// look brings known up to date.
func (h *host) look() {
	now := h.now()
	if now.Sub(h.looked) < lookEvery && !h.looked.IsZero() {
		return
	}
	h.looked, h.unreadable, h.duplicates = now, 0, 0
	there := map[string]bool{}
	for _, dir := range h.dirs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // gone, or not to be read: as good as empty
		}
		for _, e := range entries {
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), tabledir.Ext) {
				there[filepath.Join(dir, e.Name())] = true
			}
		}
	}
	for path, t := range h.known {
		if !there[path] {
			t.drop()
			delete(h.known, path)
		}
	}
	h.labels = map[[2]string]*found{}
	for _, t := range h.known {
		h.age(t, now)
		if t.p != nil {
			h.labels[t.label] = t
		}
	}
	for path := range there {
		h.meet(path, now)
	}
}

// age drops a table whose program has ended long ago.
func (h *host) age(t *found, now time.Time) {
	if t.p == nil {
		return
	}
	switch counting := alive.CountsInto(t.p.meter.File()); {
	case counting:
		t.ended = time.Time{}
	case t.ended.IsZero():
		t.ended = now
	}
	if !t.ended.IsZero() && now.Sub(t.ended) >= h.linger {
		t.drop()
	}
}

// meet opens a table that is new, or another file than before.
func (h *host) meet(path string, now time.Time) {
	fi, err := os.Lstat(path)
	if err != nil {
		return
	}
	inode := fi.Sys().(*syscall.Stat_t).Ino
	if t := h.known[path]; t != nil {
		if t.inode == inode && (t.p != nil || t.modified.Equal(fi.ModTime())) {
			return
		}
		t.drop()
		delete(h.known, path)
	}
	m, err := table.OpenMeter(path)
	if err != nil {
		if !errors.Is(err, layout.ErrBuilding) && !errors.Is(err, fs.ErrNotExist) {
			h.unreadable++
		}
		return
	}
	t := &found{inode: inode, modified: fi.ModTime(), label: labelsOf(m)}
	if !alive.CountsInto(m.File()) {
		t.ended = now
	}
	switch have := h.labels[t.label]; {
	case !m.Snapshot.IsZero(), m.File().Geometry.Folded.Count > 0, !t.ended.IsZero() && now.Sub(latest(fi.ModTime(), m.Ended.Time)) >= h.linger:
		m.Close() // known, and not looked at again
	case have != nil && (have.ended.IsZero() || !t.ended.IsZero()):
		h.duplicates++
		m.Close()
		return
	default:
		if have != nil { // the same process has executed its program again
			have.drop()
		}
		h.labels[t.label] = t
		t.p = newProgram(m, h.opt, pair("program", t.label[0]), pair("pid", t.label[1]))
	}
	h.known[path] = t
}

func (t *found) drop() {
	if t.p != nil {
		t.p.close()
		t.p = nil
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// labelsOf tell a program from every other of the host. A number of another pid
// namespace, a container's, has that behind it.
func labelsOf(m *table.Meter) [2]string {
	pid := strconv.FormatUint(uint64(m.Pid), 10)
	if own := alive.Identify(os.Getpid()).PidNS; m.PidNS != own {
		pid += "/" + strconv.FormatUint(m.PidNS, 10)
	}
	return [2]string{symname.Clean(m.Program), pid}
}

func (h *host) close() {
	for _, t := range h.known {
		t.drop()
	}
}
