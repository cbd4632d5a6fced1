package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachSeen: hotspots ls and hotspots serve know a program that is attached to, as they know
// others, and what it had counted when it was detached from.
func TestAttachSeen(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "2")
	table := a.attach()
	listed := func(status string) {
		t.Helper()
		r := run(t, cmd(build(t, "hotspots"), "ls", filepath.Dir(table)))
		if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], a.pid()+" ") || strings.Fields(lines[1])[1] != status {
			t.Errorf("ls, not %s: %s%s", status, r.stdout, r.stderr)
		}
	}
	at := freePort(t)
	background(t, nil, build(t, "hotspots"), "serve", "--listen", at, "--state", "", filepath.Dir(table))
	listed("running")
	a.quiet()
	servesAll(t, at, table)
	a.goOn()
	a.detach()
	listed("detached")
	servesAll(t, at, table)
	a.end()
	listed("detached") // nobody has seen it end
}
