package test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
)

// Copies of objects with their text changed, which are mapped (docs/architecture.md, "The
// plan cache").

// copiedProgram is a program that is large enough for that.
func copiedProgram(t *testing.T) string {
	t.Helper()
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "copied.c")
	return program
}

// copies are those that there are.
func (p *planned) copies() []string {
	list, _ := filepath.Glob(filepath.Join(p.home, "dynprof/plans/*.text")) // the pattern is sound
	return list
}

// TestCacheCopies: run --text-copies leaves copies, and with them a program does and counts what
// it does without.
func TestCacheCopies(t *testing.T) {
	lane.Parallel(t)
	program := copiedProgram(t)
	for _, way := range lane.Thin([][]string{nil, {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=100"}, {"DYNPROF_KEEP_CALLS=1"}}, 2) {
		t.Run(strings.Join(way, " "), func(t *testing.T) {
			p := newPlanned(t, cmd(program), "run", way...)
			p.warm(t)
			if len(p.copies()) == 0 {
				t.Fatal("there are no copies")
			}
			if _, err := os.Stat(strings.TrimSuffix(p.copies()[0], ".text") + ".plan"); err != nil {
				t.Error(err)
			}
			for _, how := range []string{"", "change", "fork"} {
				for _, by := range []string{"run", "preload"} {
					q, without := *p, *p
					q.args, q.by = []string{program, how}, by
					without.args, without.by, without.env = q.args, by, append(slices.Clone(way), "DYNPROF_CACHE=0")
					want, wantReport, _, _ := without.start(t)
					r, rep, cached, all := q.start(t)
					if cached != all || !isWarm(t, rep) {
						t.Errorf("%q: %d of %d objects had a plan", how, cached, all)
					}
					alike(t, how, r, rep, want, wantReport)
					same(t, run(t, cmd(q.args...)), r)
				}
			}
			where(t, p, program, true)
		})
	}
}

// where fails unless the code of the program, and what is around it, is a copy's, or is not.
func where(t *testing.T, p *planned, program string, copied bool) {
	t.Helper()
	q := *p
	q.args = []string{program, "where"}
	r, rep, _, _ := q.start(t)
	path, _, _ := strings.Cut(r.stderr, "\n")
	if is := strings.HasSuffix(path, ".text"); is != copied || !is && path != program {
		t.Errorf("its code is of %s", path)
	}
	if r.stderr != strings.Repeat(path+"\n", 3) { // tools look for an ELF file's header in front of its code
		t.Errorf("its code, header and constants are of %q", r.stderr)
	}
	tab, err := table.Open(rep.table)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if n := tab.Unlisted.Files; n != 0 {
		t.Errorf("%d bytes of code are of files that the table does not have", n)
	}
}

// TestCacheCopySpoilt: a copy that is not as it was written is not used.
func TestCacheCopySpoilt(t *testing.T) {
	lane.Parallel(t)
	program := copiedProgram(t)
	p := newPlanned(t, cmd(program), "run")
	p.warm(t)
	p.by = "preload" // which leaves copies as they are
	want, wantReport, _, _ := p.start(t)
	if len(p.copies()) == 0 {
		t.Fatal("there are no copies")
	}
	where(t, p, program, true)
	dir := cacheHome(t)
	at := func(path string, offset int64, b ...byte) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, offset)
		return errors.Join(err, f.Close())
	}
	for name, spoil := range map[string]func(path string, size int64, mtime time.Time) error{
		"a byte":  func(path string, _ int64, _ time.Time) error { return at(path, 4096, 0xcc) }, // its time tells
		"cut":     func(path string, size int64, _ time.Time) error { return os.Truncate(path, size/2) },
		"empty":   func(path string, _ int64, _ time.Time) error { return os.Truncate(path, 0) },
		"touched": func(path string, _ int64, _ time.Time) error { return os.Chtimes(path, time.Time{}, time.Now()) },
		"of another plan": func(path string, size int64, mtime time.Time) error {
			b := []byte(read(t, path)) // the last of the plan's sum
			return errors.Join(at(path, size-1, ^b[size-1]), os.Chtimes(path, time.Time{}, mtime))
		},
		"shorter, at its time": func(path string, size int64, mtime time.Time) error {
			return errors.Join(os.Truncate(path, size-4096), os.Chtimes(path, time.Time{}, mtime))
		},
		"writable": func(path string, _ int64, _ time.Time) error { return os.Chmod(path, 0o622) },
		"another's": func(path string, _ int64, mtime time.Time) error {
			if os.Geteuid() != 0 {
				return os.Chmod(path, 0o622) // nobody else can be made its owner
			}
			return os.Chown(path, 65534, 65534)
		},
		"a link": func(path string, _ int64, _ time.Time) error {
			to := filepath.Join(dir, "linked")
			return errors.Join(os.Rename(path, to), os.Symlink(to, path))
		},
		"a pipe": func(path string, _ int64, _ time.Time) error {
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		},
		"a directory": func(path string, _ int64, _ time.Time) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
		"gone": func(path string, _ int64, _ time.Time) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			q := *p
			q.home = cacheHome(t)
			for _, path := range append(p.plans(), p.copies()...) {
				fi, err := os.Stat(path)
				to := filepath.Join(q.home, "dynprof/plans", filepath.Base(path))
				err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(read(t, path)), 0o600), os.Chtimes(to, time.Time{}, fi.ModTime()))
				if err != nil {
					t.Fatal(err)
				}
			}
			where(t, &q, program, true)
			for _, path := range q.copies() {
				fi, err := os.Stat(path)
				if err = errors.Join(err, spoil(path, fi.Size(), fi.ModTime())); err != nil {
					t.Fatal(err)
				}
			}
			r, rep, cached, all := q.start(t)
			if cached != all || !isWarm(t, rep) {
				t.Errorf("%d of %d objects had a plan", cached, all)
			}
			alike(t, name, r, rep, want, wantReport)
			where(t, &q, program, false)
		})
	}
}

