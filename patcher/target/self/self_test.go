package self

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/target"
)

var _ target.Target = (*Process)(nil)

const size = 2 << 12

// shared is memory as the reserve is, and its address.
func shared(t *testing.T) (b []byte, at uint64) {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(b) })
	return b, uint64(uintptr(unsafe.Pointer(&b[0])))
}

// TestMemory: this process is its own target.
func TestMemory(t *testing.T) {
	b, at := shared(t)
	p := &Process{Pid: os.Getpid(), ReserveAt: at, ReserveSize: size, HeapEnd: 1 << 40}
	maps, err := p.Maps()
	if err != nil || !slices.ContainsFunc(maps, func(m procmaps.Mapping) bool { return m.Start <= at && at+size <= m.End }) {
		t.Errorf("%#x is not in %v, %v", at, maps, err)
	}
	again, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	copy(again[size/2:], "stub")
	if got := p.View(at+size/2, 4); string(got) != "stub" || string(b[size/2:][:4]) != "stub" {
		t.Errorf("the reserve has %q", got)
	}
	if p.IsFree(at, size) || p.Hold(at, size) {
		t.Error("what is mapped is free")
	}
	if got := string(p.View(at+size/2, 4)); got != "stub" {
		t.Errorf("asking has changed it to %q", got)
	}
	if g := p.Growth(); g.Heap == 0 || g.Stack == 0 || g.HeapEnd != p.HeapEnd {
		t.Errorf("%+v", g)
	}
	if p.Lowest() < 4096 || p.IsDebugged() || p.Checked() != nil {
		t.Errorf("%#x, %t, %v", p.Lowest(), p.IsDebugged(), p.Checked())
	}
}

// TestWritten: a page of a file's that is written to is no more the file's.
func TestWritten(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(b)
	at := uint64(uintptr(unsafe.Pointer(&b[0])))
	b[size-1] = b[0] + 1
	pages, err := new(Process).Written(at, at+size)
	if err != nil || !slices.Equal(pages, []uint64{at + size/2}) {
		t.Errorf("%#x, %v: only %#x was written", pages, err, at+size/2)
	}
}

// TestOutside: what an outsider cannot tell it does not guess, and says so later.
func TestOutside(t *testing.T) {
	_, at := shared(t)
	for _, ask := range []func(p *Process) bool{
		func(p *Process) bool { _, err := p.Maps(); return errors.Is(err, ErrOutside) },
		func(p *Process) bool { return !p.Hold(at, size) },
	} {
		p := &Process{Outside: true}
		if before := p.Checked(); before != nil || !ask(p) || !errors.Is(p.Checked(), ErrOutside) {
			t.Errorf("%v, then %v", before, p.Checked())
		}
	}
}

// TestFiles: what an object was loaded from is read where it can be mapped, and where it
// cannot, as the empty file.
func TestFiles(t *testing.T) {
	beats := 0
	p := &Process{Beat: func() { beats++ }}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("an object"), 0o600), os.Symlink("file", link), os.WriteFile(path+"0", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Resolve(link); got != path || err != nil {
		t.Errorf("%s is %s, %v", link, got, err)
	}
	if _, err := p.Resolve(path + "1"); err == nil {
		t.Error("no file is one")
	}
	if _, err := p.Open(path + "1"); err == nil {
		t.Error("no file can be opened")
	}
	f, err := p.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n != len(b) || err != nil || !bytes.Equal(b, []byte("an object")) || beats != 1 {
		t.Errorf("%q, %v, %d beats", b, err, beats)
	}
	if s, ok := f.(interface{ String(off, size uint64) string }); !ok || s.String(3, 6) != "object" {
		t.Errorf("%T has other strings", f)
	}
	empty, err := p.Open(path + "0")
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, mapped := empty.(interface{ String(off, size uint64) string }); mapped || empty.Size() != 0 {
		t.Errorf("%T of %d bytes", empty, empty.Size())
	}
}
