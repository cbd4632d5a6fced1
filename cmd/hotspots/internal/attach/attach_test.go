package attach

import (
	"os/exec"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestLookExecutes: whoever is looked at in the middle of executing something is looked at again.
func TestLookExecutes(t *testing.T) {
	for _, program := range []string{`exec sh -c "$0" "$0"`, `exec busybox sh -c "$0" "$0"`} {
		c := exec.Command("sh", "-c", program, program)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()
		defer c.Process.Kill()
		read, executes := 0, 0
		for range lane.Of(1000, 20000) {
			p, err := look(c.Process.Pid)
			switch {
			case err == nil:
				read++
				p.process.Close()
			case isAgain(err):
				executes++
			default:
				t.Fatal(err)
			}
		}
		t.Logf("%s: read %d times, %d times to be tried again", program, read, executes)
	}
}
