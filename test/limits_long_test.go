//go:build long

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tinyLibrary has so many functions besides those of latelib.c, each of which only
// goes on to the next.
func tinyLibrary(t *testing.T, n int, body string) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "\t.type f%d, @function\nf%d:\t%s\n\t.size f%d, .-f%d\n", i, i, body, i, i)
	}
	text.WriteString("\tret\n\t.section .note.GNU-stack, \"\", @progbits\n")
	source := filepath.Join(t.TempDir(), "tiny.s")
	if err := os.WriteFile(source, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "tiny.so")
	if r := run(t, cmd(need(t, "gcc"), "-O1", "-shared", "-fPIC", "-o", library, "testdata/latelib.c", source)); r.status != 0 {
		t.Fatal(r.stderr)
	}
	return library
}

// TestLongTinyFunctions: where functions are so small and so many that the list of
// patches, or the stubs, have no room, they say so.
func TestLongTinyFunctions(t *testing.T) {
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "loads.c")
	for _, row := range []struct {
		name, body string
		n          int
		flags      []string
	}{
		{"patches", "mov $7, %eax", 65_000, nil},
		{"stubs", "mov $7, %eax; mov $7, %ecx", 80_000, []string{"--threshold", "1000"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			library := tinyLibrary(t, row.n, row.body)
			c := cmd(program, "", library)
			with, r := counted(t, c, row.flags...)
			same(t, run(t, c), with)
			refused := 0
			for _, f := range r.of(library) {
				if f.Reason == "no-memory" {
					refused++
				}
			}
			if refused < row.n {
				t.Errorf("%d functions of %d say that there was no room", refused, row.n)
			}
			if n := r.calls(t, "step"); n != 1550 {
				t.Errorf("step: %d calls, not 1550", n)
			}
		})
	}
}

// TestLongLargeCopy: the copy of a large program that would plan a library is not made where
// its page tables, 4 MB here, are too much: until it runs they are the program's memory.
func TestLongLargeCopy(t *testing.T) {
	const size, mb = 2000, 1 << 20
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "largelate.c")
	library := compile(t, gcc, []string{"-shared", "-fPIC", manySource(t, 3, 100, next)})
	args := []string{program, strconv.Itoa(size), library}
	m := newMemoryLimit(t)
	without := run(t, m.in(t, 2*size*mb, cmd(args...)))
	if without.status != 0 {
		t.Fatalf("%+v", without)
	}
	used := m.used(t)
	for _, cache := range []string{"DYNPROF_CACHE=0", "DYNPROF_CACHE=1"} {
		c := cmd(append([]string{"env", cache, "LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table")}, args...)...)
		same(t, without, run(t, m.in(t, used+3*mb, c)))
	}
}
