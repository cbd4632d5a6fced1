package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestCompact: when nobody counts any more, a table is about as large as what it
// holds, also for what knows no holes.
func TestCompact(t *testing.T) {
	lane.Parallel(t)
	python := "/usr/bin/python3.11"
	needFile(t, python)
	hotspots, tar := build(t, "hotspots"), need(t, "tar")
	script := `import json, threading
for i in range(20):
    t = threading.Thread(target=lambda: json.dumps([1] * 100)); t.start(); t.join()`
	for name, flags := range map[string][]string{
		"default": nil, "all": {"--objects", "all"}, "all, controlled": {"--objects", "all", "--threshold", "1000", "--control"},
	} {
		t.Run(name, func(t *testing.T) {
			r, table := countedAt(t, cmd(python, "-S", "-c", script), flags...)
			if r.status != 0 || r.stderr != "" {
				t.Fatalf("%+v", r)
			}
			before := readReport(t, table)
			checkCompact(t, tar, table, len(before.Functions))
			// It is a table like any other.
			run(t, cmd(hotspots, "reset", table))
			if now := readReport(t, table); now.TotalCalls != 0 || before.TotalCalls == 0 || len(now.Functions) != len(before.Functions) {
				t.Errorf("%d calls of %d functions, and after a reset %d of %d", before.TotalCalls, len(before.Functions), now.TotalCalls, len(now.Functions))
			}
		})
	}
	t.Run("preload", func(t *testing.T) {
		table := filepath.Join(t.TempDir(), "table")
		c := cmd(python, "-S", "-c", script)
		c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table}
		run(t, c)
		before := readReport(t, table)
		if r := run(t, cmd(hotspots, "compact", table)); r.status != 0 || r.stdout+r.stderr != "" {
			t.Errorf("%+v", r)
		}
		checkCompact(t, tar, table, len(before.Functions))
		if now := readReport(t, table); now.TotalCalls != before.TotalCalls || !slices.EqualFunc(now.Functions, before.Functions, func(a, b function) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Error("the report is another")
		}
	})
}

// checkCompact allows 120 bytes for a function with its name, and the rows.
func checkCompact(t *testing.T, tar, table string, functions int) {
	t.Helper()
	const rows = 8
	limit := int64(functions*(120+8*(rows+4)) + 1<<20)
	fi, err := os.Stat(table)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tar, "-C", filepath.Dir(table), "-c", filepath.Base(table)).Output()
	if err != nil || fi.Size() > limit || int64(len(out)) > limit+20480 {
		t.Errorf("%d bytes, in a tar %d, of %d functions (%v)", fi.Size(), len(out), functions, err)
	}
}

// A child that lives on goes on counting into a table of run that has ended.
func TestCompactNotYet(t *testing.T) {
	lane.Parallel(t)
	table := filepath.Join(t.TempDir(), "table")
	c := exec.Command(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", "sh", "-c", "{ read x; while [ $((i=i+1)) -lt 1000 ]; do :; done; echo done; } <&3 >&4 & exit 3")
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.ExtraFiles = []*os.File{from, says}
	c.Run()
	from.Close()
	says.Close()
	before := readReport(t, table)
	if r := run(t, cmd(build(t, "hotspots"), "compact", table)); r.status != 1 || !strings.Contains(r.stderr, "a process counts into it") {
		t.Errorf("%+v", r)
	}
	fmt.Fprintln(to, "go on")
	if line := make([]byte, 5); read1(said, line) != "done\n" {
		t.Fatalf("%q", line)
	}
	if now := readReport(t, table); now.TotalCalls < before.TotalCalls+1000 {
		t.Errorf("%d calls, then %d", before.TotalCalls, now.TotalCalls)
	}
	to.Close()
	for limit := time.Now().Add(patience); run(t, cmd(build(t, "hotspots"), "compact", table)).status != 0; {
		if time.Now().After(limit) {
			t.Fatal("the child does not end")
		}
	}
}

func read1(f *os.File, b []byte) string {
	n, _ := f.Read(b)
	return string(b[:n])
}
