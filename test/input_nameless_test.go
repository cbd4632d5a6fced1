package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestNameless: programs and libraries whose files have no name are counted:
// those of memfd_create(2), and those that an upgrade has replaced. Another user
// may not open what the kernel has mapped, so it is read from memory.
func TestNameless(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	dir := observerDir(t)
	program, library := filepath.Join(dir, "nameless"), filepath.Join(dir, "library.so")
	if err := os.Rename(compile(t, gcc, []string{"-O1"}, "nameless.c"), program); err != nil {
		t.Fatal(err)
	}
	// RELR keeps the addresses of code in data that is relocated in place.
	if err := os.Rename(compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"}, "latelib.c"), library); err != nil {
		t.Fatal(err)
	}
	users := map[string][]string{"": nil}
	if os.Getuid() == 0 {
		if setpriv, err := exec.LookPath("setpriv"); err == nil {
			users["another user"] = []string{setpriv, "--reuid", "65533", "--regid", "65533", "--clear-groups"}
		}
	}
	variants := map[string][]string{
		"default": nil, "all": {"DYNPROF_OBJECTS=all"}, "kept calls": {"DYNPROF_KEEP_CALLS=1"},
		"all, controlled": {"DYNPROF_OBJECTS=all", "DYNPROF_THRESHOLD=1000", "DYNPROF_CONTROL=1"},
	}
	if !lane.Long {
		delete(variants, "all") // the last has it, too
		delete(variants, "kept calls")
	}
	for user, as := range users {
		for how, made := range map[string]string{"memfd": "memfd:nameless", "unlinked": "dynprof-nameless-"} {
			for what, args := range map[string][]string{"exec": {program, "one", "two"}, "load": {library}} {
				for variant, env := range variants {
					for _, way := range []string{"run", "preload"} {
						t.Run(strings.Join([]string{user, how, what, variant, way}, " "), func(t *testing.T) {
							t.Parallel()
							tables, err := os.MkdirTemp(dir, "tables")
							if err != nil {
								t.Fatal(err)
							}
							if err := os.Chmod(tables, 0o777); err != nil {
								t.Fatal(err)
							}
							c := command{args: slices.Concat(as, []string{program, how, what}, args), env: []string{"XDG_RUNTIME_DIR=" + tables, "XDG_CACHE_HOME=" + tables}}
							without := run(t, c)
							if without.status != 7 {
								t.Fatalf("the row does not run: %+v", without)
							}
							c.env = slices.Concat(c.env, env, []string{"DYNPROF_FOLLOW_EXEC=1", "DYNPROF_OUTPUT=" + tables + "/t.%e.%p"})
							if way == "run" {
								c.args = slices.Concat(as, []string{build(t, "hotspots"), "run", "--summary", "0", "--library", build(t, "libdynprof.so"), "--"}, c.args[len(as):])
							} else {
								c.args = slices.Concat(as, []string{"env", "LD_PRELOAD=" + build(t, "libdynprof.so")}, c.args[len(as):])
							}
							same(t, without, run(t, c))
							checkNameless(t, tables, what, made)
						})
					}
				}
			}
		}
	}
}

// checkNameless looks for what was counted: the program, and its copy or that of
// the library.
func checkNameless(t *testing.T, tables, what, made string) {
	t.Helper()
	list, err := filepath.Glob(tables + "/t.*")
	if err != nil {
		t.Fatal(err)
	}
	var steps, late uint64
	for _, table := range list {
		for _, f := range readReport(t, table).Functions {
			switch base := filepath.Base(f.Object); {
			case f.Name == "step" && (base == "nameless" || strings.HasPrefix(base, made)):
				steps += f.Calls
			case f.Name == "late_step" && strings.HasPrefix(base, made):
				late += f.Calls
			}
		}
	}
	if want := map[string][2]uint64{"exec": {2000, 0}, "load": {1000, 1000}}[what]; steps != want[0] || late != want[1] {
		t.Errorf("%d calls of step and %d of late_step, not %d: %v", steps, late, want, list)
	}
}
