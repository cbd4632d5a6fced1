//go:build long

package test

import (
	"fmt"
	"syscall"
	"testing"
)

// TestAttachLateStopped: hotspots is there, but does not answer. The program waits for it no longer
// than it must, and what it loads is named.
func TestAttachLateStopped(t *testing.T) {
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1"}, "attachlate.c"))
	library := compile(t, need(t, "gcc"), []string{"-O1", "-shared", "-fPIC"}, "latelib.c")
	b := a.attachFor()
	halt(t, b.c.Process.Pid)
	a.do("load", library, 10)
	b.c.Process.Signal(syscall.SIGCONT)
	a.do("load", library, 20)
	r := readReport(t, b.table)
	r.wants(t, library, 20, 7)
	if len(r.Missed) != 1 || r.Missed[0].Object != library {
		t.Errorf("missed: %+v", r.Missed)
	}
	b.end(t)
	fmt.Fprintln(a.to, "end")
	a.ends()
}
