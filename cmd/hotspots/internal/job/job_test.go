package job

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

const pid = 4242 // of tabletest.Spec

// makeTable makes a table of a run with that name.
func makeTable(t *testing.T, path string, run byte) {
	t.Helper()
	spec := tabletest.Spec()
	spec.RunID = [16]byte{run}
	tabletest.CreateAt(t, path, spec)
}

// TestTables: a run finds what it has left, whatever name that got, and nothing else.
func TestTables(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, output, program string
		ours, others          string
		many                  bool
	}{
		{"its name", "%e.%p.dynprof", "program", "program.4242.dynprof", "program.4243.dynprof program.4242.2.dynprof", false},
		{"a link's target", "%e.%p.dynprof", "link", "program.4242.dynprof", "link.4242.dynprof", false},
		{"the name was taken", "%e.%p.dynprof", "program", "program.4242.3.dynprof", "program.4242.dynprof program.4242.2.dynprof", false},
		{"a script", "%e.%p.dynprof", "script", "sh.4242.dynprof", "script.4243.dynprof", false},
		{"another number", "%e.%p.dynprof", "program", "program.7.dynprof", "program.4242.dynprof", false},
		{"one file", "table", "program", "table", "table2 table3", false},
		{"one file, taken", "table.dynprof", "program", "table.2.dynprof", "table.dynprof", false},
		{"many programs", "%e.%p.dynprof", "program", "make.7.dynprof program.4242.dynprof sh.8.dynprof", "sh.9.dynprof", true},
		{"signs of patterns", "[a]*%%%p", "program", "[a]*%4242", "a*%4242", false},
		{"none", "%e.%p.dynprof", "program", "", "program.4242.dynprof", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := t.TempDir()
			for _, name := range strings.Fields(row.ours) {
				makeTable(t, filepath.Join(at, name), 1)
			}
			for _, name := range strings.Fields(row.others) {
				makeTable(t, filepath.Join(at, name), 2)
			}
			j := &Job{ID: [16]byte{1}, Output: filepath.Join(at, row.output), Many: row.many}
			var got []string
			for _, e := range j.tables(filepath.Join(dir, row.program), pid) {
				got = append(got, filepath.Base(e.Path))
			}
			if slices.Sort(got); strings.Join(got, " ") != row.ours {
				t.Errorf("%q, not %q", got, row.ours)
			}
		})
	}
}

// TestFinish: the end is noted, the summary shown, and a run that has left nothing says so.
func TestFinish(t *testing.T) {
	at := t.TempDir()
	table := filepath.Join(at, "table")
	tabletest.Demo(t, table, tabletest.Spec()).Close()
	var out bytes.Buffer
	j := &Job{ID: tabletest.Spec().RunID, Output: table, Note: filepath.Join(at, "note"), Summary: 2, Messages: &out}
	if !j.Finish("/opt/demo/demo", launch.Result{Pid: pid, Code: 3}) {
		t.Error("nothing counted")
	}
	for _, want := range []string{"exited with status 3: 2,223 calls", "demo::add", "main\n", "more with: hotspots report " + table + "\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	out.Reset()
	j = &Job{ID: j.ID, Output: table + "2", Note: j.Note, Summary: 2, Messages: &out}
	if j.Finish("/opt/demo/demo", launch.Result{Pid: pid}) || out.String() != "hotspots: nothing was counted: /opt/demo/demo left no count table\n" {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	if err := os.WriteFile(j.Note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j.Finish("/opt/demo/demo", launch.Result{Pid: pid}) || out.String() != "" {
		t.Errorf("the library has said it: %q", out.String())
	}
}
