//go:build long

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// attachedAll runs a program, has it attached to and detached from all the time until it has ended, and
// returns what it did, and how often it was attached to. Who refuses says so in a line.
func attachedAll(t *testing.T, args ...string) (with result, attached int) {
	t.Helper()
	var out, errout strings.Builder
	c := exec.Command(args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &errout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	defer time.AfterFunc(patience, func() { t.Errorf("%v hangs", args); c.Process.Kill() }).Stop()
	pid, dir := fmt.Sprint(c.Process.Pid), t.TempDir()
	hotspots := func(what string, flags ...string) bool {
		r := run(t, cmd(append(append([]string{build(t, "hotspots"), what}, flags...), pid)...))
		if r.status > 1 || strings.Count(r.stderr, "\n") > 2 {
			t.Errorf("%s: status %d: %s", what, r.status, r.stderr)
		}
		return r.status == 0
	}
	for n := 0; ; n++ {
		select {
		case <-ended:
			return result{out.String(), errout.String(), c.ProcessState.ExitCode()}, attached
		default:
		}
		table := filepath.Join(dir, fmt.Sprint(n))
		if hotspots("attach", "-o", table) {
			attached++
		}
		hotspots("detach")
		os.Remove(table)
	}
}

// TestAttachExecs: who executes himself all the time does what he does without us, and who ends.
func TestAttachExecs(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-static"}} {
		p := compile(t, need(t, "gcc"), flags, "attachsteps.c")
		for _, times := range []string{"30", "0"} {
			without := run(t, cmd(p, times, "1"))
			for range 2 {
				with, attached := attachedAll(t, p, times, "1")
				same(t, without, with)
				t.Logf("%s times: attached to %d times", times, attached)
				if times != "0" {
					break
				}
			}
		}
	}
}

// TestAttachThenGdb: a debugger finds a program that was attached to and detached from as it was.
func TestAttachThenGdb(t *testing.T) {
	lane.Parallel(t)
	a := startAttached(t, compile(t, need(t, "gcc"), []string{"-O1", "-g"}, "attached.c"), "1")
	session := func() string {
		out := gdb(t, "disassemble /r leaf\nbreak leaf\ncontinue\nbt 1\nstepi\nstepi\ndelete\ndetach\n", "-p", a.pid())
		_, out, _ = strings.Cut(out, "Dump of") // before it is where the program is
		return regexp.MustCompile(`(Thread |entry=)\d+`).ReplaceAllString(out, "$1")
	}
	before := session()
	os.Remove(a.attach())
	a.detach()
	after := session()
	if !strings.Contains(before, "Breakpoint 1, leaf") || after != before {
		t.Errorf("gdb says something else: %s", difference(before, after))
	}
	a.quiet()
	a.goOn()
	fmt.Fprintln(a.to, "end")
	a.line() // gdb's stops are seen by who waits for something
	a.ends()
}
