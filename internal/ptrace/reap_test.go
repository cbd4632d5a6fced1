package ptrace

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestEnds: who looks whether a thread has ended leaves its stop to who waits for that, and has
// its end told once.
func TestEnds(t *testing.T) {
	const patience = time.Minute
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	defer c.Process.Kill()
	await := func(what string, is func() bool) {
		t.Helper()
		for until := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("it is not %s: its state is %c", what, stateOf(pid, pid))
			}
		}
	}
	for range 3 {
		if err := requestSlow(seize, pid, 0, sysGood); err != nil {
			t.Fatal(err)
		}
		if err := request(interrupt, pid, 0, 0); err != nil {
			t.Fatal(err)
		}
		await("stopped", func() bool { return stateOf(pid, pid) == 't' })
		if ends(pid) {
			t.Error("what has stopped has ended")
		}
		thread := &Thread{Tid: pid}
		if status, err := thread.wait(time.Now()); err != nil || !status.Stopped() {
			t.Fatalf("its stop is not told: %v, %v", status, err)
		}
		if ends(pid) {
			t.Error("what is stopped has ended")
		}
		if err := thread.detach(); err != nil {
			t.Fatal(err)
		}
	}
	c.Process.Kill()
	await("told to have ended", func() bool { return ends(pid) })
	if ends(pid) {
		t.Error("it has ended twice")
	}
}
