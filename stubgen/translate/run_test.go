package translate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/spantree"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// translated is a program of which all functions that can be are copies.
type translated struct {
	obj    *stubgen.Object
	codes  []*Code
	first  []int32 // by code: its first counter
	count  int32
	blob   string
	loader string
	form   func(i int) form
}

// form is how a unit runs.
type form int

const (
	single  form = iota // as one copy
	pairOn              // as one of two, with counters,
	pairOff             // and without,
	rareOn              // and where that without is the first
	rareOff
)

// every has units run in each of the forms by turns.
func every(forms ...form) func(i int) form {
	return func(i int) form { return forms[i%len(forms)] }
}

// fixedBias is where the kernel puts a position independent program whose addresses are
// not randomized.
const fixedBias = 0x555555554000

// translate makes the copies of a program.
func translate(t *testing.T, path string, form func(i int) form, skip func(name string) bool) *translated {
	t.Helper()
	o, p := load(t, path)
	if !o.Absolute {
		o.Bias = fixedBias
	}
	x := &translated{obj: o, loader: filepath.Join(t.TempDir(), "loader.so"), blob: filepath.Join(t.TempDir(), "blob"), form: form}
	size := 0
	for i := range p.Units() {
		if skip(o.Functions[p.Units()[i].Function].Name) {
			continue
		}
		if g, _ := p.Graph(i); g != nil {
			x.add(g, &size)
		}
	}
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", x.loader, "testdata/loader.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	x.write(t, size)
	return x
}

func (x *translated) add(g *flow.Graph, size *int) {
	r := g.Unit.Ranges[0]
	if r.High-r.Low < WindowEnd(g)-r.Low {
		return
	}
	h, _ := PlanHome(g)
	if h == nil {
		return
	}
	c := Lower(h)
	c.RebuildTables(x.obj)
	c.Count(len(x.codes)%2 == 0)
	x.codes, x.first = append(x.codes, c), append(x.first, x.count)
	x.count += c.Counters + 1 // the last one is of calls
	*size += countSize + c.SizeOfPair(x.obj, true) + 16
}

// countSize is that of the count in front of a copy.
var countSize = emit.CountSize(true, false, true)

// write writes what the loader reads.
func (x *translated) write(t *testing.T, size int) {
	t.Helper()
	const page = 4096
	size = (size + page - 1) &^ (page - 1)
	room := size + (int(x.count)*8+page-1)&^(page-1)
	arena := x86.RunAddr(x.obj.Bias) - x86.RunAddr(room) - 1<<20
	if x.obj.Absolute {
		arena = 1 << 30
	}
	code := make([]byte, size)
	var patches []Patch
	at := 0
	for i, c := range x.codes {
		counters := arena.Add(size + 8*int(x.first[i]))
		w := NewWriter(c, x.obj, Counter{Shared: counters})
		spec := emit.Spec{Start: WindowEnd(c.Home.Graph) - jumpSize, Size: countSize + c.Size(x.obj, true), KeepsFlags: true, Copy: w}
		if f := x.form(i); f != single {
			spec.Size, spec.Copy = countSize+c.SizeOfPair(x.obj, true), NewPair(w, f == pairOn || f == rareOn, f == rareOn || f == rareOff)
		}
		var e emit.Emitter
		stub, err := e.Emit(x.obj, &spec, code[at:at+spec.Size], arena.Add(at), emit.Count{Shared: counters.Add(8 * int(c.Counters))})
		if err != nil {
			t.Fatal(err)
		}
		at += (int(stub.Len) + 15) &^ 15
		entry := Patch{Addr: spec.Start, Code: make([]byte, jumpSize)}
		var jump x86.Asm
		jump.Reset(entry.Code, x.obj.Run(entry.Addr))
		jump.JmpTo(stub.At)
		if err := jump.Finish(); err != nil {
			t.Fatal(err)
		}
		patches = append(append(patches, w.Patches...), entry)
	}
	low, high := x.obj.Text[0].Addr&^(page-1), uint64(0)
	for _, s := range x.obj.Text {
		high = max(high, s.End())
	}
	var b bytes.Buffer
	for _, v := range []uint64{uint64(arena) - x.obj.Bias, uint64(room), uint64(size), uint64(size), uint64(x.count), uint64(len(patches)), low, (high - low + page - 1) &^ (page - 1)} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	b.Write(code)
	for _, p := range patches {
		binary.Write(&b, binary.LittleEndian, []uint64{p.Addr, uint64(len(p.Code))})
		b.Write(p.Code)
	}
	if err := os.WriteFile(x.blob, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d units, %d counters, %d bytes of copies, %d patches", len(x.codes), x.count, at, len(patches))
}

// run runs the program as copies, and returns its output and the counters.
func (x *translated) run(t *testing.T, args ...string) (string, []uint64) {
	t.Helper()
	counts := filepath.Join(t.TempDir(), "counts")
	c := exec.Command( // env is behind setarch, which must not load the loader
		"setarch", append([]string{"-R", "env", "LD_PRELOAD=" + x.loader}, args...)...)
	c.Env = append(os.Environ(), "TRANSLATE_BLOB="+x.blob, "TRANSLATE_COUNTS="+counts)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	b, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]uint64, len(b)/8)
	for i := range list {
		list[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return string(out), list
}

const luaScript = `local n = 0 for i = 1, 200000 do n = n + #tostring(i) end print(n, string.format("%5.2f", 3.14159), pcall(error, "x"))
	local t = {} for i = 1, 1000 do t[i] = (i * 7919) % 1009 end table.sort(t) print(t[1], t[500], select("#", table.unpack(t)))
	print(string.gsub("hello world", "o", "0")) for w in string.gmatch("a b c", "%a") do io.write(w, ",") end print()
	local co = coroutine.wrap(function(a) while true do a = coroutine.yield(a * 2) end end) print(co(1), co(5), co(21))`

// preprocessed is a C file of this project behind the preprocessor.
func preprocessed(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "source.i")
	if msg, err := exec.Command("gcc", "-E", "-I../../libdynprof/resident", "-o", out, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, msg)
	}
	return out
}

