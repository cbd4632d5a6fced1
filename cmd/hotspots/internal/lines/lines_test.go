package lines

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/table/layout"
)

const source = `
#include <stdio.h>
static inline int twice(int n)
{
	return 2 * n;
}
__attribute__((noinline)) int f(int n)
{
	if (n > 100)
		__builtin_trap();
	for (int i = 0; i < n; i++)
		n ^= twice(i);
	return n;
}
int main(int argc, char **argv)
{
	(void)argv;
	printf("%d\n", f(argc));
	return 0;
}
`

func command(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath(args[0])
	if err != nil {
		t.Skipf("no %s on this machine (make deps installs it)", args[0])
	}
	out, err := exec.Command(path, args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return out
}

// program compiles the source.
func program(t *testing.T, flags ...string) *layout.Object {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "p")
	if err := os.WriteFile(path+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, append([]string{"gcc", "-o", path, path + ".c"}, flags...)...)
	return object(t, path)
}

// object is what a table says of a file.
func object(t *testing.T, path string) *layout.Object {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scan, err := elfscan.Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return &layout.Object{Path: path, BuildID: hex.EncodeToString(scan.BuildID)}
}

// symbol is where a function lies.
func symbol(t *testing.T, path, name string) (low, high uint64) {
	t.Helper()
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	symbols, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value, s.Value + s.Size
		}
	}
	t.Fatalf("no %s", name)
	return 0, 0
}

// TestLines: of every address the line is told that addr2line tells.
func TestLines(t *testing.T) {
	for _, flags := range [][]string{{"-g"}, {"-g", "-O2"}, {"-g", "-O2", "-gz=zlib"}, {"-g", "-O2", "-gdwarf-4", "-no-pie"}, {"-g", "-O2", "-gdwarf-3", "-ffunction-sections"}, {"-g", "-Wl,--build-id=none"}} {
		o := program(t, flags...)
		f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
		if err != nil || f == nil {
			t.Fatalf("%v: %+v, %v", flags, f, err)
		}
		compare(t, f, o.Path, "f")
		compare(t, f, o.Path, "main")
	}
}

// TestLinesOfClang: clang gives absolute files a directory, too.
func TestLinesOfClang(t *testing.T) {
	o := program(t)
	command(t, "clang", "-g", "-O2", "-gdwarf-5", "-o", o.Path, o.Path+".c")
	o = object(t, o.Path)
	f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
	if err != nil || f == nil {
		t.Fatalf("%+v, %v", f, err)
	}
	compare(t, f, o.Path, "f")
}

// TestLines64: offsets of 64 bits, which addr2line does not read, tell the same as those of 32.
func TestLines64(t *testing.T) {
	var told [2][]int
	for i, format := range []string{"-gdwarf32", "-gdwarf64"} {
		o := program(t, "-g", "-O2", format)
		f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
		if err != nil || f == nil {
			t.Fatal(err)
		}
		low, high := symbol(t, o.Path, "f")
		rows, err := f.Of(low, low, high)
		if err != nil {
			t.Fatal(err)
		}
		for at := low; at < high; at++ {
			_, line := rows.At(at)
			told[i] = append(told[i], line)
		}
	}
	if !slices.Equal(told[0], told[1]) || slices.Max(told[0]) == 0 {
		t.Errorf("%v", told)
	}
}

var address = regexp.MustCompile(`(?m)^(.*):([0-9?]+)( \(discriminator \d+\))?$`)

// compare compares what f says of a function with addr2line.
func compare(t *testing.T, f *File, path, function string) {
	t.Helper()
	low, high := symbol(t, path, function)
	rows, err := f.Of(low, low, high)
	if err != nil || len(rows) == 0 {
		t.Errorf("%s: %v, %v", f.Path, rows, err)
	}
	args := []string{"addr2line", "-e", path}
	for at := low; at < high; at++ {
		args = append(args, fmt.Sprintf("%#x", at))
	}
	told := address.FindAllStringSubmatch(string(command(t, args...)), -1)
	if len(told) != int(high-low) {
		t.Fatalf("%d of %d", len(told), high-low)
	}
	for i, m := range told {
		want := strings.ReplaceAll(m[1]+":"+m[2], "??:?", ":0")
		if file, line := rows.At(low + uint64(i)); fmt.Sprintf("%s:%d", file, line) != want && !(line == 0 && m[2] == "?") {
			t.Errorf("%s, %s+%d: %s:%d, not %s", f.Path, function, i, file, line, want)
		}
	}
}

