package find_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestList(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for i, path := range []string{a + "/old.dynprof", b + "/new.dynprof", a + "/mid.dynprof"} {
		spec := tabletest.Spec()
		spec.Realtime = spec.Realtime.Add([]time.Duration{0, 2, 1}[i] * time.Hour)
		spec.Pid = uint32(i + 1)
		tabletest.CreateAt(t, path, spec)
	}
	building, err := build.Create(a+"/building.dynprof", tabletest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	building.Close()
	for _, other := range []string{a + "/foreign.dynprof", a + "/x.txt"} {
		if err := os.WriteFile(other, []byte("no table"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := find.List(a, b, a+"/missing")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, filepath.Base(e.Path))
	}
	if s := strings.Join(got, " "); s != "building.dynprof new.dynprof mid.dynprof old.dynprof" {
		t.Errorf("got %s", s)
	}
}

// TestOfRun: only tables of the run, whatever else has such a name.
func TestOfRun(t *testing.T) {
	dir, spec := t.TempDir(), tabletest.Spec()
	spec.RunID = [16]byte{1, 2, 3}
	mine := tabletest.CreateAt(t, dir+"/mine.dynprof", spec).Path
	spec.RunID[15]++
	other := tabletest.CreateAt(t, dir+"/other.dynprof", spec).Path
	short, pipe := dir+"/short.dynprof", dir+"/pipe.dynprof"
	if err := errors.Join(os.WriteFile(short, []byte("DYNPROF\x01"), 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	asked := tabletest.CreateAt(t, dir+"/asked.dynprof", spec)
	asked.Close()
	f, err := os.Open(asked.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		t.Fatalf("a lease: %v", errno)
	}
	for path, want := range map[string]bool{mine: true, asked.Path: true, other: false, short: false, pipe: false, dir: false, dir + "/none": false} {
		if find.OfRun(path, [16]byte{1, 2, 3}) != want {
			t.Errorf("%s: not %v", filepath.Base(path), want)
		}
	}
}

func TestMappedBy(t *testing.T) {
	live := tabletest.Create(t, "my table", tabletest.Spec())
	if got := find.MappedBy(os.Getpid()); got != "" {
		t.Fatalf("found %s before it was mapped", got)
	}
	m := tabletest.Map(t, live.Path)
	defer syscall.Munmap(m)
	if got := find.MappedBy(os.Getpid()); got != live.Path {
		t.Errorf("got %q, want %s", got, live.Path)
	}
}
