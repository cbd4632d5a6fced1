package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// demoTimes are those of the demo table: of functions that are counted, one that is not, one
// in no ledger, code in none, the kernel.
func demoTimes() *cputime.File {
	const demo, library = "/opt/demo/demo", "/usr/lib/libdemo.so.1"
	return &cputime.File{
		Period: 1_000_000, Kernel: true, Ended: true, InKernel: 30, Own: 2, Guessed: 3, Planner: 7, Elsewhere: 50, Lost: 1, Throttled: 2, NewCPUs: 1,
		Functions: []cputime.Function{
			{Number: 1, Object: demo, Address: 0x1160, Samples: 600},
			{Number: 0, Object: demo, Address: 0x1139, Samples: 200},
			{Number: -1, Object: "/usr/lib/libc.so.6", BuildID: "4e5f", Address: 0x9000, Size: 100, Name: "memcpy", Samples: 100},
			{Number: 3, Object: demo, Address: 0x11d0, Samples: 40},
			{Number: 4, Object: demo, Address: 0x1040, Samples: 10},
			{Number: 5, Object: library, Address: 0x2000, Samples: 15},
			{Number: -1, Object: library, BuildID: "2c3d", Samples: 5},
		},
	}
}

// timedTable is a demo table with times beside it.
func timedTable(t *testing.T, path string, change func(*build.Spec), times *cputime.File) string {
	t.Helper()
	demoTable(t, path, change)
	if err := times.Write(path, nonceOf(t, path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// nonceOf is that of a table, which is not held open.
func nonceOf(t *testing.T, path string) [16]byte {
	t.Helper()
	e, err := find.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return e.Nonce
}

func TestGoldenTime(t *testing.T) {
	dir := t.TempDir()
	one := timedTable(t, filepath.Join(dir, "one.dynprof"), nil, demoTimes())
	user := demoTimes()
	user.Kernel, user.InKernel, user.Period = false, 0, 500_000
	two := timedTable(t, filepath.Join(dir, "two.dynprof"), func(s *build.Spec) { s.Pid, s.Realtime = 4300, s.Realtime.Add(1e9) }, user)
	plain := demoTable(t, filepath.Join(dir, "plain.dynprof"), func(s *build.Spec) { s.Pid = 4400 })
	for _, row := range []struct {
		golden string
		args   []string
	}{
		{"time.txt", []string{"report", one}},
		{"time.json", []string{"report", one, "--format", "json"}},
		{"time.csv", []string{"report", one, "--format", "csv"}},
		{"time-calls.txt", []string{"report", one, "--sort", "calls", "--top", "2"}},
		{"time-objects.txt", []string{"report", one, "--by", "object"}},
		{"time-objects.csv", []string{"report", one, "--by", "object", "--format", "csv"}},
		{"time-merged.txt", []string{"report", one, two}},
		{"time-threads.txt", []string{"report", one, "--by", "thread"}},
		{"time-show.txt", []string{"show", "tiny", one}},
		{"time-show.json", []string{"show", "demo::plus(int, int)", one, "--format", "json"}},
		{"time.folded", []string{"export", one, "--format", "folded"}},
		{"time-calls.folded", []string{"export", one, "--format", "folded", "--value", "calls"}},
		{"time.callgrind", []string{"export", one}},
		{"time-diff.txt", []string{"diff", one, two}},
		{"time-diff-sorted.csv", []string{"diff", one, two, "--sort", "time", "--format", "csv"}},
		{"time-diff.json", []string{"diff", plain, one, "--format", "json", "--top", "2"}},
	} {
		t.Run(row.golden, func(t *testing.T) {
			out, errOut, status := hotspots(row.args...)
			if status != 0 || errOut != "" {
				t.Fatalf("status %d: %s", status, errOut)
			}
			golden(t, row.golden, out)
		})
	}
}

// TestTimesGoAlong: times go where their table goes, and with it.
func TestTimesGoAlong(t *testing.T) {
	dir := t.TempDir()
	path, copied := timedTable(t, filepath.Join(dir, "a.dynprof"), nil, demoTimes()), filepath.Join(dir, "b.dynprof")
	if out, errOut, status := hotspots("snapshot", path, "-o", copied); status != 0 || errOut != "" || out != copied+"\n" {
		t.Fatalf("%s%s", out, errOut)
	}
	if f, err := cputime.Read(copied, nonceOf(t, path)); err != nil || f.Total() != demoTimes().Total() {
		t.Errorf("%+v, %v", f, err)
	}
	if _, errOut, status := hotspots("prune", dir, "--older-than=0s"); status != 0 {
		t.Fatal(errOut)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// TestDamagedTimes: the calls are shown all the same, with why there is no time.
func TestDamagedTimes(t *testing.T) {
	path := demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), nil)
	without, _, _ := hotspots("report", path)
	if err := os.WriteFile(cputime.PathOf(path), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, status := hotspots("report", path)
	_, rows, _ := strings.Cut(out, "\n")
	_, want, _ := strings.Cut(without, "\n")
	if status != 0 || errOut != "" || rows != want || !strings.Contains(out, "its CPU times cannot be read: ") {
		t.Errorf("status %d, %s%s", status, errOut, out)
	}
	live := tabletest.OpenLive(t, path) // times of another table are none
	if err := errors.Join(os.Remove(cputime.PathOf(path)), demoTimes().Write(path, [16]byte{9})); err != nil {
		t.Fatal(err)
	}
	live.Close()
	if out, _, _ := hotspots("report", path); out != without {
		t.Errorf("of another table:\n%s", out)
	}
}

// TestTimeOfThreads: it is not told apart.
func TestTimeOfThreads(t *testing.T) {
	_, errOut, status := hotspots("report", demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), nil), "--by", "thread", "--sort", "time")
	if status != exitUsage || !strings.Contains(errOut, "--by function") {
		t.Errorf("status %d, %s", status, errOut)
	}
}

// TestTimeOfNone: where nothing is sampled, or nothing is left, there is no share of it.
func TestTimeOfNone(t *testing.T) {
	path := timedTable(t, filepath.Join(t.TempDir(), "a.dynprof"), nil, &cputime.File{Period: 1000})
	out, errOut, status := hotspots("report", path)
	if status != 0 || errOut != "" || strings.Contains(out, "NaN") || !strings.Contains(out, "0 ns of CPU time") {
		t.Errorf("status %d, %s%s", status, errOut, out)
	}
}

// TestHertz: a frequency that makes no sense is refused before anything runs.
func TestHertz(t *testing.T) {
	for _, arg := range []string{"--time=0", "--time=-1", "--time=10001", "--time=x", "--time=1e3"} {
		out, errOut, status := output(t, command(t, arg, "--", "echo", "ran"))
		if out != "" || status != exitRunFailure || !strings.Contains(errOut, "time") || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", arg, status, out, errOut)
		}
	}
}

// TestExportTime: Parquet has the times of functions, and what is in no ledger.
func TestExportTime(t *testing.T) {
	dir := t.TempDir()
	one, path := timedTable(t, filepath.Join(dir, "one.dynprof"), nil, demoTimes()), filepath.Join(dir, "out")
	if _, errOut, status := hotspots("export", one, "--format=parquet", "-o", path); status != 0 {
		t.Fatal(errOut)
	}
	type row struct {
		Function string  `parquet:"function"`
		Calls    *uint64 `parquet:"calls"`
		Self     *uint64 `parquet:"self_ns"`
		Low      *uint64 `parquet:"self_ns_low"`
		High     *uint64 `parquet:"self_ns_high"`
	}
	rows, err := parquet.ReadFile[row](path)
	sum := uint64(0)
	for _, r := range rows {
		if r.Self == nil || *r.Low > *r.Self || *r.Self > *r.High {
			t.Fatalf("%+v", r)
		}
		if sum += *r.Self; r.Function == "memcpy" && (r.Calls != nil || *r.Self != 100_000_000) {
			t.Errorf("%+v", r)
		}
	}
	if err != nil || len(rows) != 10 || sum != 1_000_000_000 {
		t.Errorf("%d rows, %d ns, %v", len(rows), sum, err)
	}
	plain := demoTable(t, filepath.Join(dir, "plain.dynprof"), nil)
	if _, errOut, status := hotspots("export", plain, "--format=folded", "--value=time"); status != 1 || !strings.Contains(errOut, "hotspots run --time") {
		t.Errorf("status %d, %s", status, errOut)
	}
}
