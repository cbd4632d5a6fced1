package test

import (
	"debug/elf"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// sizesOf counts what was recorded, by "KIND SIZE".
func sizesOf(t *testing.T, table string) map[string]int {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "regions", "export", table))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	n := map[string]int{}
	for _, row := range rows[1:] {
		n[row[5]+" "+row[4]]++
	}
	return n
}

// TestRegionsPlaces: sections by their names, and the first thread's stack, as deep as it may become:
// where the program itself says that they are.
func TestRegionsPlaces(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "regionsplaces.c")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for what, want := range map[string]struct{ loads, stores int }{"main:.data": {4, 0}, "main:.bss": {4, 4}, "stack": {0, 128}, "[stack]": {0, 128}, program + ":.data": {4, 0}, program + ":bss": {4, 4}} {
		for _, flags := range lane.Some([][]string{nil, {"--audit"}}, 0) {
			r, table := countedAt(t, cmd(program), append([]string{"--objects", "main", "--region", what}, flags...)...)
			l, n := regionsOf(t, table), sizesOf(t, table)
			var data, bss, stack uint64
			if _, err := fmt.Sscanf(r.stdout, "%v %v %v", &data, &bss, &stack); err != nil || r.status != 0 {
				t.Fatalf("%s: %v: %+v", what, err, r)
			}
			g := l.Regions[0]
			var at uint64
			fmt.Sscan(g.Address, &at)
			if n["load 2"] != want.loads || n["store 2"]+n["both 2"] != want.stores || len(l.Regions) != 1 {
				t.Errorf("%s %v: %v: %+v", what, flags, n, l)
			}
			place := map[bool]uint64{true: data, false: bss}[strings.HasSuffix(what, "data")]
			if s := f.Section(strings.TrimPrefix(strings.TrimPrefix(what, "main:"), program+":")); s != nil && (g.Bytes != s.Size || place < at || place >= at+g.Bytes) {
				t.Errorf("%s: %#x is not in it: %+v", what, place, g)
			}
			if s := strings.Contains(what, "stack"); s && at+g.Bytes != stack {
				t.Errorf("%s ends at %#x: %+v", what, stack, g)
			}
		}
	}
}

