package tabledir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestCreateNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"x.dynprof", "x.2.dynprof", "x.3.dynprof"} {
		f, err := build.Create(filepath.Join(dir, "x.dynprof"), tabletest.Spec())
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := filepath.Base(f.Path()); got != want {
			t.Errorf("created %s, want %s", got, want)
		}
	}
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f, err := build.Create(filepath.Join(dir, "link"), tabletest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := os.Lstat(target); !os.IsNotExist(err) || filepath.Base(f.Path()) != "link.2" {
		t.Errorf("a symbolic link was followed: %v, %s", err, f.Path())
	}
}

// TestTooManyNames: of tables of one name there are so many and no more.
func TestTooManyNames(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "table") // on a disk it takes seconds
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "table")
	for n := range 9999 {
		name := path
		if n > 0 {
			name += fmt.Sprint(".", n+1)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := build.Create(path, tabletest.Spec()); err == nil || !strings.Contains(err.Error(), "choose another place") {
		t.Errorf("created: %v", err)
	}
}
