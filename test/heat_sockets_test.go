package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestHeatSockets: what recv, send and their like have moved is what the program adds up by itself: all six
// system calls, in parts, of several buffers and messages, that fail, are interrupted, made again, left and
// cancelled; by threads on several cores, also where they share a row, by forked children that are killed;
// also where libc's functions run as copies, by plans of an earlier start, and beside regions.
func TestHeatSockets(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Wextra", "-Werror", "-pthread"}, "heat_sockets.c")
	for _, row := range []struct {
		name, flags, show string
		more              []string
		status            int
	}{
		{"heat", "--heat=pages", "heat", nil, 0},
		{"again", "--heat=pages", "heat", nil, 0},
		{"killed", "--heat=pages", "heat", []string{"kill"}, 128 + int(syscall.SIGKILL)},
		{"all", "--heat --objects all", "heat", nil, 0},
		{"shared", "--heat=pages --lock", "heat", nil, 0},
		{"regions", "--regions", "regions", nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table")
			command := append([]string{build(t, "hotspots"), "run"}, strings.Fields(row.flags)...)
			command = append(append(command, "--summary", "0", "-o", path, "--", program), row.more...)
			ran := run(t, cmd(command...))
			if ran.status != row.status {
				t.Fatalf("%+v", ran)
			}
			got := socketsOf(t, row.show, path)
			if told := fmt.Sprintln(got.ReceiveCalls, got.StoredBytes, got.ReceivesUntold, got.SendCalls, got.LoadedBytes, got.SendsUntold); told != ran.stdout {
				t.Errorf("%q, and the program says %q", told, ran.stdout)
			}
		})
	}
}

// TestHeatSocketsElsewhere: nothing is added up where nobody asks what memory is touched.
func TestHeatSocketsElsewhere(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "heat_transfers.c")
	dir := t.TempDir()
	path := filepath.Join(dir, "table")
	if r := run(t, cmd(build(t, "hotspots"), "run", "--blocks", "--summary", "0", "-o", path, "--", program, "10000", filepath.Join(dir, "file"))); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for i := range tab.Objects {
		if o := &tab.Objects[i]; o.Flags&layout.ObjTransfers != 0 {
			t.Errorf("%+v", o)
		}
	}
	if s := tab.Header.Sockets; s != (layout.Sockets{}) {
		t.Errorf("%+v", s)
	}
}

type sockets struct {
	StoredBytes    uint64 `json:"stored_bytes"`
	ReceiveCalls   uint64 `json:"receive_calls"`
	ReceivesUntold uint64 `json:"receives_untold"`
	LoadedBytes    uint64 `json:"loaded_bytes"`
	SendCalls      uint64 `json:"send_calls"`
	SendsUntold    uint64 `json:"sends_untold"`
}

// socketsOf is what hotspots heat or regions says.
func socketsOf(t *testing.T, show, path string) sockets {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), show, path, "--format", "json"))
	var m struct{ Unseen struct{ Sockets *sockets } }
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil || m.Unseen.Sockets == nil {
		t.Fatalf("%.300s: %v", r.stdout, err)
	}
	return *m.Unseen.Sockets
}
