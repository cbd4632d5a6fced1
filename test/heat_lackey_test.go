package test

import (
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Logs of valgrind's lackey, by hotspots heat import.

// lackeyOf is the log of a program.
func lackeyOf(t *testing.T, args ...string) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	if r := run(t, cmd(append([]string{need(t, "valgrind"), "--tool=lackey", "--trace-mem=yes", "--log-file=" + log}, args...)...)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	return log
}

// importedLog is the table that is made of a log.
func importedLog(t *testing.T, log string, flags ...string) string {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table.dynprof")
	if r := run(t, cmd(append([]string{build(t, "hotspots"), "heat", "import", log, "-o", table}, flags...)...)); r.status != 0 || strings.Contains(r.stderr, "left out") {
		t.Fatalf("%+v", r)
	}
	return table
}

// sliceOf is what was done in a slice, as hotspots heat --curve has it.
type sliceOf struct{ Instructions, Touched, Read, Written, Executed uint64 }

// slicesIn takes a log line by line, in slices of so many instructions, and says how many granules of so many
// bytes are in each.
func slicesIn(t *testing.T, log string, granule, each uint64) (all []sliceOf) {
	t.Helper()
	const read, written, executed = 1, 2, 4
	touched := map[uint64]int{}
	instructions := uint64(0)
	end := func() {
		s := sliceOf{Instructions: instructions, Touched: uint64(len(touched))}
		for _, what := range touched {
			for n, bit := range map[*uint64]int{&s.Read: read, &s.Written: written, &s.Executed: executed} {
				if what&bit != 0 {
					*n++
				}
			}
		}
		all = append(all, s)
		clear(touched)
	}
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "==") {
			continue
		}
		kind := strings.TrimSpace(line[:3])
		at, bytes, _ := strings.Cut(strings.TrimSpace(line[3:]), ",")
		address, err := strconv.ParseUint(at, 16, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		size, err := strconv.ParseUint(bytes, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if kind == "I" {
			if instructions > 0 && instructions%each == 0 {
				end()
			}
			instructions++
		}
		for b := address; b < address+size; b++ {
			touched[b/granule] |= map[string]int{"I": executed, "L": read, "S": written, "M": read | written}[kind]
		}
	}
	end()
	return all
}

// TestHeatLackey: of a real program each slice has the pages, lines and granules that who takes the log line by
// line finds in it, and as many instructions as lackey itself has counted.
func TestHeatLackey(t *testing.T) {
	lane.Parallel(t)
	log := lackeyOf(t, need(t, "ls"), "/")
	text := read(t, log)
	counted := regexp.MustCompile(`guest instrs: +([0-9,]+)`).FindStringSubmatch(text)
	if counted == nil {
		t.Fatal("lackey has counted nothing")
	}
	for _, row := range lane.Some([]struct {
		granule, show string
		bytes, each   uint64
	}{{"pages", "--pages", 4096, 16384}, {"lines", "--lines", 64, 512}, {"bytes", "--bytes", 8, 1000}, {"bytes", "--pages", 4096, 5000}}, 1) {
		table := importedLog(t, log, "--granule", row.granule, "--slice", strconv.FormatUint(row.each, 10))
		var m struct {
			Source  string
			Granule uint64
			Slices  []sliceOf
		}
		if err := json.Unmarshal([]byte(run(t, cmd(build(t, "hotspots"), "heat", table, row.show, "--format", "json")).stdout), &m); err != nil {
			t.Fatal(err)
		}
		want := slicesIn(t, text, row.bytes, row.each)
		if m.Source != "lackey" || !reflect.DeepEqual(m.Slices, want) {
			t.Errorf("%+v: %d slices, not %d, or others", row, len(m.Slices), len(want))
		}
		if last := m.Slices[len(m.Slices)-1].Instructions; fmt.Sprint(last) != strings.ReplaceAll(counted[1], ",", "") {
			t.Errorf("%d instructions; lackey has counted %s", last, counted[1])
		}
	}
}

// TestHeatLackeyPipe: of a log that is read while it is written no copy is there, and where the program's files
// were mapped is known.
func TestHeatLackeyPipe(t *testing.T) {
	lane.Parallel(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(need(t, "valgrind"), "--tool=lackey", "--trace-mem=yes", "--log-file="+pipe, need(t, "ls"), "/")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	table := importedLog(t, pipe, "--granule", "pages")
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "csv"))
	of := map[string]string{} // what was done with files
	for line := range strings.Lines(r.stdout) {
		f := strings.Split(line, ",")
		for i, what := range []string{"r", "w", "x"} {
			if f[3+i] == "true" {
				of[filepath.Base(f[0])] += what
			}
		}
	}
	for name, file := range map[string]string{"ls": "rwx", "libc.so.6": "rwx", "ld-linux-x86-64.so.2": "rwx"} {
		for _, what := range file {
			if !strings.ContainsRune(of[name], what) {
				t.Errorf("%s: %q: %s", name, of[name], r.stdout)
			}
		}
	}
}

