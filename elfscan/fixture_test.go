package elfscan

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// image is an ELF file to scan, and where tools find the same.
type image struct {
	path string
	r    io.ReaderAt
	size int64
}

func (m image) scan(t testing.TB) *Object {
	t.Helper()
	o, err := scan(m.r, m.size) // not Scan: a panic is a failure
	if err != nil {
		t.Fatalf("%s: %v", m.path, err)
	}
	for _, p := range o.Problems {
		t.Errorf("%s: problem: %v", m.path, p)
	}
	return o
}

// openImage opens a file for the rest of the test.
func openImage(t testing.TB, path string) image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return image{path, f, st.Size()}
}

// realImage opens a file of the system, and skips the test if there is none.
func realImage(t testing.TB, path string) image {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skipf("needs %s", path)
	}
	return openImage(t, path)
}

// realFiles are programs and libraries of Debian 12; all but node and libjvm
// are stripped.
var realFiles = []string{
	"/usr/lib/x86_64-linux-gnu/libc.so.6",
	"/lib64/ld-linux-x86-64.so.2",
	"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	"/usr/bin/python3.11",
	"/usr/bin/git",
	"/usr/bin/sqlite3",
	"/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	"/usr/bin/node",
	"/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
}

// eachReal runs a test for every real file.
func eachReal(t *testing.T, test func(*testing.T, image)) {
	for _, path := range realFiles {
		t.Run(filepath.Base(path), func(t *testing.T) { test(t, realImage(t, path)) })
	}
}

// builds are the fixtures: how the compiler is called on a file of testdata.
var builds = map[string]string{
	"c":             "gcc -O2 testdata/parts.c",
	"c no-pie":      "gcc -O2 -no-pie testdata/parts.c",
	"c static":      "gcc -O2 -static testdata/parts.c",
	"c static-pie":  "gcc -O2 -static-pie testdata/parts.c",
	"c library":     "gcc -O2 -fPIC -shared -Wl,-soname,libparts.so.1 testdata/parts.c",
	"c relr":        "gcc -O2 -Wl,-z,pack-relative-relocs testdata/parts.c",
	"c sysv hash":   "gcc -O2 -rdynamic -Wl,--hash-style=sysv testdata/parts.c",
	"c gnu hash":    "gcc -O2 -rdynamic -Wl,--hash-style=gnu testdata/parts.c",
	"c cet":         "gcc -O2 -fcf-protection=full -Wl,-z,ibtplt testdata/parts.c",
	"c one segment": "gcc -O2 -Wl,-z,noseparate-code testdata/parts.c",
	"c lld":         "gcc -O2 -fuse-ld=lld testdata/parts.c",
	"c gold":        "gcc -O2 -fuse-ld=gold testdata/parts.c",
	"c O0":          "gcc -O0 testdata/parts.c",
	"c clang":       "clang -O2 testdata/parts.c",
	"c++":           "g++ -O2 testdata/throw.cc",
	"c++ static":    "g++ -O2 -static testdata/throw.cc",
	"c++ clang":     "clang++ -O2 testdata/throw.cc",
	"asm":           "gcc -nostdlib -static testdata/entries.s",
	"asm library":   "gcc -nostdlib -shared testdata/entries.s",
	"asm gc":        "gcc -nostdlib -static -Wl,--gc-sections testdata/entries.s",
	"asm no eh hdr": "gcc -nostdlib -static -Wl,--no-eh-frame-hdr testdata/entries.s",
	"object file":   "as --64 testdata/entries.s",
}

var fixtures struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "elfscan")
	if err != nil {
		panic(err)
	}
	fixtures.dir, fixtures.paths = dir, map[string]string{}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// fixture compiles a fixture, once.
func fixture(t testing.TB, name string) image {
	t.Helper()
	fixtures.Lock()
	defer fixtures.Unlock()
	path, ok := fixtures.paths[name]
	if !ok {
		args := strings.Fields(builds[name])
		if len(args) == 0 {
			t.Fatalf("no fixture %q", name)
		}
		needs := []string{args[0]}
		for _, arg := range args {
			if linker, ok := strings.CutPrefix(arg, "-fuse-ld="); ok {
				needs = append(needs, "ld."+linker)
			}
		}
		for _, tool := range needs {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip(err)
			}
		}
		path = filepath.Join(fixtures.dir, strings.ReplaceAll(name, " ", "-"))
		run(t, args[0], append(args[1:], "-o", path)...)
		fixtures.paths[name] = path
	}
	return openImage(t, path)
}

// stripped returns a copy of m as strip makes it.
func stripped(t testing.TB, m image) image {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(m.path)+".stripped")
	run(t, "strip", "-o", path, m.path)
	return openImage(t, path)
}

// headless returns m as if it had been made without section headers.
func headless(m image) image {
	const shoff, shnum = 0x28, 0x3c // and e_shstrndx behind
	return patched(patched(m, shoff, make([]byte, 8)), shnum, make([]byte, 4))
}

// symtabless returns m with .symtab disguised.
func symtabless(t testing.TB, m image) image {
	t.Helper()
	f, err := elf.NewFile(m.r)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, headerSize)
	if _, err := m.r.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB {
			return patched(m, int64(le.Uint64(b[0x28:]))+int64(i)*sectionSize+4, make([]byte, 4))
		}
	}
	t.Fatalf("%s has no .symtab", m.path)
	return m
}

// patched returns m with the bytes b at off.
func patched(m image, off int64, b []byte) image {
	return image{m.path, patchedReader{m.r, off, b}, m.size}
}

type patchedReader struct {
	io.ReaderAt
	off int64
	b   []byte
}

func (p patchedReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	for i, v := range p.b {
		if at := p.off + int64(i) - off; at >= 0 && at < int64(n) {
			b[at] = v
		}
	}
	return n, err
}

// run runs a tool and returns what it prints.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &errs)
	}
	return out.String()
}

// byName maps each name and alias to its function.
func byName(o *Object) map[string]*Function {
	m := map[string]*Function{}
	for i := range o.Functions {
		fn := &o.Functions[i]
		for _, name := range append([]string{fn.Name}, fn.Aliases...) {
			if name != "" {
				m[name] = fn
			}
		}
	}
	return m
}

func (fn Function) String() string {
	return fmt.Sprintf("%#x+%d %q %q %v %v fde=%v lsda=%v resolver=%v",
		fn.Addr, fn.Size, fn.Name, fn.Aliases, fn.Source, fn.Excluded, fn.HasFDE, fn.LSDA, fn.IFuncResolver)
}
