package test

import (
	"encoding/json"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestHeatTransfers: what the kernel has read of a program's memory, and stored there, by write and read
// is told, and what send and recv transfer is not among it; also of one that kills itself, and beside
// regions.
func TestHeatTransfers(t *testing.T) {
	lane.Parallel(t)
	const bytes, calls = 10_000_000, 10_000
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "heat_transfers.c")
	for _, row := range []struct {
		name, flag, show string
		more             []string
		status           int
	}{
		{"heat", "--heat=pages", "heat", nil, 0},
		{"killed", "--heat=pages", "heat", []string{"kill"}, 128 + int(syscall.SIGKILL)},
		{"regions", "--regions", "regions", nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			table, file := filepath.Join(t.TempDir(), "table"), filepath.Join(t.TempDir(), "file")
			command := append([]string{build(t, "hotspots"), "run", row.flag, "--summary", "0", "-o", table, "--", program, "10000000", file}, row.more...)
			if r := run(t, cmd(command...)); r.status != row.status {
				t.Fatalf("%+v", r)
			}
			r := run(t, cmd(build(t, "hotspots"), row.show, table, "--format", "json"))
			var m struct {
				Unseen struct {
					VDSO   bool
					Kernel *struct {
						Stored     uint64 `json:"stored_bytes"`
						ReadCalls  uint64 `json:"read_calls"`
						Loaded     uint64 `json:"loaded_bytes"`
						WriteCalls uint64 `json:"write_calls"`
					}
				}
			}
			if err := json.Unmarshal([]byte(r.stdout), &m); err != nil || m.Unseen.Kernel == nil || !m.Unseen.VDSO {
				t.Fatalf("%+v: %v", m, err)
			}
			const ours = bytes / 2 // of the dynamic linker's and dynprof's at most
			k := m.Unseen.Kernel
			for what, n := range map[string][3]uint64{"read": {k.Stored, bytes, bytes + ours}, "written": {k.Loaded, bytes, bytes + ours}, "read calls": {k.ReadCalls, calls, calls + calls/2}, "write calls": {k.WriteCalls, calls, calls + calls/2}} {
				if n[0] < n[1] || n[0] > n[2] {
					t.Errorf("%s: %d, not %d to %d", what, n[0], n[1], n[2])
				}
			}
		})
	}
}
