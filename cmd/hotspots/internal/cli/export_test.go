package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/dynprof/dynprof/internal/table/build"
)

// two are tables of two programs of one run.
func two(t *testing.T) (dir, one, other string) {
	dir = t.TempDir()
	one = demoTable(t, filepath.Join(dir, "one.dynprof"), nil)
	return dir, one, demoTable(t, filepath.Join(dir, "two.dynprof"), func(s *build.Spec) {
		s.Pid, s.Program, s.Realtime = 4300, "/opt/demo/child;x", s.Realtime.Add(time.Minute)
	})
}

func TestExportText(t *testing.T) {
	_, one, other := two(t)
	for name, args := range map[string][]string{
		"report.csv": {"csv", one}, "report.json": {"json", one},
		"export.folded": {"folded", one, other}, "export.openmetrics": {"openmetrics", one, other},
	} {
		out, errOut, status := hotspots(append([]string{"export", "--format"}, args...)...)
		if status != 0 || errOut != "" {
			t.Fatalf("%s: status %d: %s", name, status, errOut)
		}
		golden(t, name, out)
	}
}

// TestExportFile: to a file goes what goes to stdout.
func TestExportFile(t *testing.T) {
	dir, one, _ := two(t)
	for _, format := range exportFormats {
		want, _, _ := hotspots("export", "--format", format, one)
		path := filepath.Join(dir, "new", format) // folders are made
		out, errOut, status := hotspots("export", "--format", format, one, "-o", path)
		if got, err := os.ReadFile(path); err != nil || string(got) != want || out+errOut != "" || status != 0 || want == "" {
			t.Errorf("%s: status %d, %s%s; %v, %d bytes, not %d", format, status, out, errOut, err, len(got), len(want))
		}
	}
}

// exported is a row of a Parquet file.
type exported struct {
	Host     string    `parquet:"host"`
	Run      *string   `parquet:"run"`
	Started  time.Time `parquet:"started,timestamp(microsecond)"`
	Program  string    `parquet:"program"`
	Pid      uint32    `parquet:"pid"`
	Object   string    `parquet:"object"`
	Address  uint64    `parquet:"address"`
	Function string    `parquet:"function"`
	Calls    *uint64   `parquet:"calls"`
	Executed *uint64   `parquet:"instructions"`
}

func TestExportParquet(t *testing.T) {
	dir, one, _ := two(t)
	path := filepath.Join(dir, "out")
	if _, errOut, status := hotspots("export", "--run", "--format=parquet", "--host=h1", one, "-o", path); status != 0 {
		t.Fatal(errOut)
	}
	rows, err := parquet.ReadFile[exported](path)
	const functions = 6 // of a table: all but _start
	if err != nil || len(rows) != 2*functions {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	add := rows[slices.IndexFunc(rows, func(r exported) bool { return r.Pid == 4300 && r.Address == 0x1160 })]
	if add.Host != "h1" || *add.Run != "abcd"+strings.Repeat("0", 28) || add.Started.Unix() != 1700000060 || add.Program != "/opt/demo/child;x" ||
		add.Object != "/opt/demo/demo" || add.Function != "demo::add(int, int)" || *add.Calls != 1500 || add.Executed != nil {
		t.Errorf("%+v", add)
	}
	tiny := rows[slices.IndexFunc(rows, func(r exported) bool { return r.Function == "tiny" })]
	if tiny.Calls != nil {
		t.Errorf("%d calls of what is not counted", *tiny.Calls)
	}
}

func TestExportErrors(t *testing.T) {
	dir, one, other := two(t)
	copied := filepath.Join(dir, "copy.dynprof")
	b, err := os.ReadFile(one)
	if err == nil {
		err = os.WriteFile(copied, b, 0o600)
	}
	if err == nil {
		err = os.Symlink(one, filepath.Join(dir, "link"))
	}
	if err != nil {
		t.Fatal(err)
	}
	again := demoTable(t, filepath.Join(dir, "again.dynprof"), nil)
	for _, row := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{one, other}, 2, "callgrind is of one table, and there are 2"},
		{[]string{one, "-o", filepath.Join(dir, "link")}, 2, "would write over the table"},
		{[]string{one, copied, "--format=parquet"}, 1, "are of one program"},
		{[]string{one, copied, "--format=openmetrics"}, 1, "are of one program"},
		{[]string{one, copied, "--format=csv"}, 1, "are of one program"},
		{[]string{one, again, "--format=openmetrics"}, 1, "would not tell them apart"},
		{[]string{one, "--format=folded", "--value=instructions"}, 1, "add --value calls"},
		{[]string{one, "--format=xml"}, 2, "callgrind, pprof, folded, csv, json, parquet, openmetrics"},
		{[]string{filepath.Join(dir, "none"), "--format=json"}, 1, "no such file"},
		{[]string{one, "--format=parquet", "-o", filepath.Join(one, "dir")}, 1, "not a directory"},
		{[]string{one, "--format=parquet", "-o", "/dev/full"}, 1, "no space left"},
	} {
		out, errOut, status := hotspots(append([]string{"export"}, row.args...)...)
		if status != row.status || !strings.Contains(errOut, row.says) || out != "" || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: status %d, stdout %q, stderr %q", row.args, status, out, errOut)
		}
	}
	if after, err := os.ReadFile(one); err != nil || string(after) != string(b) {
		t.Error("the table has changed")
	}
}

// TestExportTerminal: bytes that are no text are not shown on a terminal.
func TestExportTerminal(t *testing.T) {
	_, one, _ := two(t)
	tt := newTerminal(t)
	cmd := command(t, "true")
	cmd.Args = []string{cmd.Args[0], "export", "--format", "parquet", one}
	tt.start(cmd)
	tt.expect("hotspots: --format parquet is no text for a terminal: name a file with -o FILE\r\n")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitUsage {
		t.Error(cmd.ProcessState)
	}
}
