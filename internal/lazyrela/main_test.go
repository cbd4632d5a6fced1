package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A library with pointers in and beside the sections that are Go's.
const source = `
static int x;
int *mine[] = {&x, &x, &x};
extern int other;
int *others[] = {&other};
#define IN(s, name) __attribute__((section(s))) int *name[] = {&x, &x};
IN(".go.relro", a) IN(".go.data", b) IN(".go.module", c) IN(".go.fipsinfo", d) IN(".noptrdata", e)
__asm__(".section .dp_lazy, \"a\"; .balign 8; .quad 0, 0");
`

func TestDivide(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(filepath.Join(dir, "lib.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-nostdlib", "-o", path, filepath.Join(dir, "lib.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := relocations(t, path)
	if n, err := edit(path); n != 10 || err != nil {
		t.Fatalf("%d are left to the twin, %v", n, err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.DynValue(elf.DT_RELASZ)
	count, _ := f.DynValue(elf.DT_RELACOUNT)
	at, _ := f.DynValue(elf.DT_RELA)
	note, err := f.Section(".dp_lazy").Data()
	if err != nil || len(size) != 1 || len(count) != 1 {
		t.Fatal(err, size, count)
	}
	if size[0] != uint64(len(before)-10*entry) || count[0] != 3 || le.Uint64(note) != at[0]+size[0] || le.Uint64(note[8:]) != 10 {
		t.Errorf("%d bytes at %#x, %d relative ones, and % x", size[0], at[0], count[0], note)
	}
	after := relocations(t, path)
	for r := before; len(r) > 0; r = r[entry:] {
		if bytes.Count(after, r[:entry]) != 1 {
			t.Errorf("% x is lost", r[:entry])
		}
	}
	for r := after[:3*entry]; len(r) > 0; r = r[entry:] {
		if le.Uint32(r[8:]) != uint32(elf.R_X86_64_RELATIVE) {
			t.Errorf("% x is among the first", r[:entry])
		}
	}
	if n, err := edit(path); n != 10 || err != nil || !bytes.Equal(relocations(t, path), after) {
		t.Errorf("once more: %d, %v", n, err)
	}
	if _, err := divide([]byte("no ELF file")); err == nil {
		t.Error("no error for what is no ELF file")
	}
}

func relocations(t *testing.T, path string) []byte {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".rela.dyn").Data()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
