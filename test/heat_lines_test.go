package test

import (
	"encoding/csv"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Lines and granules of 8 bytes that are touched, by hotspots run --heat=lines and --heat=bytes.

// linesBase is where testdata/heat_lines.c has its pages, so many bytes.
const linesBase, linesBytes = 0x200100000000, 64 << 12

// unitFlags are those of hotspots heat that show all by granules of so many bytes.
var unitFlags = map[int][]string{4096: nil, 64: {"--lines"}, 8: {"--bytes"}}

// unitRow is a line of the CSV of hotspots heat.
type unitRow struct {
	first, n uint64 // granules, from linesBase
	what     string // rw, r- or -w
	lines    int    // of each page
}

// unitRows are those of the program's own pages.
func unitRows(t *testing.T, table string, granule int) (list []unitRow) {
	t.Helper()
	r := run(t, cmd(append([]string{build(t, "hotspots"), "heat", table, "--format", "csv"}, unitFlags[granule]...)...))
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if r.status != 0 || err != nil || len(rows) == 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	for _, row := range rows[1:] {
		first, err := strconv.ParseUint(row[1], 0, 64)
		n, err2 := strconv.ParseUint(row[2], 0, 64)
		if err != nil || err2 != nil {
			t.Fatalf("%q: %v, %v", row, err, err2)
		}
		if granule < 4096 {
			n /= uint64(granule)
		}
		what := []byte("--")
		for i, is := range row[3:5] {
			if is == "true" {
				what[i] = "rw"[i]
			}
		}
		lines := -1
		if rows[0][8] == "lines" {
			lines, _ = strconv.Atoi(row[8])
		}
		if first >= linesBase && first < linesBase+linesBytes {
			list = append(list, unitRow{(first - linesBase) / uint64(granule), n, string(what), lines})
		}
	}
	return list
}

// touchedIn is what was done with each granule of so many bytes, by number from linesBase.
func touchedIn(t *testing.T, table string, granule int) map[int]string {
	t.Helper()
	all := map[int]string{}
	for _, r := range unitRows(t, table, granule) {
		for k := range r.n {
			all[int(r.first+k)] = r.what
		}
	}
	return all
}

// saidIn is what the program says that it has done with granules.
func saidIn(text string, granule int) map[int]string {
	said := map[int]string{}
	for line := range strings.Lines(text) {
		var at, n int
		var what string
		if k, _ := fmt.Sscanf(line, "touch %d %d %s", &at, &n, &what); k != 3 {
			continue
		}
		for g := at / granule; g <= (at+n-1)/granule; g++ {
			both := []byte(what)
			for i, c := range []byte(said[g]) {
				both[i] = max(both[i], c) // a letter is above -
			}
			said[g] = string(both)
		}
	}
	return said
}

// TestHeatLines: the lines, and the granules of 8 bytes, that are touched are those that are known;
// of each page it is told how many lines that are; and pages are those that --heat=pages has.
func TestHeatLines(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}, {"-O2", "-fcf-protection=full"}}, 1) {
		program := compile(t, gcc, append(flags, "-Wall", "-Werror", "-falign-functions=32"), "heat_lines.c")
		for _, way := range lane.Some([][]string{{"--objects", "main"}, {"--edges"}, {"--trips", "--threshold", "1"}, {"--lock"}}, 1) {
			t.Run(strings.Join(append(flags[:len(flags):len(flags)], way...), " "), func(t *testing.T) {
				t.Parallel()
				without := run(t, cmd(program))
				for heat, least := range map[string]int{"--heat=pages": 4096, "--heat": 64, "--heat=bytes": 8} {
					with, table := countedAt(t, cmd(program), append([]string{heat}, way...)...)
					same(t, without, with)
					for granule := range unitFlags {
						if granule >= least {
							if got, want := touchedIn(t, table, granule), saidIn(with.stdout, granule); !maps.Equal(got, want) || len(want) == 0 {
								t.Errorf("%s, by %d bytes: %v, not %v", heat, granule, got, want)
							}
						} else if r := run(t, cmd(append([]string{build(t, "hotspots"), "heat", table}, unitFlags[granule]...)...)); r.status != 1 || !strings.Contains(r.stderr, "were noted: run the program with hotspots run --heat=") {
							t.Errorf("%s, by %d bytes: %+v", heat, granule, r)
						}
					}
					lines := map[uint64]int{}
					for line := range saidIn(with.stdout, 64) {
						lines[uint64(line/64)]++
					}
					for _, r := range unitRows(t, table, 4096) {
						for page := r.first; page < r.first+r.n; page++ {
							if least < 4096 && r.lines != lines[page] || least == 4096 && r.lines != -1 {
								t.Errorf("%s: page %d has %d lines, not %d", heat, page, r.lines, lines[page])
							}
						}
					}
				}
			})
		}
	}
}

// TestHeatLinesKept: plans of one granule are not used for another, and kept ones note the same.
func TestHeatLinesKept(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-fPIE", "-pie", "-falign-functions=32"}, "heat_lines.c")
	p := newPlanned(t, cmd(program), "run")
	for _, heat := range []struct {
		flag    string
		granule int
	}{{"lines", 64}, {"bytes", 8}, {"pages", 4096}} {
		p.flags = []string{"--heat=" + heat.flag}
		for starts, done := 0, false; !done; starts++ {
			r, rep, cached, all := p.start(t)
			if starts == 0 && isWarm(t, rep) {
				t.Errorf("--heat=%s: plans of others are used", heat.flag)
			}
			if got, want := touchedIn(t, rep.table, heat.granule), saidIn(r.stdout, heat.granule); !maps.Equal(got, want) {
				t.Errorf("--heat=%s: %d of %d plans are used: %v, not %v", heat.flag, cached, all, got, want)
			}
			if done = cached == all && isWarm(t, rep); starts > 20 {
				t.Fatalf("--heat=%s: %d of %d plans are used", heat.flag, cached, all)
			}
		}
	}
}
