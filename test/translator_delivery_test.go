package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// delivering is the program of testdata/delivery.c.
func delivering(t *testing.T) string {
	t.Helper()
	return compile(t, need(t, "gcc"), []string{"-O2", "-Wall", "-Werror", "-Wno-unused-result", "-fPIE", "-no-pie", "-I../libdynprof"}, "delivery.c")
}

// delivers runs it, and returns how often a translator failed.
func delivers(t *testing.T, p, args string, says string, flags ...string) uint64 {
	t.Helper()
	r, table := countedAt(t, cmd(append([]string{p}, strings.Fields(args)...)...), flags...)
	if r.stdout != "ok\n" || r.status != 0 || r.stderr != says {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	return eventList(t, table).Failures
}

const (
	saysCrashed = "dynprof: the translator crashed; it is not called any more, and the program goes on\n"
	saysGone    = "dynprof: the translator is gone (unloaded?) and not called any more\n"
)

// TestDelivery: wherever a callback runs, and however it ends, the program's
// thread goes on as if nothing had been.
func TestDelivery(t *testing.T) {
	lane.Parallel(t)
	p := delivering(t)
	for _, row := range []struct {
		args     string
		says     string
		failures uint64
	}{
		{"state", "", 0}, // vector, x87 and control registers
		{"tiny", "", 0},  // a stack of 1 KB
		{"handler sync 0", "", 0},
		{"handler sync 1", saysCrashed, 1},
		{"handler sync 2", saysCrashed, 1},
		{"overflow sync", saysCrashed, 1},
		{"overflow async", saysCrashed, 1},
		{"last sync", "", 0},
		{"last async", "", 0},
		{"never sync", "", 0},
		{"never async", "", 0},
		{"sandbox sync", "", 0},
	} {
		for _, flags := range lane.Some([][]string{nil, {"--control"}}, 1) {
			t.Run(strings.Join(append([]string{row.args}, flags...), " "), func(t *testing.T) {
				if n := delivers(t, p, row.args, row.says, flags...); n != row.failures {
					t.Errorf("%d failures", n)
				}
			})
		}
	}
}

// TestDeliveryNowhere: a filter that lets no thread wait ends the service thread,
// and nothing else.
func TestDeliveryNowhere(t *testing.T) {
	lane.Parallel(t)
	if n := delivers(t, delivering(t), "sandbox async", ""); n != 1 {
		t.Errorf("%d failures", n)
	}
}

// TestDeliveryInMalloc: events of libc's functions, whose locks are held.
func TestDeliveryInMalloc(t *testing.T) {
	lane.Parallel(t)
	p := delivering(t)
	for _, mode := range []string{"sync", "async"} {
		delivers(t, p, "malloc "+mode, "", "--objects", "all")
	}
}

// TestDeliveryWithoutProc: where no file says what is code, what can be read is.
func TestDeliveryWithoutProc(t *testing.T) {
	lane.Parallel(t)
	if os.Getuid() != 0 {
		t.Skip("chroot is for root only")
	}
	delivers(t, delivering(t), "jail", "")
}

// TestDeliveryMDWE: calls can be redirected where nothing may become code.
func TestDeliveryMDWE(t *testing.T) {
	lane.Parallel(t)
	p := delivering(t)
	hotspots, inside := build(t, "hotspots"), translating(t, "-O2")
	if out, err := exec.Command(p, "mdwe", "/bin/true").CombinedOutput(); err != nil {
		t.Skipf("no PR_SET_MDWE in this kernel: %s", out)
	}
	for _, args := range []string{"synchronous sync 10", "asynchronous async 10", "garbage sync"} {
		table := filepath.Join(t.TempDir(), "table")
		c := append([]string{p, "mdwe", hotspots, "run", "-o", table, "--summary", "0", "--", inside}, strings.Fields(args)...)
		ok(t, run(t, cmd(c...)))
	}
}

// TestDeliveryUnloaded: the translator's library is closed, by the program or by
// the translator itself.
func TestDeliveryUnloaded(t *testing.T) {
	lane.Parallel(t)
	p := delivering(t)
	lib := filepath.Join(t.TempDir(), "libtranslator.so")
	args := []string{"-O0", "-shared", "-fPIC", "-I../libdynprof", "-o", lib, "testdata/deliverylib.c"}
	if out, err := exec.Command(need(t, "gcc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, mode := range []string{"sync", "async"} {
		for how, says := range map[string]string{"closed": saysGone, "closes": saysCrashed} {
			t.Run(how+" "+mode, func(t *testing.T) {
				if n := delivers(t, p, how+" "+mode+" "+lib, says); n != 1 {
					t.Errorf("%d failures", n)
				}
			})
		}
	}
}
