package cli

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestAwaitEnd: who has ended before it is waited for is not waited for, be it a corpse or gone.
func TestAwaitEnd(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	defer time.AfterFunc(time.Minute, func() { close(signals) }).Stop()
	for _, pid := range []int{c.Process.Pid, gone.Process.Pid} {
		if awaitEnd(pid, time.Hour, signals) {
			t.Errorf("%d is waited for", pid)
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
