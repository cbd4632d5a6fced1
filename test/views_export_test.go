package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What is exported, as those read it who it is for.

// exportOf writes a file in a format.
func exportOf(t *testing.T, format string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out."+format)
	if r := run(t, cmd(append([]string{build(t, "hotspots"), "export", "--format", format, "-o", path}, args...)...)); r != (result{}) {
		t.Fatalf("%+v", r)
	}
	return path
}

// installed is a file that make deps, or what else is named, installs.
func installed(t *testing.T, path, by string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s on this machine (%s installs it)", path, by)
	}
	return path
}

// sqlTables are two tables of SQLite, the second with blocks.
func sqlTables(t *testing.T) (plain, blocks string) {
	t.Helper()
	c := cmd(need(t, "sqlite3"), ":memory:", "create table t(a); insert into t values(1),(2),(3); select sum(a) from t;")
	for i, table := range []*string{&plain, &blocks} {
		var r result
		if r, *table = countedAt(t, c, [][]string{nil, {"--blocks"}}[i]...); r.stdout != "6\n" {
			t.Fatalf("%+v", r)
		}
	}
	return plain, blocks
}

// TestExportFolded: flamegraph.pl draws what is exported, with the sum of all calls, or of
// all instructions.
func TestExportFolded(t *testing.T) {
	lane.Parallel(t)
	draw := installed(t, "/usr/share/perl5/Devel/NYTProf/flamegraph.pl", "make deps")
	plain, blocks := sqlTables(t)
	for _, row := range []struct {
		table, unit string
		args        []string
		total       uint64
	}{
		{plain, "calls", nil, readReport(t, plain).TotalCalls},
		{blocks, "calls", []string{"--value", "calls"}, readReport(t, blocks).TotalCalls},
		{blocks, "instructions", nil, readReport(t, blocks).TotalInstructions},
	} {
		if row.table == plain && setting("TEST_BLOCKS") != "" {
			continue // it has blocks, too
		}
		stacks := exportOf(t, "folded", append(row.args, row.table)...)
		r := run(t, cmd(need(t, "perl"), draw, "--countname", row.unit, stacks))
		if want := fmt.Sprintf("<title>all (%s %s, 100%%)</title>", thousands(row.total), row.unit); !strings.Contains(r.stdout, want) || r.status != 0 {
			t.Errorf("%v: not %s: %.3000s%s", row.args, want, r.stdout, r.stderr)
		}
	}
	// Pairs of caller and callee: of each function all calls are there, from somewhere.
	r := run(t, cmd(build(t, "hotspots"), "calls", "--format", "folded", "--no-demangle", blocks))
	pairs := map[string]uint64{}
	for line := range strings.Lines(r.stdout) {
		m := regexp.MustCompile(`^[^;]+;([^;]+) (\d+)\n$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q", line)
		}
		n, _ := strconv.ParseUint(m[2], 10, 64)
		pairs[m[1]] += n
	}
	calls := map[string]uint64{}
	for _, f := range readReport(t, blocks).Functions {
		if f.Calls > 0 {
			calls[f.Name] += f.Calls
		}
	}
	for name, n := range calls {
		if pairs[name] != n {
			t.Errorf("%s: %d calls, by pairs %d", name, n, pairs[name])
		}
	}
}

// TestExportReport: csv and json are those of report.
func TestExportReport(t *testing.T) {
	lane.Parallel(t)
	plain, blocks := sqlTables(t)
	for _, format := range []string{"csv", "json"} {
		got := read(t, exportOf(t, format, plain, blocks))
		if want := run(t, cmd(build(t, "hotspots"), "report", "--format", format, plain, blocks)).stdout; got != want || got == "" {
			t.Errorf("%s: %s", format, difference(want, got))
		}
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, exportOf(t, "csv", plain)))).ReadAll()
	if err != nil || len(rows) != 1+len(readReport(t, plain).Functions) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// duckdb answers SQL, a row a line, its columns as JSON.
func duckdb(t *testing.T, sql string) string {
	t.Helper()
	module := installed(t, filepath.Join(built, "node_modules/@duckdb/node-api"), "make duckdb")
	script := `require(process.argv[1]).DuckDBInstance.create(":memory:").then(async db => {
		const rows = await (await db.connect()).runAndReadAll(process.argv[2])
		for (const row of rows.getRowsJson()) console.log(JSON.stringify(row))
	})`
	r := run(t, cmd(need(t, "node"), "-e", script, module, sql))
	if r.status != 0 {
		t.Fatalf("%s: %s", sql, r.stderr)
	}
	return r.stdout
}

// TestExportDuckDB: a database reads Parquet of several tables as they are.
func TestExportDuckDB(t *testing.T) {
	lane.Parallel(t)
	plain, blocks := sqlTables(t)
	path := exportOf(t, "parquet", plain, blocks)
	for _, table := range []string{plain, blocks} {
		rep := readReport(t, table)
		counted := len(slices.DeleteFunc(slices.Clone(rep.Functions), func(f function) bool { return f.Tactic == "none" }))
		instructions := "null"
		if rep.TotalInstructions > 0 {
			instructions = fmt.Sprintf("%q", fmt.Sprint(rep.TotalInstructions))
		}
		want := fmt.Sprintf("[\"%d\",\"%d\",\"%d\",%s]\n", len(rep.Functions), counted, rep.TotalCalls, instructions)
		got := duckdb(t, fmt.Sprintf("SELECT count(*), count(calls), sum(calls), sum(instructions) FROM '%s' WHERE pid = %d AND program = '%s'", path, rep.Pid, rep.Program))
		if got != want {
			t.Errorf("%s: %s, not %s", table, got, want)
		}
		f := slices.MaxFunc(rep.Functions, func(a, b function) int { return int(a.Calls) - int(b.Calls) })
		var row []string
		if err := json.Unmarshal([]byte(duckdb(t, fmt.Sprintf("SELECT function, printf('0x%%x', address), calls::VARCHAR, object FROM '%s' WHERE pid = %d ORDER BY calls DESC NULLS LAST LIMIT 1", path, rep.Pid))), &row); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(row, []string{f.Name, f.Address, fmt.Sprint(f.Calls), f.Object}) {
			t.Errorf("%q, not %+v", row, f)
		}
	}
}

// TestExportOpenMetrics: the reference parser of OpenMetrics, which is strict, reads what is
// exported, and the sum is that of all calls.
func TestExportOpenMetrics(t *testing.T) {
	lane.Parallel(t)
	installed(t, "/usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py", "make deps")
	plain, blocks := sqlTables(t)
	r := run(t, cmd("/usr/bin/python3", "-c", `
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
calls = 0
for family in text_string_to_metric_families(open(sys.argv[1]).read()):
    for sample in family.samples:
        if sample.name in ("dynprof_function_calls_total", "dynprof_other_function_calls_total"):
            calls += sample.value
print(int(calls))`, exportOf(t, "openmetrics", plain, blocks)))
	if want := fmt.Sprintln(readReport(t, plain).TotalCalls + readReport(t, blocks).TotalCalls); r.stdout != want {
		t.Errorf("%+v, not %s", r, want)
	}
}
