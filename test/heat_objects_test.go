package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What was done with data objects, by hotspots heat --objects.

// usedRow is what was done with granules of something.
type usedRow struct {
	Granules, Touched, Read, Written int
	First, Last                      int
}

// variableRow is a variable.
type variableRow struct {
	Name, Memory, Address string
	Bytes                 uint64
	usedRow
}

func (v *variableRow) from(t *testing.T) uint64 {
	t.Helper()
	at, err := strconv.ParseUint(v.Address, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// objectsOf is what hotspots heat --objects has of a table.
func objectsOf(t *testing.T, table string) (all struct{ Variables []variableRow }) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--objects", "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	return all
}

// saidOfVariables is what the program says that it has done with granules of its variables, by name and granule
// from the variable's first on: rw, r- or -w.
func saidOfVariables(t *testing.T, text string, all []variableRow, granule uint64) map[string]map[uint64]string {
	said := map[string]map[uint64]string{}
	for line := range strings.Lines(text) {
		var name, what string
		var first, end uint64
		if n, _ := fmt.Sscanf(line, "object %s %s %d %d", &name, &what, &first, &end); n != 4 {
			continue
		}
		i := slices.IndexFunc(all, func(v variableRow) bool { return v.Name == name })
		if i < 0 {
			t.Fatalf("there is no %s", name)
		}
		from := all[i].from(t)
		if said[name] == nil {
			said[name] = map[uint64]string{}
		}
		for g := (from + first) / granule; g <= (from+end-1)/granule; g++ {
			both := []byte(said[name][g])
			if len(both) == 0 {
				both = []byte("--")
			}
			both[strings.Index("rw", what)] = what[0]
			said[name][g] = string(both)
		}
	}
	return said
}

func countUsed(of map[uint64]string) (u usedRow) {
	for _, what := range of {
		u.Touched++
		u.Read += bitOf(what[0] == 'r')
		u.Written += bitOf(what[1] == 'w')
	}
	return u
}

func bitOf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// TestHeatObjects: by granules of 8 bytes what was read and written of variables is what the program says;
// by lines and pages it is what hotspots heat has of these, each that several are in for each.
func TestHeatObjects(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}}, 1) {
		program := compile(t, gcc, append(flags, "-Wall", "-Werror"), "heat_objects.c")
		without := run(t, cmd(program))
		for heat, granule := range map[string]uint64{"bytes": 8, "lines": 64, "pages": 4096} {
			with, table := countedAt(t, cmd(program), "--heat="+heat, "--objects", "main")
			same(t, without, with)
			all := objectsOf(t, table).Variables
			ranges := rangesOf(t, table, heat)
			if len(ranges) == 0 {
				t.Fatal("nothing was touched")
			}
			for _, v := range all {
				from, want := v.from(t), map[uint64]string{}
				for g := from / granule; g <= (from+v.Bytes-1)/granule; g++ {
					if what, is := ranges[g]; is {
						want[g] = what
					}
				}
				got, n := v.usedRow, int((from+v.Bytes-1)/granule-from/granule+1)
				got.First, got.Last = 0, 0
				if u := countUsed(want); u.Touched != got.Touched || u.Read != got.Read || u.Written != got.Written || got.Granules != n || (v.First > 0) != (got.Touched > 0) || v.Last < v.First {
					t.Errorf("--heat=%s: %+v; not %v of %d", heat, v, want, n)
				}
			}
			if heat != "bytes" {
				continue
			}
			said := saidOfVariables(t, with.stdout, all, granule)
			if len(said) != 6 {
				t.Fatalf("%v", said)
			}
			for _, name := range append(slices.Collect(maps.Keys(said)), "untouched") {
				v := all[slices.IndexFunc(all, func(v variableRow) bool { return v.Name == name })]
				if u := countUsed(said[name]); u.Touched != v.Touched || u.Read != v.Read || u.Written != v.Written {
					t.Errorf("%+v; not %v", v, said[name])
				}
			}
			text := run(t, cmd(build(t, "hotspots"), "heat", table, "--objects")).stdout
			if !strings.Contains(text, " written_only\n") || !strings.Contains(text, "the largest untouched (3,000)") && !strings.Contains(text, ", untouched (3,000)") || !strings.Contains(text, "granules of 8 bytes") {
				t.Errorf("%s", text)
			}
		}
	}
}

// rangesOf is what hotspots heat has of granules that were read or written, by number.
func rangesOf(t *testing.T, table, heat string) map[uint64]string {
	t.Helper()
	flag, granule := map[string]string{"bytes": "--bytes", "lines": "--lines", "pages": "--pages"}[heat], map[string]uint64{"bytes": 8, "lines": 64, "pages": 4096}[heat]
	r := run(t, cmd(build(t, "hotspots"), "heat", table, flag, "--format", "csv"))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	all := map[uint64]string{}
	for _, row := range rows[1:] {
		at, err := strconv.ParseUint(row[1], 0, 64)
		n, err2 := strconv.ParseUint(row[2], 10, 64)
		if err != nil || err2 != nil {
			t.Fatalf("%q", row)
		}
		if heat != "pages" {
			n /= granule
		}
		what := []byte("--")
		for i, is := range row[3:5] {
			if is == "true" {
				what[i] = "rw"[i]
			}
		}
		for k := range n {
			if string(what) != "--" {
				all[at/granule+k] = string(what)
			}
		}
	}
	return all
}
