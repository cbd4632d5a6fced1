package alive_test

import (
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

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
	zombieID := alive.Identify(zombie.Process.Pid)
	if err := syscall.Kill(zombie.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var info [128]byte // wait for its end, leave the corpse
	const pPid, wnowait = 1, 0x1000000
	if _, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(zombie.Process.Pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|wnowait, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	defer zombie.Wait()

	living := alive.Identify(sleeper.Process.Pid)
	other := func(change func(*layout.Identity)) layout.Identity { id := living; change(&id); return id }
	ended := layout.Ended{Kind: layout.EndedExit}
	for _, row := range []struct {
		name  string
		id    layout.Identity
		held  bool
		ended layout.Ended
		child uint32 // pid of a row that is held
		want  alive.Status
	}{
		{"alive, has executed another program", living, false, layout.Ended{}, 0, alive.Exited},
		{"alive, mapped", living, true, layout.Ended{}, 0, alive.Running},
		{"zombie", zombieID, true, layout.Ended{}, 0, alive.Exited},
		{"pid used again", other(func(id *layout.Identity) { id.StartTicks-- }), true, layout.Ended{}, 0, alive.Exited},
		{"daemon: the child lives", other(func(id *layout.Identity) { id.StartTicks-- }), true, ended, living.Pid, alive.Running},
		{"the child's pid is an older process", other(func(id *layout.Identity) { id.StartTicks++ }), true, ended, living.Pid, alive.Exited},
		{"other boot, nobody has it", other(func(id *layout.Identity) { id.BootID[0]++ }), false, layout.Ended{}, 0, alive.Exited},
		{"other boot", other(func(id *layout.Identity) { id.BootID[0]++ }), true, layout.Ended{}, 0, alive.Unknown},
		{"other pid namespace", other(func(id *layout.Identity) { id.PidNS++ }), true, layout.Ended{}, 0, alive.Unknown},
		{"other boot, end noted", other(func(id *layout.Identity) { id.BootID[0]++ }), true, ended, 0, alive.Exited},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := tabletest.Spec()
			spec.Identity = row.id
			live := tabletest.Create(t, "a.dynprof", spec)
			if row.child != 0 {
				live.Row(layout.Row{Index: 1, State: layout.RowLive, Pid: row.child})
			}
			if row.held {
				m := tabletest.Map(t, live.Path)
				defer syscall.Munmap(m)
			}
			live.Close()
			if row.ended.Kind != 0 {
				if err := edit.MarkEnded(live.Path, row.ended); err != nil {
					t.Fatal(err)
				}
			}
			e, err := find.Stat(live.Path)
			if err != nil {
				t.Fatal(err)
			}
			if e.Status != row.want || e.Held != (row.held || row.want == alive.Running) {
				t.Errorf("status %v, held %v; want %v, %v", e.Status, e.Held, row.want, row.held)
			}
		})
	}
}
