package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

const tableSuffix = ".dynprof"

// tables are the count tables that a command's processes leave in a directory.
// With blocks one has 10 to 20 MB, and some commands start thousands of processes:
// they are removed while the command runs, as their processes end.
type tables struct {
	dir     string
	read    bool // by hotspots run, at the end of the process: they stay until the command has ended
	counted int  // tables seen
	warm    int  // of processes that started without a planner
}

// neededMeanwhile is the room in bytes below which a command is given up: where
// memory is full other programs are ended, too.
const neededMeanwhile = 512 << 20

// watch removes tables until ctx is done. It ends the command, by stop, where
// there is no room for more.
func (t *tables) watch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !t.read {
			t.take(false)
		}
		if n := min(room(t.dir), available()); n < neededMeanwhile {
			stop(fmt.Errorf("%d MB of room are left", n>>20))
		}
	}
}

// take counts and removes the tables of processes that have ended, or all.
func (t *tables) take(all bool) {
	names, _ := os.ReadDir(t.dir)
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), tableSuffix) || !all && lives(name.Name()) {
			continue
		}
		path := filepath.Join(t.dir, name.Name())
		if startedWarm(path) {
			t.warm++
		}
		if os.Remove(path) == nil {
			t.counted++
		}
	}
}

// lives reports whether the process that a table's name begins with is there.
func lives(table string) bool {
	pid, _, _ := strings.Cut(table, ".")
	if _, err := strconv.Atoi(pid); err != nil {
		return true
	}
	_, err := os.Stat(filepath.Join("/proc", pid))
	return err == nil
}

// startedWarm is what a table says of its program's start.
func startedWarm(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [layout.HeaderSize]byte
	_, err = f.ReadAt(head[:], 0)
	return err == nil && binary.LittleEndian.Uint32(head[layout.HdrFlags:])&layout.FlagWarm != 0
}
