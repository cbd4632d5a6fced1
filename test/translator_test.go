package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// translating is the program that has a translator of its own
// (testdata/translator.c).
func translating(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, need(t, "gcc"), append(flags, "-Wall", "-Werror", "-Wno-unused-result", "-fPIE", "-I../libdynprof"), "translator.c")
}

// TestTranslator: the callback comes when it should, on the thread that it
// should, and only then.
func TestTranslator(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-no-pie"}} {
		p := translating(t, flags...)
		for _, args := range []string{
			"synchronous sync 1", "synchronous sync 10", "synchronous sync 5000", "asynchronous async 1", "asynchronous async 500",
			"vectors sync", "places sync", "signals sync", "forks sync", "forks async", "arguments", "busy sync", "busy async",
		} {
			for _, more := range [][]string{nil, {"--control"}} {
				r, _ := counted(t, cmd(append([]string{p}, strings.Fields(args)...)...), more...)
				if t.Run(flags[len(flags)-1]+" "+args, func(t *testing.T) { ok(t, r) }); t.Failed() {
					return
				}
			}
		}
	}
}

// TestTranslatorOnce: each arming of each function has exactly one event, with 8
// threads on 2 cores. Twenty seconds of it in the long lane.
func TestTranslatorOnce(t *testing.T) {
	lane.Parallel(t)
	twoCores(t)
	seconds := lane.Of("1", "10")
	p := translating(t, "-O2")
	for _, mode := range []string{"sync", "async"} {
		r, _ := counted(t, cmd(p, "once", mode, seconds))
		if r.stdout != "ok\n" || r.status != 0 || !strings.HasSuffix(r.stderr, " events\n") {
			t.Errorf("%s: status %d: %s%s", mode, r.status, r.stdout, r.stderr)
		}
		t.Logf("%s: %s", mode, r.stderr)
	}
}

// TestTranslatorMisbehaves: the program goes on as if there were no translator,
// and is told what happened.
func TestTranslatorMisbehaves(t *testing.T) {
	lane.Parallel(t)
	p := translating(t, "-O2")
	const crashed = "dynprof: the translator crashed; it is not called any more, and the program goes on\n"
	says := map[string]string{
		"crash-null": crashed, "crash-jump": crashed, "crash-trap": crashed, "crash-divide": crashed,
		"gone": "dynprof: the translator is gone (unloaded?) and not called any more\n",
	}
	becomes := map[string]struct { // an event's outcome, and how many failures it is
		outcome  string
		failures uint64
	}{
		"crash-null": {"crashed", 1}, "crash-jump": {"crashed", 1}, "crash-trap": {"crashed", 1}, "crash-divide": {"crashed", 1},
		"gone": {"gone", 1}, "garbage": {"refused", 4},
	}
	for _, how := range []string{
		"crash-null", "crash-jump", "crash-trap", "crash-divide", "gone", "itself", "forks", "away", "garbage", "blocks", "twice",
	} {
		for _, mode := range []string{"sync", "async"} {
			if how == "itself" && mode == "async" {
				continue // its calls are as any other thread's
			}
			t.Run(how+" "+mode, func(t *testing.T) {
				r, table := countedAt(t, cmd(p, how, mode))
				if r.stdout != "ok\n" || r.status != 0 || r.stderr != says[how] {
					t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
				}
				list, failed := eventList(t, table), uint64(0)
				for _, e := range list.Events {
					switch e.Outcome {
					case "crashed", "gone", "refused":
						failed++
						if e.Outcome != becomes[how].outcome {
							t.Errorf("%s: %s", e.Name, e.Outcome)
						}
					}
				}
				if (failed > 0) != (becomes[how].failures > 0) || list.Failures != failed*becomes[how].failures {
					t.Errorf("%d failures, %d events say so", list.Failures, failed)
				}
			})
		}
	}
}

// TestTranslatorOverflow: events for which the ring has no room are counted.
func TestTranslatorOverflow(t *testing.T) {
	lane.Parallel(t)
	const events = 1100
	r, table := countedAt(t, cmd(translating(t, "-O2"), "overflow", "async", fmt.Sprint(events)))
	ok(t, r)
	if n := eventList(t, table).Dropped; n != events-1025 {
		t.Errorf("%d dropped", n)
	}
	text := run(t, cmd(build(t, "hotspots"), "events", table))
	if want := fmt.Sprintf("not told of %d events", events-1025); !strings.Contains(text.stderr, want) {
		t.Errorf("no %q in %s", want, text.stderr)
	}
}

// TestEventsOverflow: events for which the table has no room are counted.
func TestEventsOverflow(t *testing.T) {
	lane.Parallel(t)
	const events = 6000
	_, table := countedAt(t, cmd(translating(t, "-O2"), "overflow", "async", fmt.Sprint(events)))
	list := eventList(t, table)
	text := run(t, cmd(build(t, "hotspots"), "events", table))
	if want := fmt.Sprintf("%d more crossings found no room", events-len(list.Events)); len(list.Events) < 4352 || !strings.Contains(text.stderr, want) {
		t.Errorf("%d events; no %q in %s", len(list.Events), want, text.stderr)
	}
}

// TestTranslatorFaults: a fault of the program itself ends it as ever.
func TestTranslatorFaults(t *testing.T) {
	lane.Parallel(t)
	r, _ := counted(t, cmd(translating(t, "-O2"), "dies"))
	if r.status != 128+11 || r.stdout != "ok\n" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestTranslatorWithout: without the library nothing is called.
func TestTranslatorWithout(t *testing.T) {
	lane.Parallel(t)
	if r := run(t, cmd(translating(t, "-O2"), "arguments")); r.status != 1 || !strings.Contains(r.stdout, "largest: -38") {
		t.Errorf("status %d: %s", r.status, r.stdout)
	}
}
