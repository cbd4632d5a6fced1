//go:build long

package test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFirefox: its libxul, which comes later, takes the GS segment. With --lock all
// of it is counted.
func TestFirefox(t *testing.T) {
	firefox := need(t, "firefox-esr")
	start := func() command {
		profile := t.TempDir()
		return cmd(firefox, "--headless", "--no-remote", "--profile", profile, "--screenshot", filepath.Join(profile, "shot.png"), "about:license")
	}
	without := run(t, start())
	judge := func(t *testing.T, with result, r *report, lock bool) {
		t.Helper()
		if with.status != without.status {
			t.Errorf("status %d, not %d: %s", with.status, without.status, with.stderr)
		}
		if r.Stopped == lock || !lock && filepath.Base(r.StoppedBy) != "libxul.so" || r.ObjectsMissed != 0 {
			t.Errorf("stopped: %t, by %q; missed: %+v", r.Stopped, r.StoppedBy, r.Missed)
		}
	}
	for _, flags := range slices.Concat(variants, [][]string{{"--lock"}}) {
		t.Run("run "+strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, start(), flags...)
			judge(t, with, r, len(flags) == 1 && flags[0] == "--lock")
		})
	}
	for _, objects := range []string{"", "all"} {
		t.Run("preload "+objects, func(t *testing.T) {
			c, table := start(), filepath.Join(t.TempDir(), "table")
			c.env = []string{"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=" + table, "DYNPROF_OBJECTS=" + objects}
			with := run(t, c)
			judge(t, with, readReport(t, table), false)
		})
	}
}
