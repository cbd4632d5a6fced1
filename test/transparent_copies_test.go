package test

import (
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestCopies: of two copies of the library in a process one counts, and the program
// sees the variables of neither.
func TestCopies(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O0"}, "vm.c")
	library := build(t, "libdynprof.so")
	another := copyFile(t, library, filepath.Join(t.TempDir(), "another.so"))
	script := program + `; env | grep -E "LD_PRELOAD|DYNPROF"; exec ` + program
	without := run(t, cmd("sh", "-c", script))
	_, one := counted(t, cmd(program))
	both := func(t *testing.T, preload string, command ...string) {
		t.Helper()
		table := filepath.Join(t.TempDir(), "table")
		with := run(t, cmd(append([]string{"env", "LD_PRELOAD=" + preload, "DYNPROF_OUTPUT=" + table}, command...)...))
		if command[0] == "sh" {
			same(t, without, with)
			return
		}
		two := readReport(t, table)
		for _, name := range []string{"hash_of", "table_slot", "main"} {
			if a, b := one.calls(t, name), two.calls(t, name); a != b {
				t.Errorf("%s: %d calls, with one copy %d", name, b, a)
			}
		}
	}
	for name, preload := range map[string]string{"behind": library + ":" + another, "in front": another + " " + library} {
		t.Run(name, func(t *testing.T) {
			both(t, preload, program)
			both(t, preload, "sh", "-c", script)
		})
	}
	for _, flags := range lane.Some(append(variants, []string{"--text-copies"}), 0, 5) {
		c := cmd(program)
		alone := run(t, c)
		c.env = []string{"LD_PRELOAD=" + another, "XDG_CACHE_HOME=" + t.TempDir()}
		with, two := counted(t, c, flags...)
		same(t, alone, with)
		if a, b := one.calls(t, "table_slot"), two.calls(t, "table_slot"); a != b {
			t.Errorf("%q: table_slot: %d calls, with one copy %d", flags, b, a)
		}
	}
}
