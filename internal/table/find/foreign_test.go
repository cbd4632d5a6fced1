package find_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// A table may have any name.
func TestMappedByAnyName(t *testing.T) {
	for _, name := range []string{"two  blanks", " one in front", "a\ttab.dynprof", "ü", "(deleted)", "a (deleted) b"} {
		live := tabletest.Create(t, name, tabletest.Spec())
		m := tabletest.Map(t, live.Path)
		if got := find.MappedBy(os.Getpid()); got != live.Path {
			t.Errorf("got %q, want %q", got, live.Path)
		}
		if err := syscall.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
	if got := find.MappedBy(1 << 30); got != "" {
		t.Errorf("nobody counts into %s", got)
	}
}

// What is mapped must be a table, complete, and there.
func TestMappedByOther(t *testing.T) {
	building := tabletest.Create(t, "building", tabletest.Spec())
	building.Word(layout.HdrState, layout.StateBuilding)
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := tabletest.Create(t, "gone", tabletest.Spec())
	for _, path := range []string{building.Path, foreign, gone.Path} {
		m := tabletest.Map(t, path)
		if path == gone.Path {
			os.Remove(path)
		}
		if got := find.MappedBy(os.Getpid()); got != "" {
			t.Errorf("%s: found %s", path, got)
		}
		if err := syscall.Munmap(m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStat(t *testing.T) {
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	live := tabletest.Create(t, "a.dynprof", spec)
	e, err := find.Stat(live.Path)
	if err != nil || e.Path != live.Path || e.Status != alive.Running || !e.Held || e.Blocks == 0 || e.Nonce != live.Nonce || e.Modified.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	live.Close()
	if e, err = find.Stat(live.Path); err != nil || e.Status != alive.Exited || e.Held {
		t.Errorf("when nobody has it: %+v, %v", e, err)
	}
	live = tabletest.OpenLive(t, live.Path)
	live.Word(layout.HdrState, layout.StateBuilding)
	if e, err = find.Stat(live.Path); err != nil || e.State != layout.StateBuilding || !e.Realtime.Equal(e.Modified) {
		t.Errorf("building: %+v, %v", e, err)
	}
	live.Write(layout.HdrMagic, []byte("X"))
	for path, want := range map[string]error{live.Path: layout.ErrNotTable, t.TempDir(): layout.ErrNotTable, "/no/such": os.ErrNotExist} {
		if e, err := find.Stat(path); e != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// Links and other files in a directory are none of its tables; what is no directory is
// an error.
func TestListLinks(t *testing.T) {
	dir := t.TempDir()
	live := tabletest.CreateAt(t, filepath.Join(dir, "a.dynprof"), tabletest.Spec())
	for _, err := range []error{
		os.Symlink(live.Path, filepath.Join(dir, "link.dynprof")),
		os.Mkdir(filepath.Join(dir, "dir.dynprof"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "fifo.dynprof"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if all, err := find.List(dir); err != nil || len(all) != 1 || all[0].Path != live.Path {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := find.List(dir, live.Path); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("of a file: %v", err)
	}
}
