package table_test

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestMonotone reads counters while a thread increments them with plain
// stores, through carries into every byte: no count goes down or jumps ahead.
func TestMonotone(t *testing.T) {
	const n = 2000
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(n))
	live.Row(layout.Row{Index: 0, State: layout.RowLive})
	f, err := os.OpenFile(live.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), int64(live.Rows.Offset), int(live.Rows.EntrySize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	counters := unsafe.Slice((*uint64)(unsafe.Pointer(&m[layout.RowCounters])), n)
	for i := range counters {
		counters[i] = 1<<(8*(i%7)+8) - 200 // a carry is near
	}
	var stop atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !stop.Load() {
			for i := range counters {
				atomic.StoreUint64(&counters[i], counters[i]+1)
			}
		}
	}()
	tab := tabletest.Open(t, live.Path)
	last := tabletest.Snapshot(t, tab).Calls
	for range 2000 {
		got := tabletest.Snapshot(t, tab).Calls
		for i := range got {
			if now := atomic.LoadUint64(&counters[i]); got[i] < last[i] || got[i] > now {
				t.Fatalf("counter %d: %#x after %#x, %#x now", i, got[i], last[i], now)
			}
		}
		last = got
	}
	stop.Store(true)
	<-done
}

// TestKilled runs the counting program in a process of its own, and kills it.
func TestKilled(t *testing.T) {
	if path := os.Getenv("TABLE_TEST_COUNTS"); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := tabletest.Open(t, path).Geometry.Rows
		m, err := syscall.Mmap(int(f.Fd()), int64(at.Offset), int(at.EntrySize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		for counter := (*uint64)(unsafe.Pointer(&m[layout.RowCounters])); ; {
			atomic.AddUint64(counter, 1)
		}
	}
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(10))
	live.Row(layout.Row{Index: 0, State: layout.RowLive})
	live.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), "TABLE_TEST_COUNTS="+live.Path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tab := tabletest.Open(t, live.Path)
	last := uint64(0)
	for limit := time.Now().Add(20 * time.Second); last < 1000; last = tabletest.Snapshot(t, tab).Calls[0] {
		if time.Now().After(limit) {
			t.Fatal("nothing is counted")
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	end := tabletest.Snapshot(t, tab).Calls[0]
	if again := tabletest.Snapshot(t, tabletest.Open(t, live.Path)).Calls[0]; end < last || again != end {
		t.Errorf("%d while it ran, then %d, then %d", last, end, again)
	}
}

// A hostile header may claim sections as large as the apparent size of a
// sparse file: memory and time follow what is on disk.
func TestHostileSparseFile(t *testing.T) {
	const huge = 1 << 42
	for _, row := range []struct {
		name    string
		section int64
		entry   uint32
	}{
		{"objects", layout.HdrObjects, layout.ObjEntrySize}, {"functions", layout.HdrFunctions, layout.FnEntrySize},
		{"aliases", layout.HdrAliases, 4}, {"strings", layout.HdrStrings, 1},
		{"events", layout.HdrEvents, layout.EvEntrySize}, {"events of a page", layout.HdrEvents, layout.PageSize},
		{"fired", layout.HdrFired, 4}, {"rows", layout.HdrRows, 1 << 31},
	} {
		t.Run(row.name, func(t *testing.T) {
			live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
			le := binary.LittleEndian
			var b []byte
			b = le.AppendUint64(b, 1<<20)
			count := uint32(min(math.MaxUint32, (huge-1<<20)/uint64(row.entry)))
			b = le.AppendUint32(b, count)
			b = le.AppendUint32(b, count)
			b = le.AppendUint32(b, row.entry)
			live.Write(row.section, b)
			live.Write(layout.HdrFileSize, le.AppendUint64(nil, huge))
			live.Write(layout.HdrEventsHead, le.AppendUint64(nil, math.MaxUint64))
			live.Word(layout.HdrRowsUsed, math.MaxUint32)
			if err := os.Truncate(live.Path, huge); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if tab, err := table.Open(live.Path); err == nil {
				tabletest.Snapshot(t, tab)
				if _, err := tab.Events(); err != nil {
					t.Error(err)
				}
				alive.Of(tab.File)
				tab.Close()
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("took %d bytes", n)
			}
		})
	}
}
