package test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"

	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestScale: one hotspots serve with very many tables answers with all of them,
// and its memory follows the series and not the programs. The long lane
// takes 1,000 tables of 2,000 functions each, and says how long a scrape took.
func TestScale(t *testing.T) {
	lane.Parallel(t)
	tables, functions := lane.Of(100, 1000), lane.Of(500, 2000)
	dir, spec := t.TempDir(), tabletest.Synthetic(functions)
	counts := make([]uint64, functions)
	want := 0.0
	for i := range counts {
		counts[i] = uint64(i)
		want += float64(4*i) * float64(tables)
	}
	for i := range tables {
		spec.Program = fmt.Sprintf("/usr/local/bin/program%04d", i)
		live := tabletest.CreateAt(t, filepath.Join(dir, fmt.Sprint(i, tabledir.Ext)), spec)
		for row := range uint32(4) {
			live.Row(layout.Row{Index: row, State: layout.RowLive, Pid: 1, Tid: 1})
			live.Set(row, counts...)
		}
	}
	socket, kept := filepath.Join(t.TempDir(), "socket"), filepath.Join(t.TempDir(), "series")
	c := background(t, nil, build(t, "hotspots"), "serve", "--state", kept, "--linger", "1h", "--listen", "unix:"+socket, dir)
	scrapeAt(t, "unix:"+socket)
	for range 5 {
		begin, before := time.Now(), cpu(c.Process.Pid)
		r, err := dial("unix:" + socket).Get("http://dynprof/metrics")
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := io.Copy(io.Discard, r.Body)
		if r.Body.Close(); err != nil {
			t.Fatal(err)
		}
		took, busy := time.Since(begin).Round(time.Millisecond), cpu(c.Process.Pid)-before
		s := scrapeAt(t, "unix:"+socket)
		if n := len(s.calls); n != 50*tables || s.total() != want {
			t.Errorf("%d series, %v calls; want %d, %v", n, s.total(), 50*tables, want)
		}
		t.Logf("%d tables, %d series by name, %d bytes: %v, %v of CPU time, VmHWM %s", tables, len(s.calls), bytes, took, busy, state(c.Process.Pid, "VmHWM"))
	}
	if fi, err := os.Stat(kept); err != nil || fi.Size() > 1<<20 {
		t.Errorf("what series began with: %v, %v", fi, err)
	} else {
		t.Logf("what series began with: %d bytes", fi.Size())
	}
	if kb := number(state(c.Process.Pid, "VmHWM")); kb > 200<<10 {
		t.Errorf("hotspots serve took %d KiB", kb)
	}
}

// cpu is the time that a process has been running on the CPUs, in steps of 10 ms.
func cpu(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	return time.Duration(number(fields[11])+number(fields[12])) * time.Second / 100
}
