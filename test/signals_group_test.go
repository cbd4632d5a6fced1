package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// fence is a signal that is sent to the process alone: what was sent before has been passed
// on when it has come, and is to be seen before it.
const fence = syscall.Signal(64)

func (r *signalled) group(s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(-r.cmd.Process.Pid, s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *signalled) fence(value int) {
	r.t.Helper()
	r.queue(fence, int32(value))
	r.expect(fmt.Sprintf("got %d with %d\n", fence, value))
}

// witnessed waits until each hotspots of the group has what tells signals to the group from others.
func (r *signalled) witnessed(args []string) *signalled {
	r.t.Helper()
	want := 0
	for _, arg := range args {
		if filepath.Base(arg) == "hotspots" {
			want++
		}
	}
	until(r.t, func() bool {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		n := 0
		for _, name := range stats {
			b, _ := os.ReadFile(name)
			if f := strings.Fields(string(b)); len(f) > 4 && f[1] == "(dynprof-witness)" && f[4] == strconv.Itoa(r.cmd.Process.Pid) {
				n++
			}
		}
		return n == want
	}, "no witness")
	return r
}

// groupWays are ways to run a program.
func groupWays(t *testing.T) map[string][]string {
	run := []string{build(t, "hotspots"), "run", "--summary", "0", "-o", filepath.Join(t.TempDir(), "%p.dynprof")}
	counted, late := append(slices.Clone(run), "--"), append(slices.Clone(run), lateStart, "1s", "--")
	return map[string][]string{"plain": nil, "counted": counted, "counted, not started early": late, "twice": slices.Concat(counted, late)}
}

// TestSignalsToGroup: a signal to the whole process group comes once, as one to hotspots alone
// does, to a program that has a handler, waits, reads from a descriptor, or has left the group.
func TestSignalsToGroup(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "signalled.c")
	for name, way := range groupWays(t) {
		for _, mode := range lane.Some([]string{"handled", "awaited", "descriptor", "left"}, 0, 1, 3) {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				r := startSignalled(t, slices.Concat([]string{program, "-default"}, way, []string{program, mode})...).witnessed(way)
				want := ""
				for i, s := range lane.Thin(catchable(), 5) {
					if s == fence {
						continue
					}
					for n, send := range []func(syscall.Signal){r.group, r.send, r.send, r.group} {
						send(s)
						r.expect(fmt.Sprintf("got %d\n", s))
						r.fence(4*i + n)
					}
					want += fmt.Sprintf("%d: 4\n", s)
				}
				want += fmt.Sprintf("%d: %d\n", fence, strings.Count(want, "\n")*4)
				if got := r.end(); got != want+"7" {
					t.Errorf("got\n%s\nwant\n%s7", got, want)
				}
			})
		}
	}
}

// TestSignalsToGroupAtOnce: of real-time signals, which the kernel keeps apart, each comes
// once, however fast they are sent.
func TestSignalsToGroupAtOnce(t *testing.T) {
	lane.Parallel(t)
	const rt = syscall.Signal(40)
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "signalled.c")
	for name, way := range groupWays(t) {
		t.Run(name, func(t *testing.T) {
			r := startSignalled(t, slices.Concat([]string{program, "-default"}, way, []string{program, "handled"})...).witnessed(way)
			rounds, sent := lane.Of(5, 100), 0
			for i := range rounds {
				for range 10 {
					r.group(rt)
					r.send(rt)
					r.group(rt)
					sent += 3
				}
				for range 30 { // the fence is the last number, and comes last
					r.expect(fmt.Sprintf("got %d\n", rt))
				}
				r.fence(i)
			}
			if got, want := r.end(), fmt.Sprintf("%d: %d\n%d: %d\n7", rt, sent, fence, rounds); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestSignalsOfTimeout: coreutils' timeout sends a signal to its child, and then to the group.
func TestSignalsOfTimeout(t *testing.T) {
	lane.Parallel(t)
	const rt = syscall.Signal(40)
	timeout := need(t, "timeout")
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "signalled.c")
	for name, way := range groupWays(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startSignalled(t, slices.Concat([]string{timeout, "-s", strconv.Itoa(int(rt)), "1h"}, way, []string{program, "handled"})...).witnessed(way)
			child := childOf(t, r.cmd)
			until(t, func() bool { return strings.HasPrefix(state(r.cmd.Process.Pid, "State"), "S") }, "timeout does not wait")
			r.send(rt) // it takes that for the end of its time
			r.past(rt)
			r.past(rt)
			if err := syscall.Kill(child, fence); err != nil { // before which a third would come
				t.Fatal(err)
			}
			r.past(fence)
		})
	}
}

// past reads up to the signal, and nothing but SIGCONT, which timeout sends behind its own.
func (r *signalled) past(s syscall.Signal) {
	r.t.Helper()
	for {
		switch line, err := r.out.ReadString('\n'); line {
		case fmt.Sprintf("got %d\n", s):
			return
		case fmt.Sprintf("got %d\n", syscall.SIGCONT):
		default:
			r.t.Fatalf("%q, %v", line, err)
		}
	}
}

// childOf is the first child of a process.
func childOf(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
