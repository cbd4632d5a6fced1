package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What a program says of its recording by itself: dynprof_trace.h.

// regionMark is one of what hotspots regions has between accesses.
type regionMark struct {
	Behind uint64 `json:"behind"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Value  uint64 `json:"value"`
	Thread uint32 `json:"thread"`

	Time *uint64 `json:"ns"`
}

// tracesOf are accesses, and what is between them, as testdata/regionstraces.c writes down what it
// does; and the same of JSON, without accesses.
func tracesOf(t *testing.T, table string) (all []string, l struct {
	regionList
	Start uint64       `json:"start_ns"`
	Marks []regionMark `json:"marks"`
},
) {
	t.Helper()
	l.regionList = regionsOf(t, table)
	text := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
	if err := json.Unmarshal([]byte(text.stdout), &l); err != nil {
		t.Fatal(err)
	}
	r := run(t, cmd(build(t, "hotspots"), "regions", "export", table))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	name, value := slices.Index(rows[0], "name"), slices.Index(rows[0], "value")
	accesses, marks := uint64(0), []regionMark{}
	for _, row := range rows[1:] {
		if row[0] == "" {
			m := regionMark{Behind: accesses, Kind: row[5], Name: row[name], Value: number(row[value]), Thread: uint32(number(row[2]))}
			marks = append(marks, m)
			all = append(all, strings.Replace(fmt.Sprintf("%s %s %d", m.Kind, m.Name, m.Value), "window  ", "window ", 1))
			continue
		}
		accesses++
		begin := l.Regions[number(row[1])-1].Address
		all = append(all, fmt.Sprintf("%s %d %s %s", row[1], number(row[3])-number(begin), row[4], row[5]))
	}
	isSame := func(a, b regionMark) bool { a.Time, b.Time = nil, nil; return a == b }
	if !slices.EqualFunc(marks, l.Marks, isSame) || accesses != l.Total.Records {
		t.Errorf("%d accesses, %+v, not %d, %+v", accesses, marks, l.Total.Records, l.Marks)
	}
	return all, l
}

func runTraces(t *testing.T, how []string, flags []string, args ...string) regionsRun {
	t.Helper()
	program := compile(t, need(t, how[0]), append(slices.Clone(how[1:]), "-pthread", "-I../libdynprof", "-Wall", "-Wextra", "-Werror"), "regionstraces.c")
	return runRegions(t, program, append(slices.Clone(flags), "--objects", "main"), args...)
}

// TestRegionsTraces: marks are in their places; accesses are recorded while recording is on, of the
// kinds that are, and of threads that are; what is known of a region is what it did.
func TestRegionsTraces(t *testing.T) {
	lane.Parallel(t)
	for _, how := range lane.Some(regionsBuilds, 0) {
		for _, what := range []string{"marks", "windows", "threads"} {
			r := runTraces(t, how, []string{"--regions"}, what)
			got, l := tracesOf(t, r.table)
			if what == "threads" { // between threads any order will do
				slices.Sort(got)
				slices.Sort(r.said)
			}
			if r.status != 0 || !slices.Equal(got, r.said) {
				t.Errorf("%v %s: %+v: %q, not %q", how, what, r.result, got, r.said)
			}
			text := run(t, cmd(build(t, "hotspots"), "regions", r.table))
			for _, m := range l.Marks[:min(3, len(l.Marks))] {
				if shown := fmt.Sprintf("%s  %d  thread %d\n", m.Name, m.Value, m.Thread); m.Kind == "mark" && !strings.Contains(text.stdout, shown) {
					t.Errorf("%v %s: no %q in %s", how, what, shown, text.stdout)
				}
			}
		}
		r := runTraces(t, how, []string{"--regions"}, "infos")
		l := regionsOf(t, r.table)
		if r.status != 0 || r.said[0] != fmt.Sprintf("%d 1000", l.Total.Records) || l.Regions[0].Accesses != 6000 || l.Regions[1].Accesses != 1100 {
			t.Errorf("%v: %+v: %q, %+v", how, r.result, r.said, l)
		}
	}
	if r := runTraces(t, regionsBuilds[0], []string{"--regions", "--lock"}, "threads", "shared"); r.status != 0 {
		t.Errorf("%+v", r.result)
	}
}

// TestRegionsTracesMany: as many names as there may be, and handlers that put marks in between.
func TestRegionsTracesMany(t *testing.T) {
	lane.Parallel(t)
	r := runTraces(t, regionsBuilds[0], []string{"--regions"}, "many")
	_, l := tracesOf(t, r.table)
	handled, names, next := 0, 0, uint64(0)
	for _, m := range l.Marks {
		switch {
		case m.Name == "handler" && m.Value == 1000000:
		case m.Name == "handler":
			if m.Value != uint64(handled) {
				t.Fatalf("%d: %+v", handled, m)
			}
			handled++
		case next < 4095:
			if m.Name != fmt.Sprintf("name %d", next) || m.Value != next {
				t.Fatalf("%d: %+v", next, m)
			}
			next++
			names++
		case m.Name != "name 0":
			t.Fatalf("%+v", m)
		}
	}
	if r.status != 0 || names != 4095 || r.said[0] != strconv.Itoa(handled) {
		t.Errorf("%+v: %d names, %d handlers, not %s", r.result, names, handled, r.said[0])
	}
}

// TestRegionsTracesHostile: pointers to no memory, sizes and bits of no version, regions that there
// are not; and where nothing is recorded, or touched memory is.
func TestRegionsTracesHostile(t *testing.T) {
	lane.Parallel(t)
	for _, row := range []struct {
		what  string
		flags []string
	}{
		{"hostile", []string{"--regions"}}, {"hostile", []string{"--regions", "--lock"}}, {"without", []string{"--blocks"}},
		{"heat", []string{"--heat=pages"}}, {"controlled", []string{"--heat=pages", "--control"}},
	} {
		if r := runTraces(t, regionsBuilds[0], row.flags, row.what); r.status != 0 || r.stderr != "" {
			t.Errorf("%+v: %+v", row, r.result)
		}
	}
	dir := t.TempDir()
	c := []string{"-I../libdynprof", "-Wall", "-Wextra", "-Werror", "-pthread"}
	program := compile(t, need(t, "gcc"), append([]string{"-O1"}, c...), "regionstraces.c")
	if r := run(t, cmd(program, filepath.Join(dir, "said"), "without")); r.status != 0 {
		t.Errorf("without the library: %+v", r)
	}
	source := filepath.Join(dir, "header.cc")
	if err := os.WriteFile(source, []byte("#include \"memtr.h\"\n#include \"dynprof_trace.h\"\nint main() { return dynprof_trace_mark(\"x\", 1) != DYNPROF_OFF || dynprof_trace_state() != DYNPROF_OFF; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	header, err := filepath.Abs("../libdynprof")
	if err != nil {
		t.Fatal(err)
	}
	if r := run(t, cmd(need(t, "g++"), "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-address", "-Wno-variadic-macros", "-fPIE", "-pie", "-I"+header, "-o", filepath.Join(dir, "header"), source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := run(t, cmd(filepath.Join(dir, "header"))); r.status != 0 {
		t.Errorf("C++: %+v", r)
	}
}

// TestRegionsTracesAudit: an audit needs all that there is.
func TestRegionsTracesAudit(t *testing.T) {
	lane.Parallel(t)
	r := runTraces(t, regionsBuilds[0], []string{"--regions", "--audit"}, "marks")
	got, l := tracesOf(t, r.table)
	if r.status != 0 || !slices.Equal(got, r.said) || len(l.Marks) == 0 {
		t.Errorf("%+v: %q, not %q", r.result, got, r.said)
	}
}

// TestRegionsTime: what is recorded is one piece of what was done, from a time on, up to another.
func TestRegionsTime(t *testing.T) {
	lane.Parallel(t)
	r := runTraces(t, regionsBuilds[0], []string{"--region", "apart", "--regions", "--after", "2s", "--for", "300ms"}, "times") // the program begins before that
	got, l := tracesOf(t, r.table)
	var done, on, edges int
	if _, err := fmt.Sscan(r.said[0], &done, &on, &edges); err != nil || r.status != 0 || len(got) < 2 || got[0] != "window 1" || len(l.Marks) != 1 {
		t.Fatalf("%v: %+v: %d accesses of %v, %+v", err, r.result, len(got), r.said, l.Marks)
	}
	got = got[1:]
	if len(got) < on || len(got) > on+edges || len(got) >= done {
		t.Errorf("%d accesses, not %d to %d of %d", len(got), on, on+edges, done)
	}
	var first int
	fmt.Sscanf(got[0], "2 %d", &first)
	for i := range got {
		if want := fmt.Sprintf("2 %d 1 store", (first+i)%251); got[i] != want {
			t.Fatalf("access %d is %s, not %s", i, got[i], want)
		}
	}
}

// TestRegionsTimes: each access, and each mark, was made when the program did so, by its own clock.
func TestRegionsTimes(t *testing.T) {
	lane.Parallel(t)
	const near = 100_000 // ns: a tick, and what two clocks that are read one after the other differ by
	for _, row := range [][]string{{"--times"}, {"--lock", "--times"}, nil} {
		r := runTraces(t, regionsBuilds[0], append([]string{"--regions"}, row...), "clocked")
		got, l := tracesOf(t, r.table)
		rows, err := csv.NewReader(strings.NewReader(run(t, cmd(build(t, "hotspots"), "regions", "export", r.table)).stdout)).ReadAll()
		if err != nil || r.status != 0 || len(got) != 60 || len(r.said) != 60 || len(l.Marks) != 6 {
			t.Fatalf("%v: %+v: %v, %d", row, r.result, err, len(got))
		}
		column, behind := slices.Index(rows[0], "time_ns"), uint64(0)
		for i, line := range rows[1:] {
			if row == nil {
				if line[column] != "" || l.Start != 0 || l.Regions[0].FirstTime != nil {
					t.Fatalf("there are times: %v, %d", line, l.Start)
				}
				continue
			}
			at, err := strconv.ParseUint(line[column], 10, 64)
			var before, after uint64
			if _, err2 := fmt.Sscan(r.said[i], &before, &after); err != nil || err2 != nil {
				t.Fatal(line, err, err2)
			}
			if at < behind || l.Start+at+near < before || l.Start+at > after+near {
				t.Errorf("%v: access %d was at %d, not from %d to %d; the one in front at %d", row, i, at, before-l.Start, after-l.Start, behind)
			}
			behind = at
			if i == 0 && (l.Regions[0].FirstTime == nil || *l.Regions[0].FirstTime != at) || i == 59 && (l.Marks[5].Time == nil || *l.Marks[5].Time != at) {
				t.Errorf("%v: %d: %v, %v", row, at, l.Regions[0].FirstTime, l.Marks[5].Time)
			}
		}
	}
}

// TestRegionsPaused: recorded are accesses of calls that begin while counting is on, until it is paused:
// of all threads and a child, and of a library that is loaded meanwhile; and where each window begins.
func TestRegionsPaused(t *testing.T) {
	lane.Parallel(t)
	for _, row := range lane.Some([]struct {
		inside bool
		flags  []string
	}{{false, nil}, {true, []string{"--edges"}}, {true, []string{"--trips"}}, {true, []string{"--lock"}}}, 0, 1) {
		w := startWindows(t, row.inside, append([]string{"--region", "0x200000000000+524288"}, row.flags...)...)
		want := map[int]string{100: "-w", 105: "-w", 112: "-w"}
		w.want(want, 0, 2, 4)
		w.do("wap" + "bwalk" + "rbwk" + "pcw" + "rbw")
		w.finish()
		got, l := tracesOf(t, w.table)
		var marks []string
		for _, access := range got {
			var page int
			if strings.HasPrefix(access, "window") {
				marks = append(marks, access)
			} else if n, err := fmt.Sscanf(access, "1 %d 8 store", &page); n != 1 || err != nil {
				t.Errorf("%v: %s", row, access)
			} else if page /= 4096; want[page] == "" {
				t.Errorf("%v: page %d was stored to while counting was off, or twice", row, page)
			} else {
				delete(want, page)
			}
		}
		if len(want) > 0 || !slices.Equal(marks, []string{"window 1", "window 2"}) || l.Marks[0].Behind != 13 || l.Marks[1].Behind != 26 {
			t.Errorf("%v: %v are not recorded; %+v", row, want, l.Marks)
		}
	}
}
