//go:build long

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachKilledStruck: a signal comes while hotspots is killed that has changed the text, and
// not yet given the threads what they count by.
func TestAttachKilledStruck(t *testing.T) {
	lane.Parallel(t)
	const behind = 45 // and more calls of ptrace are made then, for five threads
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attached.c"), "4", "signals")
	injected := func(n int) (calls int, r result) {
		trace, stop, stopped := filepath.Join(t.TempDir(), "trace"), make(chan bool), make(chan bool)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					a.c.Process.Signal(syscall.SIGPROF)
				}
			}
		}()
		r = run(t, cmd(need(t, "strace"), "-f", "-qq", "-o", trace, "-e", "trace=ptrace", "-e", fmt.Sprintf("inject=ptrace:signal=KILL:when=%d", n),
			build(t, "hotspots"), "attach", "-o", filepath.Join(t.TempDir(), "table"), a.pid()))
		close(stop)
		<-stopped
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), " ptrace("), r
	}
	const never = 60000
	calls, r := injected(never)
	for n := calls - behind; n < calls-behind/2 && !t.Failed(); n += 4 {
		if r.status != 0 && r.status != 128+int(syscall.SIGKILL) && !strings.Contains(r.stderr, "does not stop") { // on a busy machine
			t.Fatalf("status %d: %s", r.status, r.stderr)
		}
		a.goesOn()
		if d := a.hotspots("detach"); d.status != 0 && !strings.Contains(d.stderr, "is not attached to") {
			t.Fatalf("detach: status %d: %s", d.status, d.stderr)
		}
		_, r = injected(n)
	}
	a.goesOn()
	fmt.Fprintln(a.to, "end")
	if s := a.line(); !strings.HasPrefix(s, "wrong 0 ") {
		t.Errorf("the program says %q", s)
	}
	a.ends()
}
