package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestEmulators: under valgrind and qemu-user no planner is made, and the line says
// why. Where exec is followed the emulator is counted itself.
func TestEmulators(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct{ emulator, why string }{
		{"valgrind -q --tool=none", "it runs in valgrind"},
		{"qemu-x86_64", "it runs in an emulator (qemu-user)"},
	} {
		t.Run(row.emulator, func(t *testing.T) {
			args := append(strings.Fields(row.emulator), need(t, "false"))
			need(t, args[0])
			c := cmd(args...)
			without := run(t, c)
			for _, objects := range []string{"", "all"} {
				c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_FOLLOW_EXEC=1", "DYNPROF_OBJECTS=" + objects,
					"DYNPROF_OUTPUT=" + filepath.Join(t.TempDir(), "table.%p")}
				with := run(t, c)
				if want := "dynprof: " + args[len(args)-1] + ": not counted: " + row.why + "\n"; !strings.HasSuffix(with.stderr, want) {
					t.Errorf("stderr is %q, not %q", with.stderr, want)
				} else {
					with.stderr = strings.TrimSuffix(with.stderr, want)
				}
				same(t, without, with)
			}
		})
	}
}
