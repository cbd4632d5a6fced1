//go:build long

package test

import (
	"path/filepath"
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
	for _, flags := range [][]string{nil, {"--objects", "all", "--threshold", "1000", "--control"}, {"--lock"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			with, r := counted(t, start(), flags...)
			if with.status != without.status {
				t.Errorf("status %d, not %d: %s", with.status, without.status, with.stderr)
			}
			if lock := len(flags) == 1; r.Stopped == lock || !lock && filepath.Base(r.StoppedBy) != "libxul.so" || r.ObjectsMissed != 0 {
				t.Errorf("stopped: %t, by %q; missed: %+v", r.Stopped, r.StoppedBy, r.Missed)
			}
		})
	}
}
