package test

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Libraries that come where they cannot be counted: they do what they did, the
// report names them, and if they may take the GS segment nothing counts any more.

// variants of a counted run.
var variants = [][]string{nil, {"--objects", "all"}, {"--direct-calls"}, {"--objects", "all", "--threshold", "1000", "--control"}}

// inVariants runs c without the library, by hotspots run in all variants, and by a
// bare LD_PRELOAD. Every run has to do the same; check looks at its report.
func inVariants(t *testing.T, c command, check func(t *testing.T, r *report)) {
	t.Helper()
	without := run(t, c)
	for _, flags := range variants {
		t.Run("run "+strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, c, flags...)
			same(t, without, with)
			check(t, r)
		})
	}
	for _, objects := range []string{"", "all"} {
		t.Run("preload "+objects, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table")
			bare := c
			bare.env = append(slices.Clone(c.env), "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+table, "DYNPROF_OBJECTS="+objects)
			same(t, without, run(t, bare))
			check(t, readReport(t, table))
		})
	}
}

// missing fails unless the report names the library, by its reason, and no other.
func (r *report) missing(t *testing.T, library, reason string) {
	t.Helper()
	if len(r.Missed) != 1 || filepath.Base(r.Missed[0].Object) != filepath.Base(library) || r.Missed[0].Reason != reason || r.ObjectsMissed != 1 {
		t.Errorf("missed: %+v, %d in all; not %s: %s", r.Missed, r.ObjectsMissed, library, reason)
	}
}

// ended fails unless the loading of the library ended the counting.
func (r *report) ended(t *testing.T, library string) {
	t.Helper()
	if !r.Stopped || filepath.Base(r.StoppedBy) != filepath.Base(library) {
		t.Errorf("stopped: %t, by %q, not %q", r.Stopped, r.StoppedBy, library)
	}
	if n := r.calls(t, "step"); n != 1000 {
		t.Errorf("step: %d calls, not the 1000 before", n)
	}
}

// readable moves a file to where every user may read it.
func readable(t *testing.T, file string) string {
	t.Helper()
	to := filepath.Join(observerDir(t), filepath.Base(t.TempDir())+".so")
	if err := os.Rename(file, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestMissed: a library that cannot be planned does not count, and the report says
// so; the rest goes on counting.
func TestMissed(t *testing.T) {
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	plain := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c"))
	inVariants(t, cmd(program, "f", plain), func(t *testing.T, r *report) {
		r.missing(t, plain, "sandboxed")
		if n := r.calls(t, "step"); n != 1550 || r.Stopped {
			t.Errorf("step: %d calls, not 1550; stopped: %t", n, r.Stopped)
		}
	})
}

// TestMissedTakes: one that takes the GS segment ends the counting although it
// cannot be planned: nothing is written where GS leads then.
func TestMissedTakes(t *testing.T) {
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	taking := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "latelib.c", "takeslib.c"))
	byCall := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "takesgslib.c"))
	for name, library := range map[string]string{"wrgsbase": taking, "arch_prctl": byCall} {
		t.Run(name+" in a sandbox", func(t *testing.T) {
			inVariants(t, cmd(program, "f", library), func(t *testing.T, r *report) {
				r.missing(t, library, "uses-gs")
				r.ended(t, library)
			})
		})
	}
	t.Run("planned", func(t *testing.T) {
		inVariants(t, cmd(program, "", taking), func(t *testing.T, r *report) {
			r.ended(t, taking)
			if len(r.Missed) != 0 {
				t.Errorf("missed: %+v", r.Missed)
			}
		})
	})
}

// hideCode makes a library's code executable, not readable.
func hideCode(t *testing.T, library string) {
	t.Helper()
	b, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const programHeaders, entry, flags = 0x40, 56, 4
	for i, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			binary.LittleEndian.PutUint32(b[programHeaders+i*entry+flags:], uint32(elf.PF_X))
		}
	}
	if err := os.WriteFile(library, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestMissedUnseen: code that nobody may read may take the GS segment.
func TestMissedUnseen(t *testing.T) {
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "loads.c")
	library := readable(t, compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-z,separate-code"}, "latelib.c", "takeslib.c"))
	hideCode(t, library)
	inVariants(t, cmd(program, "", library), func(t *testing.T, r *report) { r.ended(t, library) })
	inVariants(t, cmd(program, "f", library), func(t *testing.T, r *report) {
		r.missing(t, library, "unseen")
		r.ended(t, library)
	})
}
