package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRegionsBounds: where regions come to be, one after the other, below and above what a program
// accesses, each access to them is recorded, and no other.
func TestRegionsBounds(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"gcc", "-O2", "-fPIE", "-pie"}, {"clang", "-O1", "-fPIE", "-pie"}}, 0) {
		program := compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-I../libdynprof", "-Wall", "-Wextra", "-Werror", "-Wno-array-bounds"), "regionsbounds.c")
		for _, flags := range lane.Some([][]string{{"--regions"}, {"--regions", "--lock"}}, 0) {
			for _, order := range lane.Some([]string{"5 4 3 1 0", "1 5 2", "4 5 0", "3 4", "5", "2", "0 5"}, 0, 1, 2) {
				r := runRegions(t, program, append(slices.Clone(flags), "--objects", "main"), strings.Fields(order)...)
				if r.status != 0 {
					t.Fatalf("%v %v %s: %+v", how, flags, order, r.result)
				}
				l := regionsOf(t, r.table)
				got := accessesOf(t, r.table, &l)
				if !slices.Equal(got, r.said) {
					t.Errorf("%v %v %s: %s", how, flags, order, differ(got, r.said))
				}
			}
		}
	}
}
