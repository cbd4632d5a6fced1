package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// pieces are functions of testdata/pieces.S whose patches lie on two pages; each run
// calls all of them so many times.
var pieces = []string{"piece_edge", "piece_hops", "piece_before", "piece_loop", "piece_behind", "piece_hop_back", "piece_body", "piece_last", "piece_tip", "piece_call"}

const pieceCalls = 20

// TestTextGone: a program that gives text back to the kernel, takes it away, or maps
// something in its place, piece by piece, does what it does. Functions that are not
// counted any more are named, the others are counted on.
func TestTextGone(t *testing.T) {
	t.Parallel()
	gcc := need(t, "gcc")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC"}, "pieces.c", "pieces.S")
	alone := compile(t, gcc, []string{"-O1"}, "textgone.c")
	programs := map[string][]string{
		"main":   {compile(t, gcc, []string{"-O1"}, "textgone.c", "pieces.c", "pieces.S"), "HOW"},
		"linked": {compile(t, gcc, []string{"-O1", "-Wl,--no-as-needed", library}, "textgone.c"), "HOW"},
		"late":   {alone, "HOW", library},
	}
	type row struct {
		how, where string // the first place is tried in make test
		keeps      string // functions that are counted on; all: the others, too
	}
	for _, row := range lane.Some([]row{
		{"forget", "late main linked", "all"},
		{"map", "main linked late", ""},
		{"remap", "linked main late", ""},
		{"away", "late linked", ""},
		{"unmap", "main linked late", "piece_edge piece_before piece_loop piece_behind piece_hop_back piece_body piece_last piece_tip piece_call"},
		{"hide", "linked main late", "piece_edge piece_before piece_loop piece_behind piece_hop_back piece_body piece_last piece_tip piece_call"},
		{"copy", "late linked", "all"},
		{"pages", "main linked late", "all"},
		{"fork", "main linked late", ""},
		{"threads", "late main linked", ""},
	}, 0, 1, 4, 7, 9) {
		for _, where := range lane.Some(strings.Fields(row.where), 0) {
			t.Run(row.how+" "+where, func(t *testing.T) {
				args := slices.Clone(programs[where])
				args[1] = row.how
				inVariants(t, cmd(args...), func(t *testing.T, r *report) {
					r.checkPieces(t, args[0], library, row.keeps)
				})
			})
		}
	}
}

// checkPieces fails unless the functions that keep counting, and no others, have all
// their calls, and the report names the others.
func (r *report) checkPieces(t *testing.T, program, library, keeps string) {
	t.Helper()
	runs := r.last(t, "pieces_run", program, library).Calls
	if b := setting("TEST_BLOCKS"); b != "" && b != "sites" && keeps != "" {
		keeps += " piece_hops" // a copy needs no room elsewhere
	}
	for _, name := range pieces {
		f := r.last(t, name, program, library)
		kept := strings.HasPrefix(keeps, "all") || slices.Contains(strings.Fields(keeps), name)
		if kept && (f.Reason != "" || f.Calls != pieceCalls*runs || runs < 2) {
			t.Errorf("%s: %d calls in %d runs, %q", name, f.Calls, runs, f.Reason)
		}
		if !kept && (f.Reason != "text-changed" || f.Calls < pieceCalls) {
			t.Errorf("%s is not counted any more: %d calls, %q", name, f.Calls, f.Reason)
		}
	}
	if (r.TextChanged > 0) != !strings.HasPrefix(keeps, "all") {
		t.Errorf("%d functions are given back", r.TextChanged)
	}
}

// TestTextGoneLibc: where system calls go that we must know of nothing is counted
// from then on.
func TestTextGoneLibc(t *testing.T) {
	gcc := need(t, "gcc")
	p := compile(t, gcc, []string{"-O1"}, "textgone.c", "pieces.c", "pieces.S")
	inVariants(t, cmd(p, "libc"), func(t *testing.T, r *report) {
		if f := r.named(t, "piece_hops"); r.Dispatched != 1 || f.Calls != pieceCalls {
			t.Errorf("%d processes are left, %d calls", r.Dispatched, f.Calls)
		}
	})
}

// TestMemoryTaken: a program that takes away all shared memory that it does not know,
// or maps over it, takes rows and the table, too. It is counted until then; in a forked
// child its parent is counted on.
func TestMemoryTaken(t *testing.T) {
	t.Parallel()
	p := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "unmaps.c")
	for _, row := range lane.Some([][]string{
		{"unmap"}, {"over", "threads"}, {"move", "child"},
		{"unmap", "threads"}, {"unmap", "child"}, {"over"}, {"over", "child"}, {"move"}, {"move", "threads"},
	}, 0, 1, 2) {
		t.Run(strings.Join(row, " "), func(t *testing.T) {
			want := uint64(1000)
			if row[len(row)-1] == "child" {
				want = 3000
			}
			inVariants(t, cmd(append([]string{p}, row...)...), func(t *testing.T, r *report) {
				if n := r.calls(t, "step"); n != want || r.Dispatched != 1 {
					t.Errorf("%d calls, not %d; %d processes left", n, want, r.Dispatched)
				}
			})
		})
	}
}

// TestPlaceTaken: a program at a fixed address that maps memory where it knows that
// there is none gets it there, though an arena may lie there. What was counted by then
// stays, and the report names what is not counted any more.
func TestPlaceTaken(t *testing.T) {
	t.Parallel()
	p := compile(t, need(t, "gcc"), []string{"-O1", "-pthread", "-no-pie", "-fno-pie"}, "placetaken.c")
	for _, row := range []struct {
		how         string
		before, all uint64 // calls of step
	}{
		{"map", 1000, 3000},
		{"free", 1000, 3000},
		{"move", 1000, 3000},
		{"unmap", 1000, 3000},
		{"threads", 1000, 3000},
		{"fork", 3000, 4000}, // the parent is counted on
	} {
		t.Run(row.how, func(t *testing.T) {
			inVariants(t, cmd(p, row.how), func(t *testing.T, r *report) {
				f := r.named(t, "step")
				if want := map[bool]uint64{true: row.before, false: row.all}[f.Reason == "text-changed"]; f.Calls != want {
					t.Errorf("%d calls, not %d; %q", f.Calls, want, f.Reason)
				}
			})
		})
	}
}
