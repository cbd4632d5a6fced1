package test

import (
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Accesses of rare forms: by FS, of 32-bit addresses, with rep, with masks, and others. Each is
// noted as touched, and recorded.

// formsAt is where testdata/forms.c has its memory.
const formsAt, formsBytes = 0x70000000, 16 * 4096

var formsKinds = []string{"fs", "short", "odd", "rep", "bits", "masks", "lanes"}

func formsOf(t *testing.T, kinds []string, each func(t *testing.T, program, kind string)) {
	lane.Parallel(t)
	if b, err := os.ReadFile("/proc/cpuinfo"); err != nil || !strings.Contains(string(b), " fsgsbase ") {
		t.Skip("no rdfsbase")
	}
	for _, how := range lane.Some(regionsBuilds, 0) {
		program := compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-mfsgsbase", "-I../libdynprof", "-Wall", "-Wextra", "-Werror"), "forms.c")
		for _, kind := range kinds {
			t.Run(strings.Join(append(slices.Clone(how), kind), " "), func(t *testing.T) {
				t.Parallel()
				each(t, program, kind)
			})
		}
	}
}

// saidOf is what the program says that it does, and what it computes.
func saidOf(t *testing.T, run func(to string) result) (said []string, r result) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "said")
	r = run(to)
	b, err := os.ReadFile(to)
	if r.status != 0 || err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), r
}

// TestFormsRegions: each access is recorded, in order, and the program computes what it does without.
func TestFormsRegions(t *testing.T) {
	formsOf(t, formsKinds, func(t *testing.T, program, kind string) {
		_, without := saidOf(t, func(to string) result { return run(t, cmd(program, to, kind)) })
		for _, flags := range lane.Some([][]string{nil, {"--lock"}, {"--edges", "--trips"}}, 0, 1) {
			var table string
			said, with := saidOf(t, func(to string) (r result) {
				r, table = countedAt(t, cmd(program, to, kind, "region"), append([]string{"--regions", "--objects", "main"}, flags...)...)
				return r
			})
			same(t, without, with)
			l := regionsOf(t, table)
			if got := accessesOf(t, table, &l); !slices.Equal(got, said) {
				t.Errorf("%v: %s", flags, differ(got, said))
			}
		}
	})
}

// differ says where lists of lines do.
func differ(got, want []string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%d lines, not %d; from %d on %q, not %q", len(got), len(want), i, got[i:min(i+5, len(got))], want[i:min(i+5, len(want))])
}

// TestFormsHeat: each granule that is touched is noted, and no other.
func TestFormsHeat(t *testing.T) {
	formsOf(t, formsKinds, func(t *testing.T, program, kind string) {
		_, without := saidOf(t, func(to string) result { return run(t, cmd(program, to, kind)) })
		for _, flags := range lane.Some([][]string{{"--heat=bytes"}, {"--heat=bytes", "--lock"}, {"--heat=lines"}, {"--heat=pages"}, {"--heat=who"}, {"--heat=who", "--lock"}}, 0, 4) {
			var table string
			said, with := saidOf(t, func(to string) (r result) {
				r, table = countedAt(t, cmd(program, to, kind), append([]string{"--objects", "main"}, flags...)...)
				return r
			})
			same(t, without, with)
			granule := map[string]uint64{"--heat=bytes": 8, "--heat=lines": 64, "--heat=pages": 4096, "--heat=who": 4096}[flags[0]]
			if got, want := granulesOf(t, table, granule), granulesSaid(t, said, granule); !maps.Equal(got, want) {
				for at, what := range got {
					if want[at] != what {
						t.Errorf("%v: %#x: %q, not %q", flags, at, what, want[at])
					}
				}
				for at, what := range want {
					if got[at] == "" {
						t.Errorf("%v: %#x is not noted, but %q", flags, at, what)
					}
				}
			}
		}
	})
}

// granulesOf are those of a table in the program's memory: r-, -w, rw.
func granulesOf(t *testing.T, table string, granule uint64) map[uint64]string {
	t.Helper()
	how := map[uint64]string{8: "--bytes", 64: "--lines", 4096: "--pages"}[granule]
	r := run(t, cmd(build(t, "hotspots"), "heat", table, how, "--format", "csv"))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	all := map[uint64]string{}
	for _, row := range rows[1:] {
		first, err1 := strconv.ParseUint(row[1], 0, 64)
		n, err2 := strconv.ParseUint(row[2], 0, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q", row)
		}
		if granule == 4096 {
			n *= granule // of pages it is their number
		}
		for at := first; at < first+n; at += granule {
			if at >= formsAt && at < formsAt+formsBytes {
				all[at-formsAt] = map[string]string{"true": "r"}[row[3]] + map[string]string{"true": "w"}[row[4]]
			}
		}
	}
	return all
}

// granulesSaid are those of accesses that a program says it has made.
func granulesSaid(t *testing.T, said []string, granule uint64) map[uint64]string {
	t.Helper()
	all := map[uint64]string{}
	for _, line := range said {
		var region int
		var at, size uint64
		var kind string
		if _, err := fmt.Sscan(line, &region, &at, &size, &kind); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for g := at &^ (granule - 1); g < at+size; g += granule {
			read := kind != "store" || strings.Contains(all[g], "r")
			written := kind != "load" || strings.Contains(all[g], "w")
			all[g] = map[bool]string{true: "r"}[read] + map[bool]string{true: "w"}[written]
		}
	}
	return all
}

// TestFormsStruck: handlers see the instruction, with what it has done by then; its faults are its
// own, also with a count that is wild; and what a signal has interrupted is recorded once.
func TestFormsStruck(t *testing.T) {
	formsOf(t, []string{"struck"}, func(t *testing.T, program, kind string) {
		_, without := saidOf(t, func(to string) result { return run(t, cmd(program, to, kind)) })
		for _, flags := range [][]string{{"--heat=bytes"}, {"--regions"}} {
			var table string
			args := []string{kind}
			if flags[0] == "--regions" {
				args = append(args, "region")
			}
			said, with := saidOf(t, func(to string) (r result) {
				r, table = countedAt(t, cmd(append([]string{program, to}, args...)...), append([]string{"--objects", "main"}, flags...)...)
				return r
			})
			same(t, without, with)
			if flags[0] != "--regions" {
				continue
			}
			l := regionsOf(t, table)
			if got := accessesOf(t, table, &l); len(got) < len(said) || !slices.Equal(got[:len(said)], said) {
				t.Errorf("%v: %s", flags, differ(got, said))
			}
		}
	})
}

// TestFormsAudit: what protected pages tell of these accesses is what is recorded.
func TestFormsAudit(t *testing.T) {
	formsOf(t, formsKinds, func(t *testing.T, program, kind string) {
		if kind == "rep" && !lane.Long {
			t.Skip("a fault for each round")
		}
		var a auditOf
		said, _ := saidOf(t, func(to string) (r result) {
			a, r, _ = runAudit(t, program, []string{"--objects", "main"}, to, kind, "region")
			return r
		})
		if g := a.Audit; g.Missed != 0 || g.Unseen != 0 || g.Unchecked != 0 || g.Recorded != uint64(len(said)) {
			t.Errorf("%+v, not %d accesses", g, len(said))
		}
	})
}
