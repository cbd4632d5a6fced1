package alive_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// process runs a program until the test ends.
func process(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// TestCounting: who has the table mapped counts, who only reads it does not.
func TestCounting(t *testing.T) {
	self, other := alive.Identify(os.Getpid()), alive.Identify(process(t, "sleep", "1000").Process.Pid)
	changed := func(id layout.Identity, change func(*layout.Identity)) layout.Identity { change(&id); return id }
	for _, row := range []struct {
		name   string
		id     layout.Identity
		flags  uint32
		row    *layout.Row
		opened bool // by a reader
		mapped bool // by this process
		want   bool
		state  alive.Status
	}{
		{"the program itself", self, 0, nil, false, true, true, alive.Running},
		{"nobody has it", self, 0, nil, false, false, false, alive.Exited},
		{"a reader has it", self, 0, nil, true, false, false, alive.Running},
		{"the program lives and maps it no more", other, 0, nil, true, false, false, alive.Running},
		{"a child", changed(self, func(id *layout.Identity) { id.Pid = other.Pid }), 0, &layout.Row{Index: 1, State: layout.RowLive, Pid: self.Pid}, false, true, true, alive.Running},
		{"a child is being born", other, 0, &layout.Row{Index: 1, State: layout.RowBirthing}, true, false, true, alive.Running},
		{"a child has ended", other, 0, &layout.Row{Index: 1, State: layout.RowFree, Pid: self.Pid}, true, false, false, alive.Running},
		{"a process older than the program", changed(self, func(id *layout.Identity) { id.Pid = 1 << 30; id.StartTicks++ }), 0, &layout.Row{Index: 1, State: layout.RowLive, Pid: self.Pid}, false, true, false, alive.Exited},
		{"a row tells of no child", other, layout.FlagShared, nil, true, false, true, alive.Running},
		{"another boot", changed(self, func(id *layout.Identity) { id.BootID[3]++ }), 0, nil, true, false, true, alive.Unknown},
		{"another pid namespace", changed(self, func(id *layout.Identity) { id.PidNS++ }), 0, nil, true, false, true, alive.Unknown},
		{"a number used again", changed(self, func(id *layout.Identity) { id.StartTicks++ }), 0, nil, true, false, false, alive.Exited},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := tabletest.Spec()
			spec.Identity, spec.Flags = row.id, row.flags
			live := tabletest.Create(t, "a.dynprof", spec)
			if row.row != nil {
				live.Row(*row.row)
			}
			live.Close()
			if row.opened {
				tabletest.Open(t, live.Path)
			}
			if row.mapped {
				m := tabletest.Map(t, live.Path)
				defer syscall.Munmap(m)
			}
			if got, err := alive.Counting(live.Path); got != row.want || err != nil {
				t.Errorf("counting: %v, %v; want %v", got, err, row.want)
			}
			f, err := file.OpenHead(live.Path, os.O_RDONLY)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := alive.Of(f); got != row.state {
				t.Errorf("status %v, want %v", got, row.state)
			}
		})
	}
}

// A table that is read from something else than its file tells only by numbers.
func TestOfBytes(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*layout.Identity)
		ended  bool
		counts bool
		want   alive.Status
	}{
		"this process":     {func(id *layout.Identity) {}, false, true, alive.Running},
		"ended":            {func(id *layout.Identity) { id.StartTicks++ }, false, false, alive.Exited},
		"elsewhere":        {func(id *layout.Identity) { id.BootID[0]++ }, false, true, alive.Unknown},
		"elsewhere, ended": {func(id *layout.Identity) { id.BootID[0]++ }, true, false, alive.Exited},
		"no identity":      {func(id *layout.Identity) { *id = layout.Identity{Realtime: id.Realtime} }, false, true, alive.Unknown},
	} {
		spec := tabletest.Spec()
		spec.Identity = alive.Identify(os.Getpid())
		row.change(&spec.Identity)
		live := tabletest.Create(t, "a.dynprof", spec)
		if row.ended {
			live.Word(layout.HdrEnded, layout.EndedSignal)
		}
		b, err := os.ReadFile(live.Path)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if got, counts := alive.Of(tab.File), alive.CountsInto(tab.File); got != row.want || counts != row.counts {
			t.Errorf("%s: %v, counting %v; want %v, %v", name, got, counts, row.want, row.counts)
		}
	}
}

func TestCountingFails(t *testing.T) {
	live := tabletest.Create(t, "a.dynprof", tabletest.Spec())
	live.Word(layout.HdrState, layout.StateBuilding)
	for path, want := range map[string]error{live.Path: layout.ErrBuilding, t.TempDir() + "/no": os.ErrNotExist, t.TempDir(): layout.ErrNotTable} {
		if got, err := alive.Counting(path); got || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v; want %v", path, got, err, want)
		}
	}
}

// A process may have any name.
func TestStart(t *testing.T) {
	for _, name := range []string{"sleep", "a b", "a) R 1 2 (", ") Z"} {
		path := filepath.Join(t.TempDir(), name)
		b, err := os.ReadFile("/bin/sleep")
		if err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
		before := alive.Start(uint32(os.Getpid()))
		pid := uint32(process(t, path, "1000").Process.Pid)
		if got := alive.Start(pid); got < before || got == 0 {
			t.Errorf("%q: started at %d, this process at %d", name, got, before)
		}
		if again, id := alive.Start(pid), alive.Identify(int(pid)); id.StartTicks != again || id.Pid != pid || id.BootID == [16]byte{} || id.PidNS == 0 || id.Monotonic == 0 {
			t.Errorf("%q: %+v", name, id)
		}
	}
	for _, pid := range []uint32{0, 1 << 31} {
		if n := alive.Start(pid); n != 0 {
			t.Errorf("process %d started at %d", pid, n)
		}
	}
	if id := alive.Identify(1 << 30); id.StartTicks != 0 || id.PidNS != 0 || alive.SamePidNS(&id) || !alive.SameKernel(&id) {
		t.Errorf("nobody is %+v", id)
	}
}

func TestStatusWords(t *testing.T) {
	var words []string
	for s := alive.Unknown; s <= alive.Copied+1; s++ {
		words = append(words, s.String())
	}
	if got := strings.Join(words, " "); got != "unknown running exited snapshot unknown" {
		t.Error(got)
	}
}
