package test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// readers are the commands that read a table.
var readers = []string{"report", "coverage", "events", "export", "top --once"}

// refused fails unless every reader refuses the argument with one line. The
// directory of tables is empty: in the user's own an earlier process may have
// left one that had the same number.
func refused(t *testing.T, arg, says string) {
	t.Helper()
	empty := "XDG_RUNTIME_DIR=" + t.TempDir()
	for _, reader := range readers {
		c := cmd(append(append([]string{build(t, "hotspots")}, strings.Fields(reader)...), arg)...)
		c.env = append(c.env, empty)
		r := run(t, c)
		oneLine(t, r.stderr, says, "")
		if r.status != 1 || r.stdout != "" {
			t.Errorf("%s: status %d, not 1; %q", reader, r.status, r.stdout)
		}
	}
}

// tableOf counts the victim into a table.
func tableOf(t *testing.T) string {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	r := run(t, cmd(build(t, "hotspots"), "run", "--threshold", "2", "-o", table, "--summary", "0", "--", victim(t)))
	if r.status != 3 || r.stderr != "on stderr\n" {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	return table
}

// TestBadTables: what is no count table is refused in one line.
func TestBadTables(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	table := read(t, tableOf(t))
	head := table[:min(1<<20, len(table))]
	at := func(name string) string { return filepath.Join(dir, name) }
	content := func(name, content string) string { return write(t, at(name), content, 0o600) }
	patched := func(name string, at int, bytes string) string { // the whole table, but for some bytes
		path := content(name, head[:at]+bytes+head[at+len(bytes):])
		if err := os.Truncate(path, int64(len(table))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 64<<10)
	for i, r := 0, rand.New(rand.NewPCG(3, 4)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	u32 := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	for _, row := range []struct{ name, arg, says string }{
		{"missing", at("missing"), "no such file"},
		{"empty", content("empty", ""), "not a dynprof count table"},
		{"text", content("text", strings.Repeat("some text\n", 1000)), "not a dynprof count table"},
		{"program", build(t, "hotspots"), "not a dynprof count table"},
		{"magic alone", content("magic", head[:8]), "cut short"},
		{"magic, then rubbish", content("rubbish", head[:8]+string(random)), "newer dynprof|damaged|cut short"},
		{"version, then rubbish", content("rubbish12", head[:12]+string(random)), "damaged|cut short|not complete"},
		{"newer", patched("newer", 8, u32(layout.VersionLateSites+1)), "newer dynprof: read it with that"},
		{"newest", patched("newest", 8, u32(1<<31)), "newer dynprof: read it with that"},
		{"version 0", patched("older", 8, u32(0)), "not a dynprof count table|damaged"},
		{"still being made", patched("building", 0x28, u32(0)), "not complete yet"},
		{"directory", dir, "not a dynprof count table"},
		{"fifo", at("fifo"), "not a dynprof count table"},
		{"device", "/dev/zero", "not a dynprof count table"},
		{"unknown process", "4194999", "no count table of process 4194999: see hotspots ls"},
		{"process that is not counted", fmt.Sprint(os.Getpid()), "no count table of process .*: see hotspots ls"},
		{"process 0", "0", "no count table of process 0"},
		{"negative", "./-1", "no such file"},
		{"too large a number", "99999999999999999999", "no such file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			refused(t, row.arg, row.says)
		})
	}
}

// TestCutTable: a table cut off anywhere is refused in one line.
func TestCutTable(t *testing.T) {
	lane.Parallel(t)
	table := tableOf(t)
	image := read(t, table)
	var cuts []int
	for n := 1; n < len(image); n = n*3/2 + 1 {
		cuts = append(cuts, n)
	}
	for _, field := range []int{0x88, 0xa0, 0xb8, 0xd0, 0xe8, 0x100, 0x118} { // docs/table-format.md: the sections
		at := binary.LittleEndian.Uint64([]byte(image[field:]))
		cuts = append(cuts, int(at)-1, int(at), int(at)+1)
	}
	cuts = append(cuts, 8, 4095, 4096, len(image)-1)
	slices.Sort(cuts)
	for _, n := range slices.Backward(slices.Compact(cuts)) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if err := os.Truncate(table, int64(n)); err != nil {
				t.Fatal(err)
			}
			says := "cut short: copy it again"
			if n < 8 {
				says = "not a dynprof count table"
			}
			refused(t, table, says)
		})
	}
}

// TestDamagedTable: whatever its bytes are, reading a table ends with a report
// or with one line.
func TestDamagedTable(t *testing.T) {
	lane.Parallel(t)
	table := tableOf(t)
	f, err := os.OpenFile(table, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const head = 16 << 10 // the header and the sections behind it
	sound := make([]byte, head)
	if _, err := f.ReadAt(sound, 0); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 5))
		damaged := slices.Clone(sound)
		for range 1 + random.IntN(3) {
			at := 0x0c + random.IntN(0x280)
			if seed%2 == 1 {
				at = 0x1000 + random.IntN(head-0x1008)
			}
			n := 1 << random.IntN(4)
			values := []uint64{0, 1, 0xff, 0xffff, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, random.Uint64()}
			copy(damaged[at:at+n], binary.LittleEndian.AppendUint64(nil, values[random.IntN(len(values))])[:n])
		}
		if _, err := f.WriteAt(damaged, 0); err != nil {
			t.Fatal(err)
		}
		r := run(t, cmd(append(append([]string{build(t, "hotspots")}, strings.Fields(readers[seed%4])...), table)...))
		switch {
		case r.status == 0 && r.stderr == "" && r.stdout != "":
		case r.status == 1 && r.stdout == "":
			failed++
			oneLine(t, r.stderr, "count table|newer dynprof|not complete", "")
		default:
			t.Errorf("seed %d: status %d: %s", seed, r.status, r.stderr)
		}
	}
	if failed < 20 || failed > 110 {
		t.Errorf("%d of 120 refused: the damage is no test", failed)
	}
}
