//go:build long

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAttachSlow: a hotspots that does not get on in the last steps of detaching, for longer than
// the thread waits for it that unmaps what is ours.
func TestAttachSlow(t *testing.T) {
	const steps = 14
	strace := need(t, "strace")
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "spins.c"))
	detach := func(more ...string) (calls int) {
		t.Helper()
		os.Remove(a.attach())
		log := filepath.Join(t.TempDir(), "log")
		args := append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=ptrace"}, more...)
		if r := run(t, cmd(append(args, build(t, "hotspots"), "detach", a.pid())...)); r.status != 0 || !strings.Contains(r.stderr, "is as it was") {
			t.Fatalf("%v: status %d: %s", more, r.status, r.stderr)
		}
		for _, m := range a.mappings() {
			if strings.Contains(m, "memfd:") {
				t.Errorf("%v: is mapped yet: %s", more, m)
			}
		}
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "ptrace(")
	}
	calls := detach()
	for n := calls - steps; n <= calls; n++ {
		detach("-e", fmt.Sprintf("inject=ptrace:delay_enter=500000:when=%d", n))
	}
	a.finish()
}
