package table_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestMonotone reads counters while a thread increments them with plain
// stores, through carries into every byte: no count goes down or jumps ahead.
func TestMonotone(t *testing.T) {
	const n = 2000
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(n))
	live.Row(table.Row{Index: 0, State: table.RowLive})
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
	counters := unsafe.Slice((*uint64)(unsafe.Pointer(&m[table.RowCounters])), n)
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
	tab := open(t, live.Path)
	last := snapshot(t, tab).Calls
	for range 2000 {
		got := snapshot(t, tab).Calls
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
		at := open(t, path).Geometry.Rows
		m, err := syscall.Mmap(int(f.Fd()), int64(at.Offset), int(at.EntrySize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		for counter := (*uint64)(unsafe.Pointer(&m[table.RowCounters])); ; {
			atomic.AddUint64(counter, 1)
		}
	}
	live := tabletest.Create(t, "a.dynprof", tabletest.Synthetic(10))
	live.Row(table.Row{Index: 0, State: table.RowLive})
	live.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), "TABLE_TEST_COUNTS="+live.Path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tab := open(t, live.Path)
	last := uint64(0)
	for limit := time.Now().Add(20 * time.Second); last < 1000; last = snapshot(t, tab).Calls[0] {
		if time.Now().After(limit) {
			t.Fatal("nothing is counted")
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	end := snapshot(t, tab).Calls[0]
	if again := snapshot(t, open(t, live.Path)).Calls[0]; end < last || again != end {
		t.Errorf("%d while it ran, then %d, then %d", last, end, again)
	}
}

func TestStatus(t *testing.T) {
	sleeper := exec.Command("sleep", "100")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleeper.Process.Kill(); sleeper.Wait() }()
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	zombieID := table.Identify(zombie.Process.Pid)
	if err := syscall.Kill(zombie.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var info [128]byte // wait for its end, leave the corpse
	const pPid, wnowait = 1, 0x1000000
	if _, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(zombie.Process.Pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|wnowait, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	defer zombie.Wait()

	alive := table.Identify(sleeper.Process.Pid)
	other := func(change func(*table.Identity)) table.Identity { id := alive; change(&id); return id }
	ended := table.Ended{Kind: table.EndedExit}
	for _, row := range []struct {
		name  string
		id    table.Identity
		held  bool
		ended table.Ended
		child uint32 // pid of a row that is held
		want  table.Status
	}{
		{"alive, has executed another program", alive, false, table.Ended{}, 0, table.Exited},
		{"alive, mapped", alive, true, table.Ended{}, 0, table.Running},
		{"zombie", zombieID, true, table.Ended{}, 0, table.Exited},
		{"pid used again", other(func(id *table.Identity) { id.StartTicks-- }), true, table.Ended{}, 0, table.Exited},
		{"daemon: the child lives", other(func(id *table.Identity) { id.StartTicks-- }), true, ended, alive.Pid, table.Running},
		{"the child's pid is an older process", other(func(id *table.Identity) { id.StartTicks++ }), true, ended, alive.Pid, table.Exited},
		{"other boot, nobody has it", other(func(id *table.Identity) { id.BootID[0]++ }), false, table.Ended{}, 0, table.Exited},
		{"other boot", other(func(id *table.Identity) { id.BootID[0]++ }), true, table.Ended{}, 0, table.Unknown},
		{"other pid namespace", other(func(id *table.Identity) { id.PidNS++ }), true, table.Ended{}, 0, table.Unknown},
		{"other boot, end noted", other(func(id *table.Identity) { id.BootID[0]++ }), true, ended, 0, table.Exited},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := tabletest.Spec()
			spec.Identity = row.id
			live := tabletest.Create(t, "a.dynprof", spec)
			if row.child != 0 {
				live.Row(table.Row{Index: 1, State: table.RowLive, Pid: row.child})
			}
			if row.held {
				m := mapShared(t, live.Path)
				defer syscall.Munmap(m)
			}
			live.Close()
			if row.ended.Kind != 0 {
				if err := table.MarkEnded(live.Path, row.ended); err != nil {
					t.Fatal(err)
				}
			}
			e, err := table.Stat(live.Path)
			if err != nil {
				t.Fatal(err)
			}
			if e.Status != row.want || e.Held != (row.held || row.want == table.Running) {
				t.Errorf("status %v, held %v; want %v, %v", e.Status, e.Held, row.want, row.held)
			}
		})
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
		{"objects", table.HdrObjects, table.ObjEntrySize}, {"functions", table.HdrFunctions, table.FnEntrySize},
		{"aliases", table.HdrAliases, 4}, {"strings", table.HdrStrings, 1},
		{"events", table.HdrEvents, table.EvEntrySize}, {"events of a page", table.HdrEvents, table.PageSize},
		{"fired", table.HdrFired, 4}, {"rows", table.HdrRows, 1 << 31},
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
			live.Write(table.HdrFileSize, le.AppendUint64(nil, huge))
			live.Write(table.HdrEventsHead, le.AppendUint64(nil, math.MaxUint64))
			live.Word(table.HdrRowsUsed, math.MaxUint32)
			if err := os.Truncate(live.Path, huge); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if tab, err := table.Open(live.Path); err == nil {
				snapshot(t, tab)
				if _, err := tab.Events(); err != nil {
					t.Error(err)
				}
				tab.Status()
				tab.Close()
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("took %d bytes", n)
			}
		})
	}
}

// TestFileSizeLimit runs in a process of its own, as the limit is for one.
func TestFileSizeLimit(t *testing.T) {
	if path := os.Getenv("TABLE_TEST_LIMITED"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		createLimited(path)
		os.Exit(0)
	}
	for _, row := range []struct {
		blocks, want string // of 512 bytes
	}{
		{"2000000", "fewer rows"}, {"800", "no spare"}, {"40", "raise it"},
	} {
		t.Run(row.blocks+" blocks", func(t *testing.T) {
			cmd := exec.Command("sh", "-c", `ulimit -f $0 && exec "$1" -test.run "^TestFileSizeLimit\$"`, row.blocks, os.Args[0])
			path := filepath.Join(t.TempDir(), "a.dynprof")
			cmd.Env = append(os.Environ(), "TABLE_TEST_LIMITED="+path)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), row.want) {
				t.Fatalf("got %q (%v), want %s", out, err, row.want)
			}
			if _, err := os.Stat(path); (err == nil) != (row.want != "raise it") {
				t.Errorf("after %q: %v", out, err)
			}
		})
	}
}

func createLimited(path string) {
	f, err := table.Create(path, tabletest.Synthetic(1000))
	switch {
	case err != nil:
		fmt.Print(err)
	case f.CountersCap == 1000 && f.Rows.Capacity >= table.RowsReserved:
		fmt.Print("no spare")
	case f.Rows.Capacity < 1000 && f.Rows.Capacity >= table.MinRows:
		fmt.Print("fewer rows")
	default:
		fmt.Printf("%+v", f.Geometry)
	}
}
