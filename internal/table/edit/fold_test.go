package edit_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// endedSpec is a program whose process, of that number, has ended.
func endedSpec(pid uint32) *build.Spec {
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	spec.StartTicks++
	spec.Pid = pid
	return spec
}

// short makes the table of a process that has called main once, add n times, and another
// function of another thread twice.
func short(t *testing.T, path string, n uint64, spec *build.Spec) *tabletest.Live {
	t.Helper()
	live := tabletest.CreateAt(t, path, spec)
	live.Row(layout.Row{Index: 0, State: layout.RowLive, Pid: spec.Pid, Tid: spec.Pid})
	live.Row(layout.Row{Index: 1, State: layout.RowFree, Pid: spec.Pid, Tid: spec.Pid + 1})
	live.Set(0, 1, n|layout.CounterFired)
	live.Set(1, 0, 0, 0, 2)
	live.Word(layout.HdrExecuted, 1)
	return live
}

// tablesIn are the tables in a directory, and how many calls they have together.
func tablesIn(t *testing.T, dir string) (names []string, calls uint64) {
	t.Helper()
	all, err := find.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, filepath.Base(e.Path))
		tab := tabletest.Open(t, e.Path)
		calls += tabletest.Snapshot(t, tab).Total()
		tab.Close()
	}
	slices.Sort(names)
	return names, calls
}

