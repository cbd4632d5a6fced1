package edit_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// changes are all that may be done to a table.
func changes(to string) map[string]func(path string) error {
	return map[string]func(path string) error{
		"end":     func(path string) error { return edit.MarkEnded(path, layout.Ended{Kind: layout.EndedExit}) },
		"reset":   edit.Reset,
		"compact": edit.Compact,
		"copy":    func(path string) error { return edit.Copy(path, to) },
	}
}

// TestRefuses: what is no table, or no whole one, is refused by all, stays as it is, and
// leaves nothing beside it.
func TestRefuses(t *testing.T) {
	whole, err := os.ReadFile(tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec()).Path)
	if err != nil {
		t.Fatal(err)
	}
	with := func(at int, v byte) []byte { b := bytes.Clone(whole); b[at] = v; return b }
	for name, row := range map[string]struct {
		b    []byte
		want error
	}{
		"foreign":         {[]byte("no table"), layout.ErrNotTable},
		"empty":           {nil, layout.ErrNotTable},
		"the magic":       {whole[:8], layout.ErrTruncated},
		"half the header": {whole[:2000], layout.ErrTruncated},
		"cut short":       {whole[:len(whole)-1], layout.ErrTruncated},
		"newer":           {with(layout.HdrVersion+1, 7), layout.ErrVersion},
		"building":        {with(layout.HdrState, layout.StateBuilding), layout.ErrBuilding},
		"damaged":         {with(layout.HdrRows+layout.SecEntrySize, 1), layout.ErrCorrupt},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.dynprof")
		if err := os.WriteFile(path, row.b, 0o600); err != nil {
			t.Fatal(err)
		}
		for what, change := range changes(filepath.Join(dir, "copy")) {
			if err := change(path); !errors.Is(err, row.want) {
				t.Errorf("%s: %s gives %v, want %v", name, what, err, row.want)
			}
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, row.b) {
			t.Errorf("%s: the file was changed; %v", name, err)
		}
		if all, _ := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("%s: left behind: %v", name, all)
		}
	}
	for what, change := range changes(filepath.Join(t.TempDir(), "copy")) {
		if err := change(filepath.Join(t.TempDir(), "no")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of nothing: %v", what, err)
		}
		if what == "copy" {
			continue // it only reads
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(tabletest.Create(t, "a.dynprof", tabletest.Spec()).Path, link); err != nil {
			t.Fatal(err)
		}
		if err := change(link); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s of a link: %v", what, err)
		}
	}
}

// TestTightShapes: tables that lack what others have hold the same when they are compact.
func TestTightShapes(t *testing.T) {
	nothing := func(s *build.Spec) { s.Functions, s.Flags = nil, 0 }
	old := func(l *tabletest.Live) {
		for _, at := range []int64{layout.HdrFormers, layout.HdrMissed, layout.HdrBaselines} {
			l.Write(at, make([]byte, layout.SectionSize))
		}
	}
	for name, row := range map[string]struct {
		spec   func(*build.Spec)
		change func(*tabletest.Live)
	}{
		"no functions":                {nothing, nil},
		"no functions, with room":     {func(s *build.Spec) { nothing(s); s.NoSpare = false }, nil},
		"no objects":                  {func(s *build.Spec) { nothing(s); s.Objects = nil }, nil},
		"no counters":                 {func(s *build.Spec) { s.Functions = s.Functions[3:5] }, nil},
		"of an older version":         {func(*build.Spec) {}, old},
		"an old one, no functions":    {nothing, old},
		"its adder has died":          {func(*build.Spec) {}, func(l *tabletest.Live) { l.Word(layout.HdrGeneration, 3) }},
		"more rows than there can be": {func(*build.Spec) {}, func(l *tabletest.Live) { l.Word(layout.HdrRowsUsed, 1<<31) }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tabletest.Spec()
			row.spec(spec)
			live := tabletest.Create(t, "a.dynprof", spec)
			live.Row(layout.Row{Index: 0, State: layout.RowLive, Pid: 7, Tid: 7})
			if n := live.Geometry.Counters; n > 0 {
				live.Set(0, 9)
			}
			if row.change != nil {
				row.change(live)
			}
			live.Close()
			want := held(t, live.Path)
			for range 2 { // a compact one, too
				to := filepath.Join(t.TempDir(), "copy")
				if err := edit.Copy(live.Path, to); err != nil {
					t.Fatal(err)
				}
				got := held(t, to)
				if got.header.Snapshot.IsZero() {
					t.Error("a copy without time")
				}
				got.header.Snapshot = want.header.Snapshot
				if !reflect.DeepEqual(got, want) {
					t.Errorf("copied:\n got %+v\nwant %+v", got, want)
				}
				if err := edit.Compact(live.Path); err != nil {
					t.Fatal(err)
				}
				if got := held(t, live.Path); !reflect.DeepEqual(got, want) {
					t.Errorf("compact:\n got %+v\nwant %+v", got, want)
				}
			}
		})
	}
}

