package test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/x86"
)

// Programs of which all functions run as copies, with a counter in each block.

// textFile is lines of numbers and words.
func textFile(t *testing.T, lines int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "%d %x line of some text\n", i*7919%10007, i)
	}
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// callgrindRuns is how often each instruction ran, by object and link-time address, as
// callgrind says.
func callgrindRuns(t *testing.T, args ...string) map[string]map[uint64]uint64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callgrind")
	r := run(t, cmd(append([]string{need(t, "valgrind"), "-q", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no",
		"--skip-plt=no", "--callgrind-out-file=" + file}, args...)...))
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[uint64]uint64{}
	var object map[uint64]uint64
	inclusive := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ob="):
			if object = all[line[3:]]; object == nil {
				object = map[uint64]uint64{}
				all[line[3:]] = object
			}
		case strings.HasPrefix(line, "calls="):
			inclusive = true // the next line is of what was called
		case strings.HasPrefix(line, "0x"):
			var at, of, ir uint64
			if _, err := fmt.Sscanf(line, "0x%x %d %d", &at, &of, &ir); err == nil && !inclusive {
				object[at] += ir
			}
			inclusive = false
		}
	}
	return all
}

// TestBlocksExact: each block has run as often as callgrind says of its first instruction
// that it does not count by rounds.
func TestBlocksExact(t *testing.T) {
	lane.Parallel(t)
	text := textFile(t, 3000)
	for _, args := range lane.Some([][]string{
		{"sed", "-E", `s/([0-9]+) ([0-9a-f]+)/\2 \1/; /7$/d`, text},
		{"xz", "-T1", "-3", "-c", text},
		{"sqlite3", "-batch", ":memory:", "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select * from t where a > 1;"},
		{"sort", "-n", text}, {"md5sum", text}, {"od", "-x", text}, {"factor", "1234567890123456789", "97"},
	}, 3) {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			args[0] = need(t, args[0])
			want := callgrindRuns(t, args...)
			path := filepath.Join(t.TempDir(), "table")
			c := cmd(args...)
			c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + path, "DYNPROF_BLOCKS=1", "DYNPROF_OBJECTS=main"}
			same(t, run(t, cmd(args...)), run(t, c))
			compareBlocks(t, path, want)
		})
	}
}

func compareBlocks(t *testing.T, path string, want map[string]map[uint64]uint64) {
	t.Helper()
	tab, err := table.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	blocks, err := tab.Blocks()
	if err != nil || len(blocks) == 0 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	ran, wrong := 0, 0
	for i := range blocks {
		b := &blocks[i]
		f := &tab.Functions[b.Function]
		o := &tab.Objects[f.Object]
		n := want[o.Path][b.Address]
		if n == b.Runs || isRepeated(t, o.Path, b.Address) {
			if n > 0 {
				ran++
			}
			continue
		}
		if wrong++; wrong < 20 {
			t.Errorf("%s+%#x, of the function at %#x: %d times, callgrind says %d; %+v", filepath.Base(o.Path), b.Address, f.Address, b.Runs, n, b.Block)
		}
	}
	t.Logf("%d blocks, of which %d ran; %d wrong", len(blocks), ran, wrong)
	if ran == 0 {
		t.Error("no block ran")
	}
}

// isRepeated reports whether the instruction there has a prefix that repeats it.
func isRepeated(t *testing.T, path string, addr uint64) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var code []byte
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr-p.Vaddr < p.Filesz {
			code = make([]byte, min(16, p.Filesz-(addr-p.Vaddr)))
			if _, err := p.ReadAt(code, int64(addr-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var in x86.Inst
	return x86.Decode(code, &in) == nil && in.Prefix&(x86.PrefixRep|x86.PrefixRepne) != 0 && in.Map == x86.MapLegacy
}