// TestSeparate: debug information in a file of its own is found, and that of another object
// is not taken for it.
func TestSeparate(t *testing.T) {
	for _, flags := range [][]string{{"-Wl,--build-id"}, {"-Wl,--build-id=none"}} {
		o := program(t, append(flags, "-g", "-O2")...)
		full := o.Path + ".full"
		command(t, "cp", o.Path, full)
		root, name := t.TempDir(), filepath.Join(filepath.Dir(o.Path), "p.debug")
		command(t, "objcopy", "--only-keep-debug", full, name)
		command(t, "objcopy", "--strip-debug", "--add-gnu-debuglink="+name, o.Path)
		places := []string{name, filepath.Join(filepath.Dir(o.Path), ".debug", "p.debug"), filepath.Join(root, filepath.Dir(o.Path), "p.debug")}
		if o.BuildID != "" {
			places = append(places, filepath.Join(root, ".build-id", o.BuildID[:2], o.BuildID[2:]+".debug"))
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			os.Remove(name)
			if f, err := Open(o, &debugfile.Finder{Root: root}); f != nil || err != nil {
				t.Errorf("nothing there: %+v, %v", f, err)
			}
			put(t, place, b)
			f, err := Open(o, &debugfile.Finder{Root: root})
			if err != nil || f == nil || f.Path != place {
				t.Fatalf("%s: %+v, %v", place, f, err)
			}
			compare(t, f, full, "f")
			os.Remove(place)
		}
		other := program(t, "-g", "-O1", flags[0])
		if b, err = os.ReadFile(other.Path); err != nil {
			t.Fatal(err)
		}
		put(t, name, b)
		if f, err := Open(o, &debugfile.Finder{Root: root}); f != nil || err != nil {
			t.Errorf("another's: %+v, %v", f, err)
		}
	}
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamaged: sections that are cut off or garbled give lines or an error, and take no
// memory to speak of.
func TestDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, flags := range [][]string{{"-gdwarf-5"}, {"-gdwarf-4"}} {
		o := program(t, append(flags, "-O2")...)
		f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		low, high := symbol(t, o.Path, "f")
		whole := f.sections
		names := slices.Sorted(maps.Keys(whole))
		failed := 0
		for i := range 4000 {
			f.sections = maps.Clone(whole)
			name := names[i%len(names)]
			b := slices.Clone(whole[name])
			if i%3 == 0 {
				b = b[:random.IntN(len(b))]
			}
			for range min(i%3, len(b)) {
				b[random.IntN(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(random.Uint32())}[random.IntN(6)]
			}
			f.sections[name] = b
			if n := allocated(func() { _, err = f.Of(low, low, high) }); n > 16<<20 {
				t.Errorf("%s, case %d of %s: %d bytes; %v", flags, i, name, n, err)
			}
			if err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Error("no error")
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestGreedy: a line table that claims to have very many files, directories or paths is
// refused, and takes no memory.
func TestGreedy(t *testing.T) {
	o := program(t, "-gdwarf-5", "-O2")
	f, err := Open(o, &debugfile.Finder{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	low, high := symbol(t, o.Path, "f")
	head := []byte{5, 0, 8, 0, 0, 0, 0, 0, 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1} // up to the formats
	many := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	long := bytes.Repeat([]byte("d"), 1<<20)
	file := []byte{1, 1, 8, 1, 'd', 0, 1, 1, 8, 1, 'f', 0}
	for name, lists := range map[string][]byte{
		"":            file,
		"a new file":  slices.Concat(file, []byte{0, 5, 3, 'f', 0, 0, 0}),
		"directories": slices.Concat([]byte{1, 1, 8}, many),
		"files":       slices.Concat([]byte{1, 1, 8, 0, 1, 1, 8}, many),
		"nested":      slices.Concat([]byte{2, 1, 8, 2, 0x0b, 3, 'd', 0, 0, 'e', 0, 0, 'f', 0, 1}, file[3+3:]),
		"no formats":  slices.Concat([]byte{0}, many),
		"paths":       slices.Concat([]byte{1, 1, 8, 1}, long, []byte{0, 2, 1, 8, 2, 0x0b, 0xf4, 3}, bytes.Repeat([]byte{'f', 0, 0}, 500)),
	} {
		unit := slices.Concat([]byte{0, 0, 0, 0}, head, lists, make([]byte, 100))
		binary.LittleEndian.PutUint32(unit, uint32(len(unit)-4))
		binary.LittleEndian.PutUint32(unit[8:], uint32(len(head)-8+len(file))) // to the program
		f.sections["line"] = unit
		n := allocated(func() { _, err = f.Of(low, low, high) })
		if refused := err != nil && strings.Contains(err.Error(), "damaged line table"); refused != (name != "") || n > 16<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// TestSource: lines of a source file are those that the object was built of.
func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.c")
	put(t, path, []byte("one\ntwo\n"))
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if l := (Sources{}).Line(path, 2, fi.ModTime()); l != "two" {
		t.Errorf("%q", l)
	}
	for _, l := range []string{
		(Sources{}).Line(path, 3, fi.ModTime()), (Sources{}).Line(path, 0, fi.ModTime()), (Sources{}).Line("/dev/zero", 1, time.Now()),
		(Sources{}).Line(path, 1, fi.ModTime().Add(-time.Second)), (Sources{}).Line(path+".none", 1, time.Now()),
	} {
		if l != "" {
			t.Errorf("%q", l)
		}
	}
}
