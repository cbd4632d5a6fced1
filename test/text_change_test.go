package test

import (
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

// TestOverwritten: who writes over an entry is met by all calls, also where nobody
// can see it; text is given back whatever has its file's name by then, with no
// memory left, however many functions there are, and behind a filter, stays locked, and
// is given back, too, where calls are to fault.
func TestOverwritten(t *testing.T) {
	lane.Parallel(t)
	gcc, flags := need(t, "gcc"), []string{"-O1", "-Wl,--no-warn-rwx-segments"}
	p := compile(t, gcc, flags, "overwrites.c")
	many := compile(t, gcc, append(flags, manySource(t, 35_000, 735_000, next)), "overwrites.c")
	for _, row := range []struct{ name, program, how string }{
		{"store", p, "store"}, {"pipe", p, "pipe"}, {"lock", p, "lock"}, {"limit", p, "limit"}, {"filter", p, "filter"}, {"fault", p, "fault"},
		{"many", many, "limit"},
	} {
		t.Run(row.name, func(t *testing.T) {
			own := copyFile(t, row.program, filepath.Join(t.TempDir(), "overwrites"))
			without := run(t, cmd(own, row.how))
			tried := []int{0, 2, 3}
			if row.name == "many" {
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
