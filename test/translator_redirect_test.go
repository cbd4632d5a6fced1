package test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// redirecting is the program that redirects its own calls (testdata/redirect.c),
// with the library that one of its functions is in.
func redirecting(t *testing.T, flags ...string) string {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "libexported.so")
	gcc := need(t, "gcc")
	if out, err := exec.Command(gcc, "-O1", "-shared", "-fPIC", "-o", lib, "testdata/redirectlib.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	flags = append(flags, "-Wall", "-Werror", "-Wno-unused", "-fPIE", "-I../libdynprof", "-Wl,--no-as-needed", lib, "-Wl,-rpath,"+filepath.Dir(lib))
	return compile(t, gcc, flags, "redirect.c")
}

// TestRedirect: calls that arrive in any way run what they shall, are counted as
// they shall be, and a function fires as often as it is armed.
func TestRedirect(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	for _, build := range lane.Some([][]string{{"-O2"}, {"-O1", "-fcf-protection=full"}, {"-O2", "-no-pie"}}, 1) {
		p := redirecting(t, build...)
		for i, args := range [][]string{
			{"ways"}, {"flags"}, {"watched"}, {"refused"}, {"live", "20000"}, {"middle"}, {"forks"}, {"rearms", "20"},
		} {
			for _, flags := range lane.Turn([][]string{nil, {"--threshold", "2"}, {"--objects", "all"}, {"--control"}}, i) {
				r, _ := counted(t, cmd(append([]string{p}, args...)...), flags...)
				if t.Run(build[0]+" "+args[0], func(t *testing.T) { ok(t, r) }); t.Failed() {
					return
				}
			}
		}
	}
}

// TestRearmedEvents: each arming has one event. Its calls are counted behind the last one that it
// was armed for: one thread has made exactly so many then, of several the others may have made all
// of theirs while that one was not running.
func TestRearmedEvents(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	const rounds, each, armed = 25, 120, 100
	p := redirecting(t, "-O2")
	for name, more := range map[string]struct {
		args []string
		late uint64
	}{"one thread": {[]string{"alone"}, 0}, "four threads": {nil, each - armed}} {
		t.Run(name, func(t *testing.T) {
			r, _, events := countedWithEvents(t, cmd(append([]string{p, "rearms", "25"}, more.args...)...), 0)
			ok(t, r)
			if len(events) != rounds {
				t.Errorf("%d events", len(events))
			}
			for i, e := range events {
				least := uint64(i*each + armed)
				if e.Name != "plain" || e.Calls < least || e.Calls > least+more.late {
					t.Errorf("event %d of %s at %d calls, not %d", i, e.Name, e.Calls, least)
				}
			}
		})
	}
}

// TestRedirectNot: in a run without a translator nothing can be redirected, and
// without the library nothing happens.
func TestRedirectNot(t *testing.T) {
	lane.Parallel(t)
	p := redirecting(t, "-O2")
	if r := run(t, cmd(p, "refused")); r.status != 1 {
		t.Errorf("status %d: %s", r.status, r.stdout)
	}
}
