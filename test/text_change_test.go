package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestTextChange: a program that makes its own text writable finds its own bytes
// there, and runs what it writes. What was counted until then stays.
func TestTextChange(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	for _, row := range []struct {
		how   string
		calls map[string]uint64
		back  string // functions that are given back, of those
	}{
		{"keys", map[string]uint64{"small": 800, "large": 500, "loops": 800, "edge": 800, "calm": 1000}, "small large loops edge"},
		{"whole", map[string]uint64{"small": 500, "calm": 500, "edge": 500, "evict_loop": 500, "evict_wall_before": 500}, "small calm edge evict_loop evict_wall_before"},
		{"threads", nil, "evict_loop small edge"},
		{"fork", map[string]uint64{"small": 200, "calm": 300}, "small"},
		{"handler", map[string]uint64{"small": 100, "calm": 200}, "small"},
		{"late", map[string]uint64{"late_key": 100}, "late_key"},
	} {
		for _, pie := range lane.Some([]string{"-pie", "-no-pie"}, 0) {
			p := compile(t, gcc, []string{"-O1", "-fPIE", pie}, "textchange.c", "evict.S")
			t.Run(row.how+" "+pie, func(t *testing.T) {
				inVariants(t, cmd(p, row.how, library), func(t *testing.T, r *report) {
					back := strings.Fields(row.back)
					for name, want := range row.calls {
						f := r.last(t, name, p, library)
						if f.Calls != want {
							t.Errorf("%s: %d calls, not %d", name, f.Calls, want)
						}
						if changed := f.Reason == "text-changed"; changed != slices.Contains(back, name) {
							t.Errorf("%s is given back: %v", name, changed)
						}
					}
					if r.TextChanged < len(back) {
						t.Errorf("%d functions are given back", r.TextChanged)
					}
				})
			})
		}
	}
}

// sites are the calls in function i of the program of TestHooksMany.
func sites(i int) (callees []int) {
	const each = 6
	for k := range each {
		switch n := i*7919 + k*104729; {
		case i < hookedMany/2:
		case i%2 == 0:
			callees = append(callees, n%(hookedMany/2))
		default:
			callees = append(callees, hookedMany/4+n%(hookedMany/4))
		}
	}
	return callees
}

const hookedMany = 1024 // functions of that program

// TestHooksMany: a program that hooks functions one at a time runs the hooks, whoever
// calls. Those that are not hooked are counted on, by all their callers.
func TestHooksMany(t *testing.T) {
	t.Parallel()
	const size, near = 1000, 16 // functions that share pages with hooked ones
	source := manySource(t, hookedMany, hookedMany*size, sites)
	p := compile(t, need(t, "gcc"), []string{"-O1", source}, "hooksmany.c")
	for how, rounds := range map[string][2]uint64{"": {6, 6}, "threads": {6, 6 + 2*300}, "copy": {5, 6}} { // of callers with even and odd numbers
		want := make([]uint64, hookedMany)
		for i := hookedMany / 2; i < hookedMany; i++ {
			want[i] = rounds[i%2]
			for _, to := range sites(i) {
				want[to] += want[i]
			}
		}
		inVariants(t, cmd(p, how), func(t *testing.T, r *report) {
			for _, f := range r.of(p) {
				var i int
				if n, _ := fmt.Sscanf(f.Name, "f%d", &i); n == 0 || i/near == hookedMany/4/near || how == "copy" && i/near == 3*hookedMany/8/near {
					continue
				}
				if i < hookedMany/4 && (f.Reason != "text-changed" || f.Calls > want[i]) {
					t.Errorf("%s is hooked: %d calls, %q", f.Name, f.Calls, f.Reason)
				}
				if i > hookedMany/4 && (f.Reason != "" || f.Calls != want[i]) {
					t.Errorf("%s: %d calls, not %d, %q", f.Name, f.Calls, want[i], f.Reason)
				}
			}
		})
	}
}