// TestRunPrograms runs programs as copies, and compares what they print.
func TestRunPrograms(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	var b bytes.Buffer
	for i := range 20000 {
		fmt.Fprintf(&b, "%d %x line of some text\n", i*7919%10007, i)
	}
	if err := os.WriteFile(text, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range lane.Some([][]string{
		{"/usr/bin/lua5.4", "-e", luaScript},
		{"/usr/bin/xz", "-6", "-c", text},
		{"/usr/bin/xz", "-T2", "-1", "-c", text},
		{"/usr/bin/bash", "-c", `f() { local i; for ((i = 0; i < 2000; i++)); do s=$((s + i)); done; }; f; echo $s; x=abc; echo ${x//b/d} $(echo sub); trap 'echo bye' EXIT; [[ foo =~ f(o+) ]] && echo ${BASH_REMATCH[1]}`},
		{"/usr/bin/python3.11", "-S", "-c", "import sys\nprint(sum(i*i for i in range(100000)), sorted('hello'), {1: 2}.items())\ntry:\n  1/0\nexcept ZeroDivisionError as e: print(e)\nprint('%s' % [str(i) for i in range(10)])"},
		{"/usr/bin/git", "hash-object", text},
		{"/usr/bin/git", "--help", "-a"},
		{"/usr/bin/perl", "-e", `my %n; $n{$_ % 97} .= chr(65 + $_ % 26) for 1..50000; print join("", map { $n{$_} } sort keys %n) =~ tr/A//, "\n"; eval { die "x\n" }; print $@; print join ",", map { sprintf "%03d", $_ } grep { $_ & 1 } 1..9`},
		{"/usr/bin/sort", text}, {"/usr/bin/gawk", "{ n[$1 % 10] += $1 } END { for (i in n) print i, n[i] | \"sort\" }", text},
		{"/usr/bin/sed", "-E", "s/([0-9]+) ([0-9a-f]+)/\\2 \\1/; /7$/d", text},
		{"/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "-quiet", "-O2", preprocessed(t, "../../libdynprof/threads.c"), "-o", "-"},
	}, 0, 1, 2, 3, 7) {
		t.Run(filepath.Base(args[0]), func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(args[0]); err != nil {
				t.Skip(err)
			}
			want, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, want)
			}
			x := translate(t, args[0], every(single, pairOn, pairOff, rareOn, rareOff), func(string) bool { return false })
			if got, _ := x.run(t, args...); got != string(want) {
				t.Errorf("%.300q\nnot %.300q", got, want)
			}
		})
	}
}

