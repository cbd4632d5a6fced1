package objcode

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

const versioned = `
int old(void) { return 1; }
int new(void) { return 2; }
__asm__(".symver old, f@V1; .symver new, f@@V2");
extern int puts(const char *);
int calls(void) { return puts("x"); }
static int one(void) { return 1; }
static void *choose(void) { return one; }
int chosen(void) __attribute__((ifunc("choose")));
`

// library is a shared library with versions.
func library(t *testing.T, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc on this machine (make deps installs it)")
	}
	dir := t.TempDir()
	source, script, path := filepath.Join(dir, "l.c"), filepath.Join(dir, "l.map"), filepath.Join(dir, "l.so")
	for name, text := range map[string]string{source: versioned, script: "V1 { global: f; };\nV2 { global: f; calls; chosen; local: *; } V1;\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"-shared", "-fPIC", "-O2", "-o", path, source, "-Wl,--version-script=" + script}, flags...)
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// TestLinks: what a library exports, with versions, and what it asks for.
func TestLinks(t *testing.T) {
	for _, flags := range [][]string{nil, {"-fno-plt"}, {"-Wl,-Bsymbolic"}} {
		o := &layout.Object{Path: library(t, append(flags, "-Wl,--build-id=none")...)}
		l, err := LoadLinks(o, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f := l.Exports["f"]
		slices.SortFunc(f, func(a, b Export) int { return strings.Compare(a.Version, b.Version) })
		if len(f) != 2 || f[0].Version != "V1" || !f[0].Hidden || f[1].Version != "V2" || f[1].Hidden || !f[1].Versioned || f[0].Address == f[1].Address {
			t.Errorf("%+v", f)
		}
		if c := l.Exports["chosen"]; len(c) != 1 || !c[0].Indirect || l.Exports["puts"] != nil || l.Symbolic != slices.Contains(flags, "-Wl,-Bsymbolic") {
			t.Errorf("%+v %+v", l.Exports, c)
		}
		asked := 0
		for _, r := range l.Slots {
			if r.Name == "puts" && r.Version == "GLIBC_2.2.5" && r.Own == 0 {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("%+v", l.Slots)
		}
	}
}

// TestLinksChanged: a file that is not what ran is not read.
func TestLinksChanged(t *testing.T) {
	path := library(t)
	if _, err := LoadLinks(&layout.Object{Path: path, BuildID: "1234", Flags: layout.ObjSelected}, time.Now()); err == nil {
		t.Error("another build ID")
	}
	if _, err := LoadLinks(&layout.Object{Path: path}, time.Now().Add(-time.Hour)); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Error(err)
	}
}