// TestFold: one table has the counts of all, and what each process called; more come to it
// later, and more than are held at a time.
func TestFold(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	var want []table.Owner
	sum := uint64(0)
	more := func(from, to int) {
		for i := from; i < to; i++ {
			path := filepath.Join(dir, fmt.Sprintf("%03d.dynprof", i))
			short(t, path, uint64(i), endedSpec(uint32(1000+i))).Close()
			paths = append(paths, path)
			want = append(want, table.Owner{Pid: uint32(1000 + i), Tid: uint32(1000 + i), Calls: uint64(i + 3)})
			sum += uint64(i)
		}
	}
	more(0, 2)
	if gone, err := edit.Fold(paths, 3); gone != 0 || err != nil {
		t.Fatalf("%d of two tables gone, %v", gone, err)
	}
	for _, upto := range []int{3, 4, 150} {
		more(len(paths), upto)
		for again := range 2 {
			gone, err := edit.Fold(paths, 3)
			if err != nil {
				t.Fatal(err)
			}
			if names, _ := tablesIn(t, dir); len(names) != 1 || again == 1 && gone != 0 {
				t.Fatalf("%d gone, left: %v", gone, names)
			}
		}
		check := func() {
			t.Helper()
			tab := tabletest.Open(t, paths[0])
			s := tabletest.SinceReset(t, tab)
			if n := uint64(upto); !reflect.DeepEqual(s.Calls, []uint64{n, sum, 0, 0, 0, 2 * n, 0}) || s.Executed != uint32(n) || s.Threads() != upto || len(s.Folded) != upto {
				t.Errorf("%d processes: %d calls, %d executed, %d threads", len(s.Folded), s.Calls, s.Executed, s.Threads())
			}
			if got := s.Owners(); !reflect.DeepEqual(got, want) {
				t.Errorf("owners %+v,\nnot %+v", got, want)
			}
			if alive.Of(tab.File) == alive.Copied {
				return
			}
			if e, err := find.Stat(paths[0]); err != nil || e.Status != alive.Exited || !e.Has(uint32(1000+upto-1)) || e.Has(uint32(1000+upto)) {
				t.Errorf("%+v, %v", e, err)
			}
			tab.Close()
		}
		check()
		if err := edit.Compact(paths[0]); err != nil {
			t.Fatal(err)
		}
		check()
	}
	to := filepath.Join(t.TempDir(), "copy.dynprof")
	if err := edit.Copy(paths[0], to); err != nil {
		t.Fatal(err)
	}
	if n := len(tabletest.Snapshot(t, tabletest.Open(t, to)).Folded); n != len(paths) {
		t.Errorf("%d processes in the copy", n)
	}
	if err := edit.Reset(paths[0]); err != nil {
		t.Fatal(err)
	}
	if s := tabletest.SinceReset(t, tabletest.Open(t, paths[0])); s.Total() != 0 || len(s.Owners()) != 0 {
		t.Errorf("%d calls after a reset, %v", s.Total(), s.Owners())
	}
	if fi, err := os.Stat(paths[0]); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() > 16*layout.PageSize {
		t.Errorf("%v, %d bytes: %v", fi.Mode(), fi.Size(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".dynprof-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFoldSame: where code was in memory, whether there was a plan of it, and blocks make no
// difference, as long as these are the same.
func TestFoldSame(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, change := range []func(*build.Spec){
		func(*build.Spec) {},
		func(s *build.Spec) {
			s.Flags |= layout.FlagWarm
			s.Objects[0].Bias, s.Objects[0].Low, s.Objects[0].High, s.Objects[0].Arena = 0x1000, 0x2000, 0x3000, 0x4000
			s.Objects[1].Flags |= layout.ObjCached
		},
		func(s *build.Spec) { s.Functions[1].Stub, s.Functions[1].StubSize, s.Functions[1].Count = 99, 17, 4 },
	} {
		spec := endedSpec(uint32(100 + i))
		change(spec)
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.dynprof", i)))
		short(t, paths[i], 1, spec).Close()
	}
	if gone, err := edit.Fold(paths, 3); gone != 2 || err != nil {
		t.Errorf("%d gone, %v", gone, err)
	}
}

// TestFoldStays: what says more of its process than counts, or is another program, stays as it
// is, and so do all where there are too few.
func TestFoldStays(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, spec *build.Spec, path string){
		"it runs": func(t *testing.T, spec *build.Spec, path string) {
			spec.Identity = alive.Identify(os.Getpid())
			short(t, path, 1, spec).Close()
		},
		"another boot": func(t *testing.T, spec *build.Spec, path string) {
			spec.BootID[0]++
			short(t, path, 1, spec).Close()
		},
		"another pid namespace": func(t *testing.T, spec *build.Spec, path string) {
			spec.PidNS++
			short(t, path, 1, spec).Close()
		},
		"mapped": func(t *testing.T, spec *build.Spec, path string) {
			short(t, path, 1, spec).Close()
			m := tabletest.Map(t, path)
			t.Cleanup(func() { syscall.Munmap(m) })
		},
		"open": func(t *testing.T, spec *build.Spec, path string) { short(t, path, 1, spec) },
		"an event": func(t *testing.T, spec *build.Spec, path string) {
			tabletest.Demo(t, path, spec).Close()
		},
		"reset": func(t *testing.T, spec *build.Spec, path string) {
			short(t, path, 1, spec).Close()
			reset(t, path)
		},
		"missed objects": func(t *testing.T, spec *build.Spec, path string) {
			live := short(t, path, 1, spec)
			live.Word(layout.HdrObjectsMissed, 1)
			live.Close()
		},
		"lost threads": func(t *testing.T, spec *build.Spec, path string) {
			live := short(t, path, 1, spec)
			live.Word(layout.HdrThreadsDiscarded, 1)
			live.Close()
		},
		"its end is noted": func(t *testing.T, spec *build.Spec, path string) {
			short(t, path, 1, spec).Close()
			if err := edit.MarkEnded(path, layout.Ended{Kind: layout.EndedExit}); err != nil {
				t.Fatal(err)
			}
		},
		"another program": func(t *testing.T, spec *build.Spec, path string) {
			spec.Program = "/opt/demo/other"
			short(t, path, 1, spec).Close()
		},
		"another build": func(t *testing.T, spec *build.Spec, path string) {
			spec.Objects[1].BuildID = "ffff"
			short(t, path, 1, spec).Close()
		},
		"another function": func(t *testing.T, spec *build.Spec, path string) {
			spec.Functions[2].Address++
			short(t, path, 1, spec).Close()
		},
		"a function refused": func(t *testing.T, spec *build.Spec, path string) {
			spec.Functions[2].Reason, spec.Functions[2].Tactic = ledger.ReasonBytesChanged, ledger.TacticNone
			short(t, path, 1, spec).Close()
		},
		"another run": func(t *testing.T, spec *build.Spec, path string) {
			spec.RunID[3]++
			short(t, path, 1, spec).Close()
		},
		"a copy": func(t *testing.T, spec *build.Spec, path string) {
			short(t, path, 1, spec).Close()
			if err := edit.Copy(path, path); err != nil {
				t.Fatal(err)
			}
		},
		"callees of calls by pointers": func(t *testing.T, spec *build.Spec, path string) {
			spec.Objects[0].Sets, spec.Objects[0].Slots = 1, 4
			short(t, path, 1, spec).Close()
		},
		"trips of loops": func(t *testing.T, spec *build.Spec, path string) {
			spec.Flags |= layout.FlagTrips
			short(t, path, 1, spec).Close()
		},
		"a file": func(t *testing.T, spec *build.Spec, path string) {
			if err := os.WriteFile(path, []byte("no table"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			other := filepath.Join(dir, "other.dynprof")
			change(t, endedSpec(7), other)
			before, err := os.Stat(other)
			if err != nil {
				t.Fatal(err)
			}
			paths := []string{other}
			for i := range 3 {
				paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.dynprof", i)))
				short(t, paths[i+1], 5, endedSpec(uint32(100+i))).Close()
			}
			if gone, err := edit.Fold(paths, 3); gone != 2 || err != nil {
				t.Errorf("%d gone, %v", gone, err)
			}
			if after, err := os.Stat(other); err != nil || !os.SameFile(before, after) {
				t.Errorf("the other is gone, or another file: %v", err)
			}
		})
	}
}

// TestFoldArguments: command lines that the user wanted to be kept are, also where they are
// the same.
func TestFoldArguments(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range 4 {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.dynprof", i)))
		spec := endedSpec(uint32(100 + i))
		spec.Arguments = "demo -v"
		short(t, paths[i], 5, spec).Close()
	}
	if gone, err := edit.Fold(paths, 2); gone != 0 || err != nil {
		t.Errorf("%d gone, %v", gone, err)
	}
}

// TestFoldHeld: where somebody has the table open that others were folded into, they stay, and
// come to it when it is free.
func TestFoldHeld(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	add := func(n int) {
		for range n {
			paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.dynprof", len(paths))))
			short(t, paths[len(paths)-1], 1, endedSpec(uint32(100+len(paths)))).Close()
		}
	}
	add(3)
	if gone, err := edit.Fold(paths, 3); gone != 2 || err != nil {
		t.Fatalf("%d gone, %v", gone, err)
	}
	reader := tabletest.Open(t, paths[0])
	add(1)
	if gone, err := edit.Fold(paths, 3); gone != 0 || err != nil {
		t.Errorf("%d gone while it is read, %v", gone, err)
	}
	reader.Close()
	if gone, err := edit.Fold(paths, 3); gone != 1 || err != nil {
		t.Errorf("%d gone, %v", gone, err)
	}
	if names, calls := tablesIn(t, dir); len(names) != 1 || calls != 4*4 {
		t.Errorf("%v with %d calls", names, calls)
	}
}

// TestFoldInterrupted: who is killed before the others are removed has counted nothing twice.
func TestFoldInterrupted(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range 5 {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.dynprof", i)))
		short(t, paths[i], 1, endedSpec(uint32(100+i))).Close()
		if i > 0 {
			if err := os.Link(paths[i], paths[i]+"~"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if gone, err := edit.Fold(paths, 3); gone != 4 || err != nil {
		t.Fatalf("%d gone, %v", gone, err)
	}
	for _, path := range paths[1:] {
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	if names, calls := tablesIn(t, dir); strings.Join(names, " ") != "0.dynprof" || calls != 5*4 {
		t.Errorf("%v with %d calls", names, calls)
	}
	a, b := tabletest.Open(t, paths[0]), tabletest.Open(t, paths[3])
	one, err := a.Nonces()
	two, err2 := b.Nonces()
	if err := errors.Join(err, err2); err != nil || len(one) != 5 || len(two) != 1 || !slices.Contains(one, two[0]) {
		t.Errorf("%x and %x: %v", one, two, err)
	}
	a.Close()
	b.Close()
	if gone, err := edit.Fold(paths, 3); gone != 4 || err != nil {
		t.Errorf("%d gone, %v", gone, err)
	}
	if names, calls := tablesIn(t, dir); strings.Join(names, " ") != "0.dynprof" || calls != 5*4 {
		t.Errorf("folded again: %v with %d calls", names, calls)
	}
}

// TestFoldHostile: a list of processes that is a hole, however large, is an error.
func TestFoldHostile(t *testing.T) {
	live := short(t, filepath.Join(t.TempDir(), "a.dynprof"), 1, endedSpec(7))
	const huge = 1 << 31
	at := layout.RoundUp(live.Geometry.Size)
	section, le := make([]byte, layout.SectionSize), binary.LittleEndian
	le.PutUint64(section[layout.SecOffset:], at)
	le.PutUint32(section[layout.SecCount:], huge)
	le.PutUint32(section[layout.SecCapacity:], huge)
	le.PutUint32(section[layout.SecEntrySize:], layout.FdEntrySize)
	live.Write(layout.HdrFolded, section)
	live.Write(layout.HdrFileSize, le.AppendUint64(nil, at+huge*layout.FdEntrySize))
	if err := os.Truncate(live.Path, int64(at+huge*layout.FdEntrySize)); err != nil {
		t.Fatal(err)
	}
	live.Close()
	f, err := file.OpenHead(live.Path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Folded(); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	if _, err := find.Stat(live.Path); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("found: %v", err)
	}
}