// perInstruction is how often each instruction ran, by link-time address: those of a
// block as often as it, and those that stay behind a call as often as the call, which
// comes back in the programs tried.
func (x *translated) perInstruction(t *testing.T, counts []uint64) map[uint64]uint64 {
	t.Helper()
	n := map[uint64]uint64{}
	for k, c := range x.codes {
		g := c.Home.Graph
		runs := solve(t, c, counts[x.first[k]:][:c.Counters+1])
		of := func(i int32) uint64 { return uint64(runs[g.BlockOf(i)]) }
		for i := range g.Insts {
			n[g.Insts[i].Addr] += of(int32(i))
		}
		for _, r := range c.Home.Runs {
			for i := r.First + 1; i < r.End; i++ {
				n[g.Insts[i].Addr] += of(r.First)
			}
		}
	}
	return n
}

// solve is how often each block ran.
func solve(t *testing.T, c *Code, counts []uint64) []int64 {
	t.Helper()
	n := len(c.Blocks)
	known, list := make([]bool, n+len(c.Ways)), make([]int64, n+len(c.Ways))
	for k, counter := range c.Blocks {
		if counter != NoCounter {
			known[k], list[k] = true, int64(counts[counter])
		}
	}
	ways := make([]spantree.Edge, len(c.Ways))
	for i, w := range c.Ways {
		ways[i] = w.Edge
		if w.Calls {
			known[n+i], list[n+i] = true, int64(counts[c.Counters])
		} else if w.Counter != NoCounter {
			known[n+i], list[n+i] = true, int64(counts[w.Counter])
		}
	}
	if !spantree.Solve(2*n, spantree.Split(n, ways), known, list) {
		t.Fatalf("the function at %#x: its counts are not known", c.Home.Graph.Unit.Entry())
	}
	return list[:n]
}

// callgrind is how often each instruction of an object ran, by callgrind.
func callgrind(t *testing.T, args ...string) map[uint64]uint64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "callgrind")
	c := exec.Command("valgrind", append([]string{"-q", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no",
		"--skip-plt=no", "--callgrind-out-file=" + file}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("valgrind: %v: %.200s", err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := map[uint64]uint64{}
	here, skip := false, false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "ob="):
			here = line[3:] == args[0]
		case strings.HasPrefix(line, "calls="):
			skip = true // the next line is of what was called
		case strings.HasPrefix(line, "0x"):
			var at, of, ir uint64
			if _, err := fmt.Sscanf(line, "0x%x %d %d", &at, &of, &ir); err == nil && here && !skip {
				n[at] += ir
			}
			skip = false
		}
	}
	return n
}

// TestExactInstructions: each instruction has run as often as callgrind says, but for
// those with a prefix that repeats them, of which it counts each round.
func TestExactInstructions(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	var b bytes.Buffer
	for i := range 3000 {
		fmt.Fprintf(&b, "%d %x line of some text\n", i*7919%10007, i)
	}
	if err := os.WriteFile(text, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"/usr/bin/xz", "-T1", "-3", "-c", text},
		{"/usr/bin/sed", "-E", "s/([0-9]+) ([0-9a-f]+)/\\2 \\1/; /7$/d", text},
		{"/usr/bin/sqlite3", "-batch", ":memory:", "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select * from t where a > 1;"},
		// Else sort asks how much memory is free and how many processors there are.
		{"/usr/bin/sort", "-S", "1M", "--parallel=1", "-n", text}, {"/usr/bin/md5sum", text}, {"/usr/bin/od", "-x", text}, {"/usr/bin/factor", "1234567890123456789", "97"},
	} {
		t.Run(filepath.Base(args[0]), func(t *testing.T) {
			t.Parallel()
			exact(t, args)
		})
	}
}

func exact(t *testing.T, args []string) {
	want := callgrind(t, args...)
	x := translate(t, args[0], every(single, pairOn, rareOn), func(string) bool { return false })
	_, counts := x.run(t, args...)
	got := x.perInstruction(t, counts)
	wrong, right, ran := 0, 0, 0
	for at, n := range got {
		var in x86.Inst
		code := x.obj.Code(at)
		x86.Decode(code, &in)
		switch {
		case want[at] == n:
			right++
			if n > 0 {
				ran++
			}
		case in.Prefix&(x86.PrefixRep|x86.PrefixRepne) != 0 && in.Map == x86.MapLegacy:
		default:
			if wrong++; wrong < 20 {
				t.Errorf("%x %s: %d, callgrind says %d", at, x86.Text(code, at), n, want[at])
			}
		}
	}
	var sum, of uint64
	for at, n := range want {
		sum += n
		of += got[at]
	}
	t.Logf("%d instructions the same, of which %d ran, %d not; %d of %d executions (%.3f %%) in copies", right, ran, wrong, of, sum, float64(of)*100/float64(sum))
}
