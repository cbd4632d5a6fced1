package test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Dead memory that is given back, by hotspots advise --apply.

type applied struct {
	Same, Varies    bool
	Status          int
	Resident, Pages uint64
	With            uint64 `json:"resident_applied"`
	Given           uint64 `json:"pages_given"`
	Again           uint64 `json:"pages_again"`
	Output          int64  `json:"output_bytes"`
	Refused         string
	Point           struct{ Function, Memory string }
	Left            []struct{ Memory string }
	PageSize        uint64 `json:"page_size"`
}

func applyTo(t *testing.T, table string, argv ...string) (a applied, r result) {
	t.Helper()
	r = run(t, cmd(append([]string{build(t, "hotspots"), "advise", table, "--dead-after", "60%", "--format", "json", "--apply", "--"}, argv...)...))
	if r.status == 0 {
		if err := json.Unmarshal([]byte(r.stdout), &a); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	return a, r
}

// TestAdviseApply: memory of an object, of a block of malloc and of the heap, of which it is known how much is dead, is
// given back behind its last use; the program says the same, whatever else it does, and has so much less at its end.
func TestAdviseApply(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	const table, initialised, block, smalls = 4 << 20, 1 << 20, 6 << 20, 1000 * 4000
	for _, flags := range lane.Some([][]string{{"-O1", "-pthread"}, {"-O2", "-no-pie", "-pthread"}}, 1) {
		program := compile(t, gcc, append(flags, "-g", "-Wall", "-Werror"), "heat_dead.c")
		for _, what := range lane.Some([]string{"", "t", "f", "e", "tfe"}, 4) {
			t.Run(strings.Join(flags, " ")+" "+what, func(t *testing.T) {
				plain, at := countedAt(t, cmd(program, what), "--heat", "--allocs", "--objects", "all")
				if plain.status != 7 || plain.stderr != "" {
					t.Fatalf("%+v", plain)
				}
				a, r := applyTo(t, at, program, what)
				const pages = (table + initialised + block + smalls) / 4096
				if !a.Same || a.Varies || a.Status != 7 || a.Output != int64(len(plain.stdout)) || a.Again != 0 || a.Refused != "" {
					t.Errorf("%+v: %+v", a, r)
				}
				// The first and the last page of each have something of others, which may be dead as well.
				// Such a page may be dead as late as work begins, which is in front of nothing else.
				inTime := a.Point.Function == "main" || a.Point.Function == "work"
				if a.Pages > pages+8 || a.Pages < pages-16 || a.Given != a.Pages || !inTime {
					t.Errorf("not %d pages: %+v", pages, a)
				}
				if less := int64(a.Resident) - int64(a.With); less < int64(a.Given*a.PageSize)*9/10 {
					t.Errorf("%d bytes less: %+v", less, a)
				}
			})
		}
	}
}
