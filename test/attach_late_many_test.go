//go:build long

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAttachLateMany: of more libraries that nobody was there to plan than a process keeps in
// mind the first are counted by the next attach; the rest stay as they are, named.
func TestAttachLateMany(t *testing.T) {
	const kept, more = 128, 2 // docs/limits.md
	program, first := compile(t, need(t, "gcc"), []string{"-O1"}, "attachlate.c"), compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC", "-nostdlib", "-s"}, "latelib.c")
	dir, a, content := t.TempDir(), startAttached(t, program), []byte(read(t, first))
	table := a.attach()
	var libraries []string
	for i := range kept + more {
		libraries = append(libraries, filepath.Join(dir, fmt.Sprintf("late%03d.so", i)))
		if err := os.WriteFile(libraries[i], content, 0o755); err != nil {
			t.Fatal(err)
		}
		a.do("keep", libraries[i], 1)
	}
	if r := readReport(t, table); r.ObjectsMissed != kept+more {
		t.Errorf("missed: %d", r.ObjectsMissed)
	}
	if s := a.hotspots("attach"); s.status != 0 || !strings.Contains(s.stderr, fmt.Sprint(kept, " objects that it has loaded since")) {
		t.Fatalf("attach again: status %d: %s", s.status, s.stderr)
	}
	for i, library := range libraries {
		a.do("load", library, i+1)
	}
	r := readReport(t, table)
	for i, library := range libraries {
		want := uint64(i + 1)
		if i >= kept {
			want = 0
		}
		if n := r.late(library, "late_step"); n != want {
			t.Errorf("library %d: %d calls, not %d", i, n, want)
		}
	}
	if r.ObjectsMissed != kept+more {
		t.Errorf("missed: %d", r.ObjectsMissed)
	}
	if s := a.hotspots("attach"); s.status != 1 || !strings.Contains(s.stderr, "is counted already") {
		t.Errorf("attach once more: status %d: %s", s.status, s.stderr)
	}
	a.detach()
	fmt.Fprintln(a.to, "end")
	a.ends()
}
