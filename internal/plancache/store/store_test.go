package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dynprof", "plans")
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

// TestStore: what is written is read, in place of what was there, and is nobody else's.
func TestStore(t *testing.T) {
	s, dir := open(t)
	name := Name(7, []byte("key"))
	if name == Name(8, []byte("key")) || name == Name(7, []byte("other")) || !strings.HasSuffix(name, Ext) {
		t.Errorf("the name is %s", name)
	}
	for _, want := range []string{"one", "another"} {
		if err := s.Write(name, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Read(name); string(b) != want || err != nil {
			t.Errorf("%q, %v; not %q", b, err, want)
		}
		// The copy of the object that an old plan had has gone with it.
		if _, err := s.OpenCopy(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a copy of %s: %v", want, err)
		}
		if err := s.WriteCopy(name, 0, func(*os.File) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, name): 0o400} {
		if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	if _, err := s.Read("none" + Ext); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := s.Write("no/such"+Ext, nil); err == nil {
		t.Error("it is written elsewhere")
	}
}

// TestUsed: a plan that is read counts as used, by the day.
func TestUsed(t *testing.T) {
	s, dir := open(t)
	for name, age := range map[string]time.Duration{"old": 3 * day, "new": day / 2} {
		path := filepath.Join(dir, name+Ext)
		then := time.Now().Add(-age)
		if err := errors.Join(s.Write(name+Ext, []byte("x")), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(name + Ext); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if touched := time.Since(fi.ModTime()) < time.Hour; touched != (name == "old") {
			t.Errorf("%s: %v", name, fi.ModTime())
		}
	}
}

// TestTrim: the oldest go, with their copies, and what was left by writers that are gone;
// files that are not of the store stay.
func TestTrim(t *testing.T) {
	s, dir := open(t)
	const a, b, c = "000000000000000a", "000000000000000b", "000000000000000c"
	old, now, older := temporary+"1-"+a+copyExt, temporary+"2-"+b+Ext, temporary+"3-"+c
	foreign := []string{"note", "note.text", "1.plan", temporary + "note", temporary + "x-" + a + Ext, a + ".txt"}
	ours := []string{c + Ext, c + copyExt, a + Ext, b + Ext, old, older, now, "000000000000000d" + copyExt}
	for i, name := range slices.Concat(ours, foreign) {
		path := filepath.Join(dir, name)
		then := time.Now().Add(time.Duration(i-30) * time.Hour)
		if name == now {
			then = time.Now()
		}
		if err := errors.Join(os.WriteFile(path, make([]byte, 100), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "000000000000000e"+Ext), 0o700); err != nil {
		t.Fatal(err)
	}
	list := func() (plans, left []string) {
		p, l, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range p {
			plans = append(plans, f.Name)
			if (f.Copy > 0) != (f.Name == c+Ext) {
				t.Errorf("%+v", f)
			}
		}
		for _, f := range l {
			left = append(left, f.Name)
		}
		slices.Sort(left)
		return plans, left
	}
	plans, left := list()
	if want := []string{c + Ext, a + Ext, b + Ext}; !slices.Equal(plans, want) {
		t.Errorf("%q, not %q", plans, want)
	}
	if want := []string{old, older, "000000000000000d" + copyExt}; !slices.Equal(left, want) {
		t.Errorf("left: %q, not %q", left, want)
	}
	if err := s.Trim(200); err != nil {
		t.Fatal(err)
	}
	plans, left = list()
	if want := []string{a + Ext, b + Ext}; !slices.Equal(plans, want) || len(left) > 0 {
		t.Errorf("%q and %q, not %q", plans, left, want)
	}
	if _, err := os.Lstat(filepath.Join(dir, c+copyExt)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of a plan that has gone: %v", err)
	}
	for _, name := range append(foreign, now, "000000000000000e"+Ext) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestMake: nothing is made in what is not the user's.
func TestMake(t *testing.T) {
	if os.Geteuid() == 0 {
		home := t.TempDir()
		if err := os.Chown(home, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := Make(Dir("", home)); !errors.Is(err, ErrNotOurs) {
			t.Errorf("another's home: %v", err)
		}
	}
	for _, row := range [][3]string{
		{"/c", "/h", "/c/dynprof/plans"}, {"", "/h", "/h/.cache/dynprof/plans"}, {"c", "h", ""}, {"", "", ""}, {"c", "/h", "/h/.cache/dynprof/plans"},
	} {
		if got := Dir(row[0], row[1]); got != row[2] {
			t.Errorf("%q: %q", row, got)
		}
	}
	dir := filepath.Join(t.TempDir(), "none", "of", "these", "is", "there")
	if err := Make(dir); err == nil {
		t.Error("more than two directories above it are made")
	}
}

// TestIsCopy: copies are known by their names, and nothing else is taken for one.
func TestIsCopy(t *testing.T) {
	plan := Name(77, []byte("key"))
	for name, is := range map[string]bool{CopyName(plan): true, plan: false, temporary + "1-" + CopyName(plan): false, "notes.text": false, "0123456789abcdeg.text": false} {
		if IsCopy(name) != is {
			t.Errorf("%s: %v", name, !is)
		}
	}
}
