package build_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestOpenAppend: what is left in a table is what was planned for it.
func TestOpenAppend(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare, spec.Reserve, spec.ReserveUsed = false, 1<<20, 4096
	live := tabletest.Create(t, "a.dynprof", spec)
	a, err := build.OpenAppend(live.Memory())
	if err != nil {
		t.Fatal(err)
	}
	left := a.Left()
	if a.ReserveUsed() != 4096 || a.Shared() || left.Objects != build.MaxObjects-3 || left.Functions < 1<<19 || left.Counters < 1<<19 || left.Strings < 64<<20 {
		t.Errorf("%+v left, %d of the reserve used, shared %v", left, a.ReserveUsed(), a.Shared())
	}
	more := tabletest.Late(3, a.Counters)
	more.Reserve, more.ReserveUsed = 1<<20, 8192
	if err := a.Add(more); err != nil {
		t.Fatal(err)
	}
	if a, err = build.OpenAppend(live.Memory()); err != nil {
		t.Fatal(err)
	}
	want := left
	want.Take(&more.Objects[0], func(yield func(*layout.Function) bool) {
		_ = yield(&more.Functions[0]) && yield(&more.Functions[1])
	}, build.Room{})
	if got := a.Left(); got != want || a.ReserveUsed() != 8192 {
		t.Errorf("left %+v, want %+v; %d of the reserve", got, want, a.ReserveUsed())
	}
	spec.Flags = layout.FlagShared
	if a, err = build.OpenAppend(tabletest.Create(t, "b", spec).Memory()); err != nil || !a.Shared() {
		t.Errorf("not shared: %v", err)
	}
}

// part is the beginning of a table, whose stores fail from the n-th on.
type part struct {
	build.Memory
	size, stores int64
}

var errPart = errors.New("there is no more")

func (p *part) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > p.size {
		return 0, io.EOF
	}
	return p.Memory.ReadAt(b, at)
}

func (p *part) WriteAt(b []byte, at int64) (int, error) {
	if p.stores--; p.stores < 0 {
		return 0, errPart
	}
	return p.Memory.WriteAt(b, at)
}

// TestAppendFails: an error at any store is told, and leaves a sound table.
func TestAppendFails(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Create(t, "a.dynprof", spec)
	if _, err := build.OpenAppend(&part{live.Memory(), 100, 0}); !errors.Is(err, layout.ErrTruncated) {
		t.Errorf("cut short: %v", err)
	}
	failed := 0
	for ok := false; !ok; failed++ {
		a, err := build.OpenAppend(&part{live.Memory(), 1 << 40, int64(failed)})
		if err != nil {
			t.Fatal(err)
		}
		more := tabletest.Late(uint16(a.Objects.Count), a.Counters)
		more.Reserve = 1
		if err = a.Add(more); err != nil && err != errPart {
			t.Fatal(err)
		}
		ok = err == nil
		tab := tabletest.Open(t, live.Path)
		for i := range tab.Functions {
			if f := &tab.Functions[i]; f.Counter != layout.NoCounter && f.Tactic == 0 {
				t.Errorf("after %d stores: %+v", failed, f)
			}
		}
	}
	if failed < 10 {
		t.Errorf("only %d stores", failed)
	}
	live.Word(layout.HdrRows+layout.SecEntrySize, 1)
	if _, err := build.OpenAppend(live.Memory()); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
}

// TestAbort: a table that was given up leaves nothing, one that was not made nothing, too.
func TestAbort(t *testing.T) {
	dir := t.TempDir()
	f, err := build.Create(filepath.Join(dir, "a.dynprof"), tabletest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if err := f.Publish(); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "choose another place") {
		t.Errorf("published what was given up: %v", err)
	}
	for path, want := range map[string]error{dir + "/no/a": os.ErrNotExist, "/dev/null/a": syscall.ENOTDIR, dir + "/" + strings.Repeat("n", 300): syscall.ENAMETOOLONG} {
		if f, err := build.Create(path, tabletest.Spec()); f != nil || !errors.Is(err, want) {
			t.Errorf("%.50s: %v, want %v", path, err, want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNoAllocation: where the file system cannot take room in advance, it is written.
func TestNoAllocation(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ramfs", dir, "ramfs", 0, ""); err != nil { // it has no fallocate
		t.Skipf("cannot mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	spec := tabletest.Spec()
	live := tabletest.CreateAt(t, filepath.Join(dir, "a.dynprof"), spec)
	if tab := tabletest.Open(t, live.Path); !reflect.DeepEqual(tab.Functions, spec.Functions) {
		t.Errorf("%+v", tab.Functions)
	}
	live.Close()
}

// TestStorable: names end at a NUL, and at the most that a string may have.
func TestStorable(t *testing.T) {
	spec := tabletest.Spec()
	spec.Functions[0].Name, spec.Functions[0].Aliases = "a\x00b", []string{"\x00x", "", "c\x00d"}
	spec.Functions[1].Name, spec.Functions[1].Aliases = "", nil
	spec.Functions[2].Aliases = []string{"", "\x00"}
	spec.Objects[0].Path = strings.Repeat("p", layout.MaxString+9)
	tab := tabletest.Open(t, tabletest.Create(t, "a.dynprof", spec).Path)
	f := tab.Functions
	if f[0].Name != "a" || !reflect.DeepEqual(f[0].Aliases, []string{"c"}) || f[1].Name != "" || f[1].Aliases != nil || f[2].Aliases != nil {
		t.Errorf("%+v", f[:3])
	}
	if n := len(tab.Objects[0].Path); n != layout.MaxString {
		t.Errorf("a path of %d bytes", n)
	}
}