// TestHooksManyExchanges: pages of callers are not exchanged for each hook.
func TestHooksManyExchanges(t *testing.T) {
	t.Parallel()
	const most = 300 // 165; each hook's callers would be 690
	strace, source := need(t, "strace"), manySource(t, hookedMany, hookedMany*1000, sites)
	p := compile(t, need(t, "gcc"), []string{"-O1", source}, "hooksmany.c")
	log := filepath.Join(t.TempDir(), "log")
	r := run(t, cmd(strace, "-f", "-e", "trace=mremap", "-o", log, "env", "LD_PRELOAD="+build(t, "libdynprof.so"), "DYNPROF_OUTPUT="+filepath.Join(t.TempDir(), "table"), p))
	calls, err := os.ReadFile(log)
	if n := strings.Count(string(calls), "MREMAP_FIXED"); err != nil || r.status != 0 || n < hookedMany/16 || n > most {
		t.Errorf("%d exchanges, status %d: %s, %v", n, r.status, r.stderr, err)
	}
}

// TestOverwritten: who writes over an entry is met by all calls, also where nobody
// can see it; text is given back whatever has its file's name by then, with no
// memory left, however many functions there are, and behind a filter, stays
// locked, it alone, and is given back, too, where calls are to fault.
func TestOverwritten(t *testing.T) {
	lane.Parallel(t)
	gcc, flags := need(t, "gcc"), []string{"-O1", "-Wl,--no-warn-rwx-segments"}
	p := compile(t, gcc, flags, "overwrites.c")
	many := compile(t, gcc, append(flags, manySource(t, 35_000, 735_000, next)), "overwrites.c")
	often := compile(t, gcc, append(flags, "-DTIMES=5000"), "overwrites.c", "coolcalls.S")
	for _, row := range []struct{ name, program, how string }{
		{"store", p, "store"}, {"pipe", p, "pipe"}, {"lock", p, "lock"}, {"limit", p, "limit"}, {"filter", p, "filter"}, {"fault", p, "fault"},
		{"many", many, "limit"}, {"neighbours", often, "lock"},
	} {
		t.Run(row.name, func(t *testing.T) {
			own := copyFile(t, row.program, filepath.Join(t.TempDir(), "overwrites"))
			without := run(t, cmd(own, row.how))
			tried := []int{0, 2, 3}
			if row.program != p {
				tried = []int{0}
			}
			for _, flags := range lane.Some(variants, tried...) {
				copyFile(t, row.program, own)
				with, _ := counted(t, cmd(own, row.how), flags...)
				same(t, without, with)
			}
		})
	}
}

// TestClosedText: other memory where a closed library's text was may be made
// writable, whether it can be read or not; text that is hidden first is given back.
func TestClosedText(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "textchangelib.c")
	p := compile(t, gcc, []string{"-O2"}, "closedtext.c")
	inVariants(t, cmd(p, library), func(t *testing.T, r *report) {
		for name, want := range map[string]uint64{"late_key": 600, "step": 1001, "hidden": 2} {
			if f := r.last(t, name, p, library); f.Calls != want {
				t.Errorf("%s: %d calls, not %d", name, f.Calls, want)
			}
		}
		if f := r.last(t, "hidden", p); f.Reason != "text-changed" {
			t.Errorf("hidden: %q", f.Reason)
		}
	})
}

// last returns the function of that name in one of the objects.
func (r *report) last(t *testing.T, name string, objects ...string) (found function) {
	t.Helper()
	for _, f := range r.Functions {
		if f.Name == name && slices.Contains(objects, f.Object) {
			found = f
		}
	}
	if found.Name == "" {
		t.Errorf("no function %q in the report", name)
	}
	return found
}

// TestDataInText: what a section says is data stays as it is, though it looks like a system
// call that is watched and lies among code.
func TestDataInText(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-no-pie"}, {"-O1", "-s"}} {
		program := compile(t, need(t, "gcc"), append(flags, "-Wl,-z,noseparate-code"), "datasites.c")
		plain := run(t, cmd(program))
		for _, how := range append(slices.Clip(variants), []string{"--objects", "libm*"}, []string{"--allow-traps"}) {
			if r, _ := counted(t, cmd(program), how...); r.stdout != plain.stdout || r.status != 0 {
				t.Errorf("%v %v: %+v, not %s", flags, how, r, plain.stdout)
			}
		}
	}
}

// TestTextChangeLocked: the file's pages are not had of a file on which the program holds a record
// lock, which whoever closes the file lets go of.
func TestTextChangeLocked(t *testing.T) {
	t.Parallel()
	program := compile(t, need(t, "gcc"), []string{"-O1"}, "lockexec.c")
	inVariants(t, cmd(program, "text"), func(t *testing.T, r *report) {
		if f := r.last(t, "step", program); f.Reason != "text-changed" {
			t.Errorf("step: %+v", f)
		}
	})
}
