package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestRegionsWays: of many threads that leave functions with records by exceptions and by longjmp
// each access is recorded, by what each has counted itself.
func TestRegionsWays(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some([][]string{{"g++", "-O2"}, {"clang++", "-O1"}, {"g++", "-O0"}}, 0) {
		program := compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-I../libdynprof"), "regionsways.cc")
		for _, flags := range lane.Some([][]string{{"--regions"}, {"--regions", "--lock"}, {"--regions", "--edges", "--trips"}}, 0) {
			r, table := countedAt(t, cmd(program), append(slices.Clone(flags), "--objects", "main")...)
			if r.status != 0 {
				t.Fatalf("%v %v: %+v", how, flags, r)
			}
			l := regionsOf(t, table)
			made := map[string]int{}
			for _, a := range accessesOf(t, table, &l) {
				made[a]++
			}
			var got []string
			for _, line := range strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n") {
				var at, n int
				var kind string
				fmt.Sscan(line, &at, &n, &kind)
				a := fmt.Sprintf("1 %d 1 %s", at, kind)
				if n == 0 || made[a] != n {
					t.Errorf("%v %v: %s: %d, not %d", how, flags, a, made[a], n)
				}
				got = append(got, a)
			}
			if len(got) != 32 || len(made) != 32 || len(l.Regions[0].Threads) != 16 {
				t.Errorf("%v %v: %d places, %d counted: %+v", how, flags, len(made), len(got), l)
			}
		}
	}
}