// tinyLog is what a program might have done.
const tinyLog = `==7== Lackey, an example Valgrind tool
==7== Command: ./tiny -x
I  00401ffe,4
 S 1ffeffffc,8
I  00402002,2
 L 00500000,8
I  00402004,2
 M 00500000,4
hello
I  00402006,2
`

// TestHeatLackeyShown: what is made of a log is shown as what hotspots run has noted.
func TestHeatLackeyShown(t *testing.T) {
	lane.Parallel(t)
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	log, table := filepath.Join(dir, "log"), filepath.Join(dir, "tiny.dynprof")
	if err := os.WriteFile(log, []byte(tinyLog), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, cmd(hotspots, "heat", "import", log, "-o", table, "--slice", "2", "--granule", "pages"))
	if want := "hotspots: " + table + ": 4 instructions and 3 accesses of ./tiny, in 2 slices of 2 instructions; 1 line left out that is no access, the first is line 9\n"; r != (result{stderr: want}) {
		t.Errorf("%+v", r)
	}
	for _, row := range []struct{ flags, want string }{
		{"", `./tiny: 5 pages of 4096 bytes touched: 1 read, 3 written, 2 executed; by a log of lackey
2 slices of time, of 2 instructions at most, of 4 that ran.
  TOUCHED  READ  WRITTEN  EXECUTED  RESIDENT  MAPPED  FIRST  LAST  MEMORY
        3     1        1         2         -       -      1     2  [0x401000]
        2     0        2         0         -       -      1     1  [0x1ffeff000]
Not seen: what the kernel touches, as in system calls.
`},
		{"--pages", `./tiny: 5 pages of 4096 bytes touched: 1 read, 3 written, 2 executed; by a log of lackey
2 slices of time, of 2 instructions at most, of 4 that ran.
  PAGES  FIRST  LAST  MEMORY         ADDRESS
      1      1     1  [0x401000]     0x401000 --x
      1      1     2  [0x401000]     0x402000 --x
      1      1     2  [0x401000]     0x500000 rw-
      2      1     1  [0x1ffeff000]  0x1ffeff000 -w-
Not seen: what the kernel touches, as in system calls.
`},
		{"--format csv", `memory,address,pages,read,written,executed,first,last,read_first,read_last,written_first,written_last,executed_first,executed_last,symbols
[0x401000],0x401000,1,false,false,true,1,1,0,0,0,0,1,1,
[0x401000],0x402000,1,false,false,true,1,2,0,0,0,0,1,2,
[0x401000],0x500000,1,true,true,false,1,2,1,2,2,2,0,0,
[0x1ffeff000],0x1ffeff000,2,false,true,false,1,1,0,0,1,1,0,0,
`},
		{"--curve", `./tiny: 5 pages of 4096 bytes touched: 1 read, 3 written, 2 executed; by a log of lackey
2 slices of time, of 2 instructions at most, of 4 that ran.
Working set: pages touched within the last 1 instructions. A log tells neither time nor what is resident, nor page faults and threads.
  SLICE  INSTRUCTIONS  NS  PARTS  TOUCHED  READ  WRITTEN  EXECUTED  WORKING SET  USED  RESIDENT  MINOR  MAJOR  THREADS  COUNTING
      1             2   0      1        5     1        2         2            5     5         0      0      0        0        on
      2             4   0      1        2     1        1         1            2     5         0      0      0        0        on
`},
		{"--from 2 --pages", `./tiny: 2 pages of 4096 bytes touched behind the first 2 instructions: 1 read, 1 written, 1 executed; by a log of lackey
2 slices of time, of 2 instructions at most, of 4 that ran.
  PAGES  FIRST  LAST  MEMORY      ADDRESS
      1      2     2  [0x401000]  0x402000 --x
      1      2     2  [0x401000]  0x500000 rw-
Not seen: what the kernel touches, as in system calls.
`},
	} {
		if r := run(t, cmd(append([]string{hotspots, "heat", table}, strings.Fields(row.flags)...)...)); r != (result{stdout: row.want}) {
			t.Errorf("%s: %+v", row.flags, r)
		}
	}
	drawnLog(t, table)
	for _, row := range []struct {
		args   string
		status int
		says   string
	}{
		{"advise " + table, 0, "written memory: 3 in place of 3"},
		{"advise " + table + " --order ld", 1, "tells of no functions"},
		{"heat " + table + " --lines", 1, "import the log again with --granule lines"},
		{"heat " + table + " --objects", 0, "0 variables"},
		{"report " + table, 0, "./tiny"},
		{"annotate main " + table, 1, ""},
		{"snapshot " + table + " -o " + filepath.Join(dir, "copy"), 0, ""},
		{"heat " + filepath.Join(dir, "copy"), 0, "5 pages of 4096 bytes touched"},
		{"heat import", 2, "one log is to be named"},
		{"heat import " + log + " -o " + log, 1, "would write over a file"},
		{"heat import " + log + " --slice 0", 2, "--slice"},
		{"heat import " + log + " --slice 9999G", 2, "--slice"},
		{"heat import " + log + " --granule words", 2, "--granule"},
		{"heat import " + log + " --maps " + log, 1, "is not understood"},
		{"heat import " + dir, 1, "is a directory"},
		{"heat import /dev/null", 1, "no instruction is in it"},
		{"heat import " + filepath.Join(dir, "none"), 1, "no such file"},
		{"heat import " + table, 1, "no instruction is in it"},
	} {
		r := run(t, cmd(append([]string{hotspots}, strings.Fields(row.args)...)...))
		if r.status != row.status || !strings.Contains(r.stdout+r.stderr, row.says) || strings.Count(r.stderr, "\n") > 1 {
			t.Errorf("%s: %+v", row.args, r)
		}
	}
	again := run(t, command{args: []string{hotspots, "heat", "import", "-", "-o", table}, stdin: tinyLog})
	if again.status != 0 || !strings.HasPrefix(again.stderr, "hotspots: "+table+": 4 instructions") {
		t.Errorf("%+v", again)
	}
}

