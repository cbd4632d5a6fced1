package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/x86"
)

// costs are Ir, Dr and Dw of instructions, by object and link-time address.
type costs map[string]map[uint64][3]uint64

// readCosts reads a file in callgrind's format whose events begin with Ir Dr Dw. What calls cost is
// left out. A line has the address, perhaps a source line, and numbers, of which zeros at the end are
// missing.
func readCosts(t *testing.T, file string) costs {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := costs{}
	var object map[uint64][3]uint64
	inclusive, lines := false, false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "positions: instr line":
			lines = true
		case strings.HasPrefix(line, "events: ") && !strings.HasPrefix(line, "events: Ir Dr Dw"):
			t.Fatalf("%s: %s", file, line)
		case strings.HasPrefix(line, "ob="):
			if object = all[line[3:]]; object == nil {
				object = map[uint64][3]uint64{}
				all[line[3:]] = object
			}
		case strings.HasPrefix(line, "calls="):
			inclusive = true
		case strings.HasPrefix(line, "0x"):
			if inclusive {
				inclusive = false
				continue
			}
			var at uint64
			fields := strings.Fields(line)
			if _, err := fmt.Sscanf(fields[0], "0x%x", &at); err != nil {
				t.Fatalf("%s: %q", file, line)
			}
			if fields = fields[1:]; lines {
				fields = fields[1:]
			}
			sum := object[at]
			for i := range min(3, len(fields)) {
				var n uint64
				if _, err := fmt.Sscan(fields[i], &n); err != nil {
					t.Fatalf("%s: %q", file, line)
				}
				sum[i] += n
			}
			object[at] = sum
		}
	}
	return all
}

// TestLoadsExact: each instruction has read and written as often as callgrind says, and so has each
// function. Where it counts in another way (docs/blocks.md, "Loads and stores") the test knows why.
func TestLoadsExact(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "g++"), []string{"-O2"}, "accesses.cc")
	all := append(repeatable(t), []string{program}, []string{"lua5.4", "-e", "local n=0 for i=1,1000 do n=n+#tostring(i) end print(n, math.sin(n))"})
	for _, args := range lane.Some(all, 2, 7) {
		t.Run(filepath.Base(args[0]), func(t *testing.T) {
			t.Parallel()
			args[0] = need(t, args[0])
			dir := t.TempDir()
			theirs, path, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "table"), filepath.Join(dir, "ours")
			hotspots := build(t, "hotspots")
			for _, c := range [][]string{
				append([]string{need(t, "valgrind"), "-q", "--tool=callgrind", "--cache-sim=yes", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no", "--skip-plt=no", "--callgrind-out-file=" + theirs}, args...),
				append([]string{hotspots, "run", "--blocks", "--summary", "0", "-o", path, "--"}, args...),
				{hotspots, "export", path, "-o", ours},
			} {
				if r := run(t, cmd(c...)); r.status != 0 {
					t.Fatalf("%v: %+v", c, r)
				}
			}
			l := &loads{t: t, ours: readCosts(t, ours), theirs: readCosts(t, theirs)}
			l.compare()
			if names := l.compareFunctions(path); args[0] == program && !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "rare(") }) {
				t.Errorf("rare is not among the functions compared: %q", names)
			}
		})
	}
}

// loads compares what two say of loads and stores.
type loads struct {
	t            *testing.T
	ours, theirs costs
}

// compare compares instructions that ran equally often: of a program that looks at addresses, or at
// the time, not all do.
func (l *loads) compare() {
	equal, others, failures := uint64(0), uint64(0), 0
	for path, list := range l.ours {
		for at, got := range list {
			want, ok := l.wanted(path, at)
			if !ok {
				others += got[0]
				continue
			}
			if equal += got[0]; want != got {
				if failures++; failures < 20 {
					l.t.Errorf("%s+%#x %s: %v, callgrind says %v", filepath.Base(path), at, x86.Text(codeOf(l.t, path, at), at), got, want)
				}
			}
		}
	}
	l.t.Logf("of %d instructions executed loads and stores are compared, of %d not", equal, others)
	if equal < others {
		l.t.Error("too few are compared")
	}
}

// wanted is what callgrind says of an instruction, but for its ways; false if that cannot be compared.
func (l *loads) wanted(path string, at uint64) (want [3]uint64, ok bool) {
	want = l.theirs[path][at]
	got := l.ours[path][at]
	if want[0] != got[0] {
		return want, false
	}
	if want == got {
		return want, true
	}
	code := codeOf(l.t, path, at)
	var in x86.Inst
	if x86.Decode(code, &in) != nil {
		return want, false
	}
	_, isRegister := in.RM()
	switch {
	case isRepeated(l.t, path, at):
		return want, false
	case in.Map == x86.Map0F && isRegister && (in.Op == 0xa3 || in.Op == 0xab || in.Op == 0xb3 || in.Op == 0xbb): // bt and others put the register on the stack
		want[1] -= want[0]
		want[2] -= want[0]
	case in.Map == x86.Map0F && in.Prefix&x86.PrefixLock != 0 && (in.Op&^1 == 0xb0 || in.Op == 0xc7): // cmpxchg is a modification, and no others with lock are
		want[1] += want[0]
	case in.Map == x86.Map0F && in.Op == 0x5a && in.Prefix == 0: // cvtps2pd loads twice
		want[1] -= want[0]
	case want[1] < got[1] && isDead(code): // what nobody looks at is not loaded
		want[1] = got[1]
	}
	return want, true
}