// TestCacheCopyCommand: hotspots cache makes copies, checks them, and removes them.
func TestCacheCopyCommand(t *testing.T) {
	lane.Parallel(t)
	program := copiedProgram(t)
	p := newPlanned(t, cmd(program), "preload")
	p.warm(t)
	if n := len(p.copies()); n != 0 {
		t.Errorf("a preloaded library has made %d copies", n)
	}
	p.hotspots(t, 0, "0 more plans", "warm", "--text-copies", program)
	where(t, p, program, true)
	p.hotspots(t, 0, "", "verify")
	copied := p.copies()[0]
	fi, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte(read(t, copied))
	b[20*4096] ^= 1 // of its text
	if err := errors.Join(os.Chmod(copied, 0o600), os.WriteFile(copied, b, 0o600), os.Chtimes(copied, time.Time{}, fi.ModTime())); err != nil {
		t.Fatal(err)
	}
	p.hotspots(t, 1, "damaged: it is no copy of the object", "verify")
	p.hotspots(t, 0, "removed 1 plans", "clear", "--stale")
	p.hotspots(t, 0, "1 more plans", "warm", "--text-copies", program)
	p.hotspots(t, 0, "", "verify")
	if err := os.Remove(strings.TrimSuffix(p.copies()[0], ".text") + ".plan"); err != nil {
		t.Fatal(err)
	}
	p.hotspots(t, 0, "removed", "clear")
	if left := p.copies(); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

// TestCacheUsual: hotspots run keeps plans and starts with them, unless told otherwise; the
// preloaded library starts with them, and keeps none; and of no object there is a copy.
func TestCacheUsual(t *testing.T) {
	lane.Parallel(t)
	program := copiedProgram(t)
	p := &planned{command: cmd(program, "where"), home: cacheHome(t), by: "preload"}
	start := func(by string, warm bool, env ...string) {
		t.Helper()
		q := *p
		q.by, q.env = by, env
		if r, rep, cached, all := q.start(t); isWarm(t, rep) != warm || (cached == all) != warm || cached != 0 && !warm || r.stderr != strings.Repeat(program+"\n", 3) {
			t.Errorf("%s, %q: warm %t, %d of %d plans used, %+v", by, env, isWarm(t, rep), cached, all, r)
		}
	}
	start("preload", false)
	start("run", false, "DYNPROF_CACHE=0")
	if n := len(p.plans()); n != 0 {
		t.Errorf("%d plans are kept", n)
	}
	start("run", false)
	start("run", true)
	start("run", false, "DYNPROF_CACHE=0")
	start("preload", true)
	start("preload", true, "DYNPROF_CACHE=")
	start("preload", false, "DYNPROF_CACHE=0")
	if n := len(p.copies()); n != 0 {
		t.Errorf("there are %d copies", n)
	}
}