// drawnLog has a picture drawn of the tiny log, an instruction a column: its points are what was done.
func drawnLog(t *testing.T, table string) {
	t.Helper()
	const black, red, cyan, white, yellow = "#000000", "#ff2020", "#00e5e5", "#ffffff", "#f5d020"
	for _, executed := range []bool{true, false} {
		picture, legend := filepath.Join(t.TempDir(), "a.png"), filepath.Join(t.TempDir(), "a.json")
		if r := run(t, cmd(build(t, "hotspots"), "heat", "picture", table, "-o", picture, "--legend", legend, "--rows", "4096", "--cols", "2", fmt.Sprintf("--executed=%v", executed))); r != (result{}) {
			t.Fatalf("%+v", r)
		}
		drawn, err := png.Decode(strings.NewReader(read(t, picture)))
		if err != nil {
			t.Fatal(err)
		}
		var l struct {
			Plot struct {
				X, Y, Width int
				Across      int `json:"points_per_column"`
			}
			Memory []struct {
				Rows []struct {
					Y       int
					Address string
				}
			}
		}
		if err := json.Unmarshal([]byte(read(t, legend)), &l); err != nil {
			t.Fatal(err)
		}
		want := map[string][2]string{"0x500000": {red, white}, "0x1ffeff000": {cyan, black}, "0x1fff00000": {cyan, black}}
		if executed {
			want["0x401000"], want["0x402000"] = [2]string{yellow, black}, [2]string{yellow, yellow}
		}
		rows := 0
		for _, m := range l.Memory {
			for _, row := range m.Rows {
				rows++
				for column, of := range want[row.Address] {
					r, g, b, _ := drawn.At(l.Plot.X+column*l.Plot.Across, row.Y).RGBA()
					if got := fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8); got != of {
						t.Errorf("%s, column %d: %s, not %s", row.Address, column, got, of)
					}
				}
			}
		}
		if rows != len(want) {
			t.Errorf("%d rows, not %d", rows, len(want))
		}
	}
}
