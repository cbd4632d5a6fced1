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

// TestTrim: the oldest go, and what was left by writers that are gone.
func TestTrim(t *testing.T) {
	s, dir := open(t)
	for i, name := range []string{"c" + Ext, "a" + Ext, "b" + Ext, temporary + "1-old", temporary + "2-now", "note"} {
		path := filepath.Join(dir, name)
		then := time.Now().Add(time.Duration(i-10) * time.Hour)
		if name == temporary+"2-now" {
			then = time.Now()
		}
		if err := errors.Join(os.WriteFile(path, make([]byte, 100), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"+Ext), 0o700); err != nil {
		t.Fatal(err)
	}
	names := func() (list []string) {
		plans, left, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(plans, left) {
			list = append(list, f.Name)
		}
		return list
	}
	if got, want := names(), []string{"c" + Ext, "a" + Ext, "b" + Ext, temporary + "1-old"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if err := s.Trim(200); err != nil {
		t.Fatal(err)
	}
	if got, want := names(), []string{"a" + Ext, "b" + Ext}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	for _, name := range []string{temporary + "2-now", "note", "d" + Ext} {
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
