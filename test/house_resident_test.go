package test

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestResident: parts of what runs in the program, each with a program of its own
// around it: what they do where their room ends.
func TestResident(t *testing.T) {
	lane.Parallel(t)
	for _, unit := range []string{"entered.c", "kept.c", "laststacks.c laststacks.S", "lost.c", "memory.c", "patience.c", "ring.c"} {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			p := compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-I../libdynprof/resident"}, strings.Fields(unit)...)
			if r := run(t, cmd(p)); r.status != 0 || r.stdout+r.stderr != "" {
				t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
			}
		})
	}
}

// TestResidentAlone: the object that the library is linked with can be loaded by who
// has neither libc nor a dynamic linker. Linked by itself it needs no symbol and has no
// relocation left; its parts work where they are mapped by hand.
func TestResidentAlone(t *testing.T) {
	lane.Parallel(t)
	object := filepath.Join(t.TempDir(), "alone.so")
	out, err := exec.Command("ld", "-shared", "-Bsymbolic", "-z", "text", "--no-undefined", "-o", object, "../libdynprof/resident_linux_amd64.syso").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Type == elf.SHT_RELA && s.Size > 0 {
			t.Errorf("%s: %d bytes of relocations are left", s.Name, s.Size)
		}
	}
	loader := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-I../libdynprof/resident"}, "alone.c")
	if r := run(t, cmd(loader, object)); r.status != 0 || r.stdout+r.stderr != "" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
