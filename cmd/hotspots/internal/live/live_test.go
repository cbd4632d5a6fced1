package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func open(t *testing.T, path string, others *Others) *Program {
	t.Helper()
	p, err := Open(path, false, nil, others)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// read reads, and fails if that does.
func read(t *testing.T, p *Program) *top.Frame {
	t.Helper()
	f := p.Read(false)
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	return f
}

func TestRead(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	p := open(t, live.Path, nil)
	f := read(t, p)
	if f.Total != 2223 || f.Calls[0] != 700 || f.Calls[1] != 1500 || !f.Hot(1) || f.Hot(0) || f.Threshold != 1000 {
		t.Errorf("%+v", f)
	}
	var threads uint64
	for _, one := range f.Threads {
		threads += one.Calls
	}
	if threads != f.Total || f.Counting != 1 || len(f.Events) != 1 || f.Events[0].Function != 1 || f.Events[0].Outcome != "none" {
		t.Errorf("%+v", f)
	}
	if f.Book.Name(1) != "demo::add(int, int)" || f.Book.Object(f.Book.ObjectOf(1)) != "demo" {
		t.Errorf("%q of %q", f.Book.Name(1), f.Book.Object(f.Book.ObjectOf(1)))
	}
	live.Set(0, 701)
	live.Fire(1, 0, 0, 4242, 1000, 3e9)
	after := read(t, p)
	if after.Calls[0] != 701 || f.Calls[0] != 700 || len(after.Events) != 2 || after.Book != f.Book {
		t.Errorf("%+v", after)
	}
}

// TestLater: functions that come later are in the next reading, behind the others.
func TestLater(t *testing.T) {
	spec := tabletest.Spec()
	spec.NoSpare = false
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	p := open(t, live.Path, nil)
	before := read(t, p)
	a, err := build.OpenAppend(live.Memory())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(tabletest.Late(uint16(len(spec.Objects)), 4)); err != nil {
		t.Fatal(err)
	}
	live.Set(0, 700, 1000, 3, 0, 9)
	after := read(t, p)
	n := len(before.Calls)
	if len(after.Calls) != n+2 || after.Calls[n] != 9 || after.Book.Name(n) != "late_one" || after.Book.Name(1) != before.Book.Name(1) {
		t.Errorf("%v", after.Calls)
	}
}

// TestCutShort: what is behind the end of the file is no count.
func TestCutShort(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	p := open(t, live.Path, nil)
	read(t, p)
	if err := os.Truncate(live.Path, 4096); err != nil {
		t.Fatal(err)
	}
	if f := p.Read(false); f.Err == nil || !strings.Contains(f.Err.Error(), "cut short") {
		t.Errorf("%v", f.Err)
	}
	if d := p.Detail(0); d.NoCode == "" {
		t.Errorf("%+v", d)
	}
	if err := os.Truncate(live.Path, 0); err != nil {
		t.Fatal(err)
	}
	if f := p.Read(true); f.Err == nil {
		t.Errorf("%+v", f)
	}
}

func TestDetail(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := tabletest.Spec()
	spec.Objects[0].Path, spec.Objects[0].BuildID = self, "of another file"
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	p := open(t, live.Path, nil)
	for range 2 { // the second time what was read is there
		d := p.Detail(1)
		if len(d.Threads) != 2 || d.Threads[0].Calls != 1000 || d.Threads[1].Calls != 500 || !strings.Contains(d.NoCode, "is not the file that was counted") || !strings.Contains(d.NoEdges, "--blocks") {
			t.Errorf("%+v", d)
		}
	}
	if d := p.Detail(5); len(d.Threads) != 1 || d.Threads[0].Calls != 20 || !strings.Contains(d.NoCode, "no such file") {
		t.Errorf("%+v", d)
	}
}

// TestOthers: programs that do not run are not among the others, the own one always is.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	tabletest.Demo(t, filepath.Join(dir, "ended.dynprof"), tabletest.Spec()).Close()
	live := tabletest.Demo(t, filepath.Join(dir, "own.dynprof"), tabletest.Spec())
	p := open(t, live.Path, &Others{Dirs: []string{dir, dir + "/none"}})
	f := p.Read(true)
	if f.Err != nil || len(f.Programs) != 1 || f.Programs[0].Table != live.Path || f.Programs[0].Calls != 2223 || f.Programs[0].Name != "/opt/demo/demo" {
		t.Errorf("%+v", f.Programs)
	}
}

// BenchmarkRead is what a reading of 40,000 functions in 64 rows costs.
func BenchmarkRead(b *testing.B) {
	const functions, rows = 40000, 64
	spec := tabletest.Synthetic(functions)
	live := tabletest.Create(b, "a.dynprof", spec)
	counts := make([]uint64, functions)
	for i := range counts {
		counts[i] = uint64(i + 1)
	}
	for row := range uint32(rows) {
		live.Row(layout.Row{Index: row, State: layout.RowLive, Pid: 1, Tid: row})
		live.Set(row, counts...)
	}
	p, err := Open(live.Path, false, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	m := top.New(top.Options{Interval: 1e9, Sort: "rate", By: "function"})
	for b.Loop() {
		f := p.Read(false)
		if f.Err != nil {
			b.Fatal(f.Err)
		}
		m.Frame(f)
		m.View()
	}
}

// TestTimes: CPU times that are beside the table are read when they are written anew.
func TestTimes(t *testing.T) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	p := open(t, live.Path, nil)
	if f := read(t, p); f.Times != nil {
		t.Errorf("%v, of none", f.Times)
	}
	for n := range uint64(3) {
		times := cputime.File{Period: 1000, InKernel: 1, Functions: []cputime.Function{{Number: 1, Object: "/opt/demo/demo", Address: 0x1160, Samples: 10 * n}}}
		if err := times.Write(live.Path, live.Nonce); err != nil {
			t.Fatal(err)
		}
		stamp := time.Unix(int64(n), 0)
		if err := os.Chtimes(cputime.PathOf(live.Path), stamp, stamp); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if f := read(t, p); len(f.Times) != len(f.Calls) || f.Times[1] != 10_000*n || f.Times[0] != 0 || f.TotalTime != 10_000*n+1000 {
				t.Errorf("%d: %v of %d", n, f.Times, f.TotalTime)
			}
		}
	}
	if err := os.WriteFile(cputime.PathOf(live.Path), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := read(t, p); f.Times != nil {
		t.Errorf("%v, damaged", f.Times)
	}
}