// TestDamagedBaseline: a number of a baseline that there is not.
func TestDamagedBaseline(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	reset(t, live.Path)
	live.Write(layout.HdrBaseline, []byte{200})
	if err := edit.Copy(live.Path, filepath.Join(t.TempDir(), "copy")); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("copy: %v", err)
	}
	if _, err := tabletest.Open(t, live.Path).SinceReset(); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
}

// TestCompactForeign: the table of another user stays that.
func TestCompactForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has files of others")
	}
	dir := t.TempDir()
	live := tabletest.CreateAt(t, filepath.Join(dir, "a.dynprof"), tabletest.Spec())
	live.Close()
	if err := os.Chown(live.Path, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := edit.Compact(live.Path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if after, err := os.Stat(live.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it is another file: %v", err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
}

// TestCompactHeld: a process has it open, which counts for whoever cannot look into it.
func TestCompactHeld(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	cmd := exec.Command("sleep", "1000")
	cmd.Stdin = tabletest.Writable(t, live.Path)
	live.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	cmd.Stdin.(*os.File).Close()
	if err := edit.Compact(live.Path); !errors.Is(err, edit.ErrInUse) {
		t.Errorf("got %v", err)
	}
}

// TestCopyWhileAppended: a copy of a table that another thread adds to, and resets,
// holds whole objects, whichever there are.
func TestCopyWhileAppended(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		for !stop.Load() {
			a, err := build.OpenAppend(live.Memory())
			if err == nil {
				err = a.Add(tabletest.Late(uint16(a.Objects.Count), a.Counters))
			}
			if err == nil {
				err = edit.Reset(live.Path)
			}
			if err != nil {
				done <- err
				return
			}
			time.Sleep(10 * time.Millisecond) // a copy is made again if this was in between
		}
		done <- nil
	}()
	to := filepath.Join(t.TempDir(), "copy")
	for range 20 {
		if err := edit.Copy(live.Path, to); err != nil {
			t.Fatal(err)
		}
		tab := tabletest.Open(t, to)
		if n := len(tab.Objects) - 3; tab.Generation%2 != 0 || len(tab.Functions) != len(spec.Functions)+2*n {
			t.Errorf("generation %d, %d functions in %d new objects", tab.Generation, len(tab.Functions), n)
		}
		if s := tabletest.SinceReset(t, tab); s.Total() != 0 && !s.Reset.IsZero() || tabletest.Snapshot(t, tab).Total() != 2223 {
			t.Errorf("%d calls since %v", s.Total(), s.Reset)
		}
		tab.Close()
	}
	stop.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestResetCutShort: a file that is cut short meanwhile is an error, no signal.
func TestResetCutShort(t *testing.T) {
	for range 30 {
		live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Synthetic(3000))
		go func() {
			time.Sleep(time.Millisecond)
			os.Truncate(live.Path, 0)
		}()
		for end := time.Now().Add(20 * time.Second); ; {
			err := edit.Reset(live.Path)
			if errors.Is(err, layout.ErrNotTable) || errors.Is(err, layout.ErrTruncated) || errors.Is(err, layout.ErrBuilding) {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

// A table with a name in a directory where nothing can be made stays as it is.
func TestNowhere(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	for to, want := range map[string]error{
		"/proc/a":                             nil,
		live.Path + "/a":                      syscall.ENOTDIR,
		filepath.Join(t.TempDir(), "no", "a"): fs.ErrNotExist,
	} {
		if err := edit.Copy(live.Path, to); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", to, err, want)
		}
	}
	if n := tabletest.Snapshot(t, tabletest.Open(t, live.Path)).Total(); n != 2223 {
		t.Errorf("%d calls", n)
	}
}