// TestRegionsForms: what is no form is refused with those that there are, and what cannot be is said.
func TestRegionsForms(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-g", "-pthread"}, "regionsplaces.c")
	for what, want := range map[string]string{
		"file:/": "is a directory", "@:heap": "no such form: WHAT is VARIABLE", "[vdso]": "no such form: WHAT is VARIABLE", "": "no such form",
		"data.bin": "has no variable data.bin: it is stripped", "main:.tbss": "has no section .tbss", "main:.debug_info": "has no section .debug_info", "/nothing.so:.data": "WHAT is VARIABLE",
		"0x1000+999999999999": "64 GB at most", "0x1000+0x1000000001": "64 GB at most", "0x7fffffffe000+8193": "reaches beyond", "0xffffffffffff+1": "no address", "0x1000+-1": "no number of bytes",
		program + ".no": "no such file", "/etc/passwd": "no library",
	} {
		r := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "--region", what, "--", program))
		if r.status != 125 || !strings.Contains(r.stderr, "--region "+what) || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	for what, is := range map[string]bool{"malloc@locals": true, "malloc@main": false, "malloc@regionsplaces.c:14": true, "malloc@regionsplaces.c:32": false} {
		r, _ := countedAt(t, cmd(program), "--region", what)
		if r.status != 0 || strings.Contains(r.stderr, "--region "+what+": there is no call") != is {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestRegionsKinds: of regions for which a program chooses what is recorded that is, and nothing else;
// of others with --kinds. An audit misses nothing.
func TestRegionsKinds(t *testing.T) {
	lane.Parallel(t)
	program := buildRegions(t, regionsBuilds[0])
	r := runRegions(t, program, []string{"--regions", "--objects", "main"}, "chosen")
	l := regionsOf(t, r.table)
	if got := accessesOf(t, r.table, &l); r.status != 0 || !slices.Equal(got, r.said) || len(l.Regions) != 4 {
		t.Errorf("%+v: %q, not %q", r.result, got, r.said)
	}
	for i, kinds := range []string{"all", "load", "store", "load"} {
		if g := l.Regions[i]; g.Kinds != kinds {
			t.Errorf("%s: %+v", kinds, g)
		}
	}
	shown := run(t, cmd(build(t, "hotspots"), "regions", r.table))
	if !strings.Contains(shown.stdout, " bytes, of stores only: 9 loads, 15 stores, by") {
		t.Errorf("%+v", shown)
	}
	for kinds, other := range map[string]string{"load": " store", "store": " load", "all": " none"} {
		r := runRegions(t, program, []string{"--regions", "--objects", "main", "--kinds", kinds}, "kinds")
		l := regionsOf(t, r.table)
		want := slices.DeleteFunc(slices.Clone(r.said), func(s string) bool { return strings.HasSuffix(s, other) })
		if got := accessesOf(t, r.table, &l); r.status != 0 || !slices.Equal(got, want) || l.Regions[0].Kinds != kinds || len(want) == len(r.said) != (kinds == "all") {
			t.Errorf("%s: %+v: %q, not %q", kinds, r.result, got, want)
		}
		audited, _, _ := runAudit(t, program, []string{"--objects", "main", "--kinds", kinds}, filepath.Join(t.TempDir(), "said"), "kinds")
		if audited.Audit.Accesses == 0 || audited.Audit.Missed != 0 || audited.Audit.Accesses != uint64(len(want)) {
			t.Errorf("%s: %d accesses: %+v", kinds, len(want), audited.Audit)
		}
	}
	for _, flags := range [][]string{{"--kinds", "load"}, {"--regions", "--kinds", "fetch"}} {
		if r := run(t, cmd(append(append([]string{build(t, "hotspots"), "run"}, flags...), "--", "/bin/true")...)); r.status != 125 || !strings.Contains(r.stderr, "--kinds") {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}

// TestRegionsFileMapped: what a program maps of a file is a region for as long as it is mapped.
func TestRegionsFileMapped(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "regionsfile.c")
	for _, flags := range lane.Some([][]string{nil, {"--lock"}, {"--objects", "all"}, {"--audit"}}, 0) {
		dir := t.TempDir()
		file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
		for _, path := range []string{file, other} {
			if err := os.WriteFile(path, make([]byte, 4*4096), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		named := linkAs(t, file, "link")
		r, table := countedAt(t, cmd(program, file, other), append([]string{"--region", "mine=file:" + named, "--region", "file:/nothing"}, flags...)...)
		l, n := regionsOf(t, table), sizesOf(t, table)
		var loads, stores int
		if _, err := fmt.Sscan(r.stdout, &loads, &stores); err != nil || r.status != 0 || strings.TrimPrefix(r.stderr, "hotspots: --region file:/nothing: ") != "never began, so nothing was recorded of it\n" || n["load 2"] != loads || n["store 2"] != stores {
			t.Errorf("%v: %v: %+v: %v", flags, err, r, n)
		}
		for _, g := range l.Regions {
			if g.Name != "mine" || g.Bytes%4096 != 0 {
				t.Errorf("%v: %+v", flags, g)
			}
		}
	}
}

// TestRegionsFileMoved: so it is of mappings that move, and become smaller and larger, beside threads that
// get the places they leave, and use what stays.
func TestRegionsFileMoved(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "regionsmoved.c")
	for _, flags := range lane.Some([][]string{nil, {"--lock"}, {"--objects", "all"}}, 0) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, make([]byte, 20*4096), 0o600); err != nil {
			t.Fatal(err)
		}
		r, table := countedAt(t, cmd(program, file), append([]string{"--region", "file:" + file}, flags...)...)
		n := sizesOf(t, table)
		var loads, stores int
		if _, err := fmt.Sscan(r.stdout, &loads, &stores); err != nil || r.status != 0 || n["load 2"] != loads || n["store 2"] != stores {
			t.Errorf("%v: %v: %+v: %v", flags, err, r, n)
		}
	}
}

// TestRegionsFileMany: of more mappings than there may be regions it is said how many are none.
func TestRegionsFileMany(t *testing.T) {
	lane.Parallel(t)
	const most, more = 256, 44
	program, file := compile(t, need(t, "gcc"), []string{"-O1", "-pthread"}, "regionsfile.c"), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 4*4096), 0o600); err != nil {
		t.Fatal(err)
	}
	r, table := countedAt(t, cmd(program, file, file, strconv.Itoa(most+more-1)), "--region", "file:"+file) // and the first one
	l, n := regionsOf(t, table), sizesOf(t, table)
	if r.status != 0 || n["load 2"] != most-1 || n["store 2"] != most-1 || l.Total.Unmade != more {
		t.Errorf("%+v: %v, %+v", r, n, l.Total)
	}
	if r := run(t, cmd(build(t, "hotspots"), "regions", table)); !strings.Contains(r.stdout, "44 mappings of files not recorded of") {
		t.Errorf("%+v", r)
	}
}
