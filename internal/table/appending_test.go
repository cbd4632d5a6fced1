package table_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestReadWhileAppended: readers of a table that another thread adds objects to see
// whole objects only: those that there are, or some of the new ones.
func TestReadWhileAppended(t *testing.T) {
	const objects = 120
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	done := make(chan error, 1)
	go func() {
		for range objects {
			a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
			if err == nil {
				err = a.Add(tabletest.Late(uint16(a.Objects.Count), a.Counters))
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	m, r := meter(t, live.Path), &table.Reading{}
	seen := 0
	for end := false; !end; {
		select {
		case err := <-done:
			if end = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		tab := tabletest.Open(t, live.Path)
		n := len(tab.Objects) - len(spec.Objects)
		now, err := tab.U32(layout.HdrGeneration)
		if err != nil {
			t.Fatal(err)
		}
		if quiet := now == tab.Generation && now%2 == 0; quiet && len(tab.Functions) != len(spec.Functions)+2*n || n < seen {
			t.Fatalf("%d functions in %d new objects, %d objects before", len(tab.Functions), n, seen)
		}
		for i := range tab.Functions[len(spec.Functions):] {
			f := &tab.Functions[len(spec.Functions)+i]
			if o := tab.Objects[f.Object]; o.Path != "/usr/lib/late.so" || int(f.Counter) != 4+i || int(f.Object) != 3+i/2 {
				t.Fatalf("function %d: %+v of %+v", i, f, o)
			}
		}
		if s := tabletest.Snapshot(t, tab); s.Total() != 2223 {
			t.Fatalf("%d calls", s.Total())
		}
		if err := m.Read(r); err != nil || r.Total != 2223 || m.Functions < len(spec.Functions)+2*seen {
			t.Fatalf("%d calls of %d functions, %v", r.Total, m.Functions, err)
		}
		seen = n
		tab.Close()
	}
	if seen != objects {
		t.Errorf("%d objects of %d", seen, objects)
	}
}

// busy is a table that objects are added to until it has been asked so often: its header is read
// while its counts change, one without the other.
type busy struct {
	b    []byte
	asks int
	word uint32
}

func (r *busy) ReadAt(b []byte, at int64) (int, error) {
	n, err := bytes.NewReader(r.b).ReadAt(b, at)
	adds := r.asks > 0
	if at == layout.HdrGeneration && len(b) == 4 {
		if adds {
			r.asks--
			r.word++
		} else {
			r.word += r.word % 2
		}
		binary.LittleEndian.PutUint32(b, r.word)
		return n, err
	}
	if count := int64(layout.HdrObjects + layout.SecCount); adds && at <= count && count+4 <= at+int64(n) {
		b[count-at]--
	}
	return n, err
}

// TestReadBusy: who reads a table that somebody adds to all the time waits until it is whole.
func TestReadBusy(t *testing.T) {
	spec := tabletest.Spec()
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	all, err := os.ReadFile(live.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, asks := range []int{0, 1, 60} {
		r := &busy{b: all, asks: asks}
		tab, err := table.NewReader(r, int64(len(all)))
		if err != nil || len(tab.Objects) != len(spec.Objects) {
			t.Errorf("%d: %v", asks, err)
		}
		if r.asks != 0 {
			t.Errorf("%d: %d times left", asks, r.asks)
		}
	}
}

// dies is a table's memory in which a process is killed at its n-th store.
type dies struct {
	*os.File
	n int
}

func (d *dies) WriteAt(b []byte, at int64) (int, error) {
	if d.n--; d.n < 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return d.File.WriteAt(b, at)
}

// killedAdding has a process that adds die at each of its stores in turn, of which there are so
// many at least, and looks at what that leaves.
func killedAdding(t *testing.T, spare func(testing.TB) *tabletest.Live, late func(*build.Appender) *build.Spec, least int, look func(live *tabletest.Live, stores int)) {
	t.Helper()
	if path := os.Getenv("TABLE_TEST_APPENDS"); path != "" {
		a, err := build.OpenAppend(&dies{tabletest.Writable(t, path), len(os.Getenv("TABLE_TEST_STORES"))})
		if err == nil {
			err = a.Add(late(a))
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	for stores := 1; ; stores++ {
		live := spare(t)
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "TABLE_TEST_APPENDS="+live.Path, "TABLE_TEST_STORES="+strings.Repeat("x", stores))
		out, err := cmd.CombinedOutput()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && (!ok || status.Signal() != syscall.SIGKILL) {
			t.Fatalf("%v: %s", err, out)
		}
		look(live, stores)
		if err == nil {
			if stores < least {
				t.Errorf("only %d stores", stores)
			}
			return
		}
	}
}

// TestAppenderKilled: wherever a process dies that adds objects, the table is sound,
// and the next one that adds finds it so.
func TestAppenderKilled(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := func(t testing.TB) *tabletest.Live {
		return tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	}
	late := func(a *build.Appender) *build.Spec { return tabletest.Late(uint16(a.Objects.Count), a.Counters) }
	// The first store makes room, the second makes the generation odd.
	killedAdding(t, live, late, 10, func(live *tabletest.Live, stores int) {
		tab := tabletest.Open(t, live.Path)
		if n := len(tab.Functions) - len(spec.Functions); n != 0 && n != 2 || len(tab.Objects) < 3 {
			t.Errorf("after %d stores: %d functions, %d objects", stores, len(tab.Functions), len(tab.Objects))
		}
		if s := tabletest.Snapshot(t, tab); s.Total() != 2223 {
			t.Errorf("after %d stores: %d calls", stores, s.Total())
		}
		objects := len(tab.Objects)
		a, err := build.OpenAppend(tabletest.Writable(t, live.Path))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(tabletest.Late(uint16(a.Objects.Count), a.Counters)); err != nil {
			t.Fatal(err)
		}
		again := tabletest.Open(t, live.Path)
		f := &again.Functions[len(again.Functions)-1]
		if again.Generation%2 != 0 || len(again.Objects) != objects+1 || int(f.Object) != objects || f.Tactic == 0 {
			t.Errorf("added after %d stores: generation %d, %d objects, %+v", stores, again.Generation, len(again.Objects), f)
		}
	})
}

// TestHalfAdded: a generation that stays odd, as its adder has died, keeps nobody from
// reading.
func TestHalfAdded(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Word(layout.HdrGeneration, 7)
	if tab := tabletest.Open(t, live.Path); tabletest.Snapshot(t, tab).Total() != 2223 || tab.Generation != 7 {
		t.Errorf("generation %d", tab.Generation)
	}
}