// isDead reports whether what the first instruction writes, a register, is overwritten before it is read.
func isDead(code []byte) bool {
	var in x86.Inst
	if x86.Decode(code, &in) != nil {
		return false
	}
	written := in.Effects(code).Written
	for code = code[in.Len:]; !written.Empty() && x86.Decode(code, &in) == nil && in.Kind == x86.Plain; code = code[in.Len:] {
		e := in.Effects(code)
		if !e.Read.And(written).Empty() {
			return false
		}
		if written = written.Without(e.Killed); written.Empty() {
			return true
		}
	}
	return false
}

// compareFunctions compares what report says of functions of which all instructions can be compared, and
// names these.
func (l *loads) compareFunctions(path string) (names []string) {
	t := l.t
	var report struct {
		Functions []struct {
			Object, Name, Address            string
			Loads, Stores, Modifies, Atomics *uint64
		}
	}
	if err := json.Unmarshal([]byte(run(t, cmd(build(t, "hotspots"), "report", "--loads", "--format", "json", path)).stdout), &report); err != nil {
		t.Fatal(err)
	}
	type sum struct {
		reads, writes uint64
		unknown       bool
	}
	wanted := map[string]*sum{}
	tab, blocks := blocksOf(t, path)
	addresses := map[string][]uint64{}
	for i := range blocks {
		b := &blocks[i]
		f := &tab.Functions[b.Function]
		object := tab.Objects[f.Object].Path
		if addresses[object] == nil {
			addresses[object] = slices.Sorted(maps.Keys(l.ours[object]))
		}
		key := fmt.Sprintf("%s %#x", object, f.Address)
		if wanted[key] == nil {
			wanted[key] = &sum{}
		}
		first, _ := slices.BinarySearch(addresses[object], b.Address)
		for _, at := range addresses[object][first:] {
			if at >= b.Address+uint64(b.Size) {
				break
			}
			want, ok := l.wanted(object, at)
			wanted[key].reads += want[1]
			wanted[key].writes += want[2]
			wanted[key].unknown = wanted[key].unknown || !ok
		}
	}
	for _, f := range report.Functions {
		want := wanted[f.Object+" "+f.Address]
		if f.Loads == nil || want == nil || want.unknown || want.reads+want.writes == 0 {
			continue
		}
		names = append(names, f.Name)
		if got := (sum{*f.Loads - *f.Modifies + *f.Atomics, *f.Stores, false}); got != *want {
			t.Errorf("%s of %s: %+v, callgrind says %+v", f.Name, f.Object, got, *want)
		}
	}
	t.Logf("%d functions compared", len(names))
	for _, f := range report.Functions {
		if f.Loads != nil && *f.Loads > 0 {
			l.compareAnnotated(path, f.Object, f.Address, *f.Loads, *f.Stores)
			break
		}
	}
	if len(names) < 3 {
		t.Error("too few functions")
	}
	return names
}

// compareAnnotated compares what annotate says of a function with what report does.
func (l *loads) compareAnnotated(path, object, address string, loads, stores uint64) {
	type counts struct{ Loads, Stores uint64 }
	var annotated struct {
		Functions []struct {
			Object        string
			Loads, Stores uint64
			Blocks        []counts
		}
	}
	hotspots := build(l.t, "hotspots")
	out := run(l.t, cmd(hotspots, "annotate", address, path, "--format", "json")).stdout
	if err := json.Unmarshal([]byte(out), &annotated); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
	want := counts{loads, stores}
	for _, f := range annotated.Functions {
		if f.Object != object {
			continue
		}
		var sum counts
		for _, b := range f.Blocks {
			sum.Loads += b.Loads
			sum.Stores += b.Stores
		}
		if (counts{f.Loads, f.Stores}) != want || sum != want {
			l.t.Errorf("%s of %s: %d and %d, its blocks %+v, not %+v", address, object, f.Loads, f.Stores, sum, want)
		}
	}
	if out := run(l.t, cmd(hotspots, "annotate", "--loads", address, path)).stdout; !regexp.MustCompile(`LOADS +STORES  ADDRESS`).MatchString(out) || !strings.Contains(out, thousands(loads)) {
		l.t.Errorf("%s: %s", address, out)
	}
}
