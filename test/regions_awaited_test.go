package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Regions that begin when a function is called first: @FUNCTION:WHAT.

// TestRegionsAwaited: of accesses before the call none is recorded, of those from then on each is, also
// of the function's own, by whichever thread or process calls it, and whichever comes first, library
// or call.
func TestRegionsAwaited(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "regionsawaited.c")
	library := compile(t, gcc, []string{"-O1", "-DLIBRARY", "-shared", "-fPIC"}, "regionsawaited.c")
	at := addressOf(t, program, "init_done")
	const once, twice = 103, 206
	for _, row := range []struct {
		region, args string
		want         []uint64 // stores of each region
		said         string
	}{
		{"@init_done:table", "call", []uint64{once}, ""},
		{"@init_done:table", "call call", []uint64{twice}, ""},
		{"@init_done:table", "", nil, "@init_done:table: never began"},
		{"@init_done:table", "thread call", []uint64{twice}, ""},
		{"@init_done:main:table", "fork call", []uint64{twice}, ""},
		{"x=@init_done:main:table", "call", []uint64{once}, ""},
		{"@main:table", "", []uint64{1000}, ""},
		{"@main:init_done:table", "call", []uint64{once}, ""},
		{"@main+" + at + ":table", "call", []uint64{once}, ""},
		{"@LIBRARY:begin:LIBRARY:counters", "LIBRARY", []uint64{50}, "not loaded yet"},
		{"@LIBRARY:begin:table", "LIBRARY call", []uint64{once}, "not loaded yet"},
		{"@init_done:LIBRARY:counters", "call LIBRARY", []uint64{1050}, "not loaded yet"},
		{"@init_done:LIBRARY:counters", "LIBRARY call LIBRARY", []uint64{1050}, "not loaded yet"},
		{"@init_done:LIBRARY:counters", "fork LIBRARY LIBRARY", []uint64{1050, 1050}, "not loaded yet"},
		{"@init_done:LIBRARY:counters", "LIBRARY", nil, "never began"},
		{"@libc.so.6:getenv:table", "call", nil, "function is not counted"},
	} {
		named := strings.NewReplacer("LIBRARY", library)
		for _, how := range lane.Some([][]string{nil, {"--lock"}, {"--control"}, {"--threshold", "1000"}}, 0) {
			r, table := countedAt(t, cmd(append([]string{program}, strings.Fields(named.Replace(row.args))...)...), append(how, "--region", named.Replace(row.region))...)
			l := regionsOf(t, table)
			var got []uint64
			for _, g := range l.Regions {
				got = append(got, g.Stores)
				if g.Loads != g.Stores {
					t.Errorf("%v %v: %d loads, %d stores", how, row, g.Loads, g.Stores)
				}
			}
			if r.status != 0 || fmt.Sprint(got) != fmt.Sprint(row.want) || !strings.Contains(r.stderr, row.said) || row.said == "" && r.stderr != "" {
				t.Errorf("%v %v: %v, %+v", how, row, got, r)
			}
		}
	}
}

// TestRegionsAwaitedTogether: threads that call it at the same time make one region, and what they do
// when all have called it is recorded.
func TestRegionsAwaitedTogether(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "regionsracing.c")
	for range 4 {
		r, table := countedAt(t, cmd(program), "--region", "@begin:own")
		l := regionsOf(t, table)
		if r.status != 0 || r.stderr != "" || len(l.Regions) != 1 {
			t.Fatalf("%+v: %+v", r, l)
		}
		var stores uint64
		for _, f := range l.Regions[0].Functions {
			if f.Function == "work" {
				stores += f.Stores
			}
		}
		if stores != 4*1000 {
			t.Errorf("%d stores, not 4000: %+v", stores, l)
		}
	}
}

// TestRegionsAwaitedForms: what cannot be waited for is refused; as many as there can be, are not.
func TestRegionsAwaitedForms(t *testing.T) {
	lane.Parallel(t)
	var source strings.Builder
	source.WriteString("long table[8];\n")
	for i := range 33 {
		fmt.Fprintf(&source, "struct s%d {}; __attribute__((noinline)) void many(s%d) { table[%d]++; }\n", i, i, i%8)
		if i < 32 {
			fmt.Fprintf(&source, "namespace n { __attribute__((noinline)) void most(s%d) { table[%d]++; } }\n", i, i%8)
		}
	}
	source.WriteString("int main() { many(s32()); n::most(s31()); }\n")
	from := filepath.Join(t.TempDir(), "many.cc")
	if err := os.WriteFile(from, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compile(t, need(t, "g++"), []string{"-O1", from})
	hotspots := build(t, "hotspots")
	for what, why := range map[string]string{
		"@many:table":            "33 functions",
		"@nothing:table":         "no function nothing",
		"@n::most":               "no such form",
		"@n::most:":              "",
		"@n::most:nothing":       "no variable nothing",
		"@n::most:malloc@main":   "malloc@ and file: are not",
		"@n::most:file:/x":       "malloc@ and file: are not",
		"@main+0x:table":         "no address",
		"@n::most:@main:table":   "no such form",
		"@/no/lib.so:init:table": "no such file",
	} {
		if r := run(t, cmd(hotspots, "run", "--region", what, "--", program)); r.status != 125 || !strings.Contains(r.stderr, "--region "+what) || !strings.Contains(r.stderr, why) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	var most []string
	for i := range 64 {
		most = append(most, "--region", fmt.Sprintf("r%d=@n::most:0x%x+8", i, 0x1000*(i+1)))
	}
	r, table := countedAt(t, cmd(program), append(most[2:], "--region", "@n::most:table")...)
	if l := regionsOf(t, table); r.status != 0 || r.stderr != "" || len(l.Regions) != 64 || l.Regions[63].Stores != 1 {
		t.Errorf("%+v: %+v", r, l)
	}
	args := append(append([]string{hotspots, "run"}, most...), "--region", "@n::most:table", "--", program)
	if r := run(t, cmd(args...)); r.status != 125 || !strings.Contains(r.stderr, "one of the first 64") {
		t.Errorf("%+v", r)
	}
}
