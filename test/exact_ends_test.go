package test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestExactEnds: however a program ends, its table has every call up to there,
// and the report says how it was.
func TestExactEnds(t *testing.T) {
	lane.Parallel(t)
	const steps = 123_457
	const zero = "\x00\x00\x00\x00"
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "ends.c")
	for _, end := range []struct {
		how    string
		status int
		says   string
		calls  uint64 // of step, in units of steps
		more   string // function with the calls that the program tells of
		tables int    // with --follow-exec
	}{
		{"return", 7, "exited with status 7", 1, "", 1},
		{"_exit", 8, "exited with status 8", 1, "", 1},
		{"exit_group", 6, "exited with status 6", 1, "", 1},
		{"SIGKILL", 137, "killed by signal 9 (killed)", 1, "", 1},
		{"abort", 134, "killed by signal 6 (aborted)", 1, "", 1},
		{"trap", 132, "killed by signal 4 (illegal instruction)", 1, "", 1},
		{"segv", 139, "killed by signal 11 (segmentation fault)", 1, "", 1},
		{"overflow", 139, "killed by signal 11 (segmentation fault)", 1, "sink", 1},
		{"memory", 134, "killed by signal 6 (aborted)", 1, "step", 1},
		{"thread", 137, "killed by signal 9 (killed)", 2, "", 1},
		{"last-thread", 0, "exited with status 0", 2, "", 1},
		{"exec", 5, "exited with status 5", 1, "", 2},
		{"exec-self", 7, "exited with status 7", 1, "", 2},
		{"exec-fails", 4, "exited with status 4", 2, "", 1},
	} {
		t.Run(end.how, func(t *testing.T) {
			t.Parallel()
			file := write(t, filepath.Join(t.TempDir(), "more"), zero, 0o600)
			c := cmd(p, end.how, strconv.Itoa(steps), file)
			if without := run(t, c); without.status != end.status {
				t.Fatalf("without the library: status %d, not %d", without.status, end.status)
			}
			write(t, file, zero, 0o600)
			with, path := countedAt(t, c, "--follow-self=false")
			if with.status != end.status || with.stdout+with.stderr != "" {
				t.Errorf("%+v, not status %d", with, end.status)
			}
			more := uint64(binary.LittleEndian.Uint32([]byte(read(t, file))))
			want := map[string]uint64{"main": 1, "step": end.calls * steps, "sink": 0}
			if end.more != "" {
				want[end.more] += more
			}
			r := readReport(t, path)
			for name, n := range want {
				got := r.calls(t, name)
				// The last call of sink may have found no stack for the tally.
				if got != n && !(name == "sink" && got == n+1 && n > 0) {
					t.Errorf("%s: %d calls, not %d", name, got, n)
				}
			}
			if end.more != "" && more == 0 {
				t.Errorf("%s was never called", end.more)
			}
			out := run(t, cmd(build(t, "hotspots"), "report", path))
			if line, _, _ := strings.Cut(out.stdout, "\n"); !strings.Contains(line, end.says) {
				t.Errorf("%q does not say %q", line, end.says)
			}
			_, tables := countedTables(t, c, "%p.%e", "--follow-exec")
			if len(tables) != end.tables {
				t.Errorf("with --follow-exec %d tables, not %d: %v", len(tables), end.tables, tables)
			}
			for _, path := range tables {
				if r := readReport(t, path); r.Program == p && r.calls(t, "step") < steps {
					t.Errorf("%s: %d calls of step", path, r.calls(t, "step"))
				}
			}
		})
	}
}

// TestExactStrayEnds: what ends without a stack of its own ends all the same, is
// counted, and nothing is written to where its stack was. Rows are used again.
func TestExactStrayEnds(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O2"}, "strayends.c")
	for _, how := range []string{"given", "gone", "process"} {
		t.Run(how, func(t *testing.T) {
			without := run(t, cmd(p, how))
			if without.status != 0 {
				t.Fatalf("without the library: %+v", without)
			}
			var work uint64
			if how != "process" {
				work = 50 * 100
			}
			for _, flags := range [][]string{nil, {"--keep-calls"}, {"--objects", "all", "--threshold", "100", "--control"}, {"--lock"}} {
				with, path := countedAt(t, cmd(p, how), flags...)
				same(t, without, with)
				if got := readReport(t, path).calls(t, "work"); got != work {
					t.Errorf("%v: work: %d calls, not %d", flags, got, work)
				}
			}
			table := filepath.Join(t.TempDir(), "preloaded")
			same(t, without, run(t, cmd("env", "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, p, how)))
			if rows := headerWord(t, table, layout.HdrRowsUsed); how != "process" && rows > 4 {
				t.Errorf("%d rows for threads that live one at a time", rows)
			}
		})
	}
}

// headerWord returns a word of a table's header; a table is too large to be read.
func headerWord(t *testing.T, table string, at int64) uint32 {
	t.Helper()
	f, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var word [4]byte
	if _, err := f.ReadAt(word[:], at); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(word[:])
}
