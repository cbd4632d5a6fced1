package test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Accesses of programs that go on as others.

// storesOfImages are the stores to the region of each program that ran in the process, by their pages; and
// those of the last.
func storesOfImages(t *testing.T, table string) (all map[string]int, last string) {
	t.Helper()
	files, _ := filepath.Glob(table + "*.regions") // the pattern is sound
	all = map[string]int{}
	for _, file := range files {
		of := strings.TrimSuffix(file, ".regions")
		l := regionsOf(t, of)
		var pages []string
		for _, access := range accessesOf(t, of, &l) {
			var number, offset, size int
			var kind string
			if n, err := fmt.Sscan(access, &number, &offset, &size, &kind); n != 4 || size != 1 || offset%4096 != 0 {
				t.Fatalf("%q: %v", access, err)
			}
			pages = append(pages, fmt.Sprint(offset/4096, ":", kind))
		}
		if !l.Total.Ended {
			t.Errorf("%s has no end", file)
		}
		if all[fmt.Sprint(pages)]++; of == table {
			last = fmt.Sprint(pages)
		}
	}
	return all, last
}

// TestRegionsGoOn: of each program that runs in the process its own accesses are recorded, each once, and
// no others.
func TestRegionsGoOn(t *testing.T) {
	lane.Parallel(t)
	program := buildGoesOn(t)
	for _, row := range []struct {
		how   string
		pages []string // of all but the last
		last  string
	}{
		{"chain 0", nil, "[0:store]"}, {"chain 3", []string{"[3:store]", "[2:store]", "[1:store]"}, "[0:store]"}, {"thread 9", []string{"[9:store]"}, "[0:store]"},
		{"refused 9", []string{"[9:store 50:store]"}, "[0:store]"}, {"stays 9", nil, "[9:store 50:store]"}, {"killed 9", []string{"[9:store]"}, "[0:store]"},
		{"forks 9", []string{"[9:store 70:store]"}, "[0:store]"},
	} {
		for _, flags := range lane.Thin([][]string{{"--control", "--times"}, {"--objects", "main"}, {"--lock"}}, 1) {
			t.Run(fmt.Sprint(row.how, flags), func(t *testing.T) {
				t.Parallel()
				c := cmd(append([]string{program}, strings.Fields(row.how)...)...)
				without := run(t, c)
				with, table := countedAt(t, c, append(flags, "--region", "0x200000000000+0x80000")...)
				same(t, without, with)
				want := map[string]int{row.last: 1}
				for _, pages := range row.pages {
					want[pages]++
				}
				if got, last := storesOfImages(t, table); !maps.Equal(got, want) || last != row.last {
					t.Errorf("%v, not %v, the last %v", got, want, last)
				}
			})
		}
	}
}

// TestRegionsGoOnLater: where it is not the time yet nothing is recorded of programs that come later,
// either, and when it is all of the last.
func TestRegionsGoOnLater(t *testing.T) {
	lane.Parallel(t)
	c := cmd(buildGoesOn(t), "chain", "2")
	for after, want := range map[string]map[string]int{"1h": {"[]": 3}, "0s": {"[2:store]": 1, "[1:store]": 1, "[0:store]": 1}} {
		_, table := countedAt(t, c, "--region", "0x200000000000+0x80000", "--after", after)
		if got, _ := storesOfImages(t, table); !maps.Equal(got, want) {
			t.Errorf("%s: %v, not %v", after, got, want)
		}
	}
}

// TestRegionsWrapped: a program whose accesses are known makes them as well where others have executed it
// in their place.
func TestRegionsWrapped(t *testing.T) {
	lane.Parallel(t)
	program, to := buildRegions(t, regionsBuilds[0]), filepath.Join(t.TempDir(), "said")
	for _, what := range lane.Thin([]string{"fork", "kinds"}, 2) {
		for _, args := range [][]string{{"env", "nice"}, {"sh", "-c", `exec "$@"`, "sh"}, {"/usr/bin/python3.11", "-S", "-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"}} {
			c := cmd(append(slices.Clone(args), program, to, what)...)
			c.args[0] = need(t, args[0])
			r, table := countedAt(t, c, "--regions")
			said, err := os.ReadFile(to)
			if err != nil {
				t.Fatal(err)
			}
			l := regionsOf(t, table)
			if got, want := accessesOf(t, table, &l), strings.Split(strings.TrimSuffix(string(said), "\n"), "\n"); r.status != 0 || r.stderr != "" || !slices.Equal(got, want) {
				t.Errorf("%q %s: %+v: %q, not %q", args, what, r, got, want)
			}
		}
	}
}

// TestRegionsOfOthers: places of one executable are not taken for those of another that it goes on as,
// which is said; a program that is named has its own.
func TestRegionsOfOthers(t *testing.T) {
	lane.Parallel(t)
	program, env := buildGoesOn(t), need(t, "env")
	regionNames := func(table string) (names []string) {
		l := regionsOf(t, table)
		for _, g := range l.Regions {
			names = append(names, fmt.Sprint(g.Name, " ", g.Stores))
		}
		return names
	}
	r, table := countedAt(t, cmd(env, program, "chain", "1"), "--kinds", "store", "--region", "main:.bss", "--region", "malloc@main", "--region", "base="+program+":base")
	says := "/program: these regions are of a program that ran before in its place: main:.bss, malloc@main\n"
	if r.status != 0 || strings.Count(r.stderr, says) != 2 {
		t.Errorf("%+v", r)
	}
	if got, want := regionNames(table), []string{"base 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	r, table = countedAt(t, cmd(program, "chain", "1"), "--region", "main:base", "--kinds", "store")
	if got, want := regionNames(table), []string{"main:base 1"}; r.stderr != "" || !slices.Equal(got, want) {
		t.Errorf("itself: %q, not %q: %+v", got, want, r)
	}
}
