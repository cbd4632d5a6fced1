package test

import (
	"encoding/json"
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

// Which function has read and which has written each page last, by hotspots run --heat=who.

// lastCode is an instruction as the JSON has it.
type lastCode struct {
	Function string
	Offset   uint64
	Object   string
	File     string
	Line     int
}

func (c *lastCode) name() string {
	if c == nil {
		return "-"
	}
	return c.Function + "@" + filepath.Base(c.Object)
}

// lastsOf are the last reader and writer of each of a program's own pages, by number, and how far behind
// the beginning of its function each instruction is.
func lastsOf(t *testing.T, table string) (all map[int][2]string, offsets map[string]map[uint64]bool) {
	t.Helper()
	var told struct {
		Areas []struct {
			Ranges []struct {
				Address string
				Pages   int
				Reader  *lastCode `json:"last_reader"`
				Writer  *lastCode `json:"last_writer"`
			}
		}
	}
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &told); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	all, offsets = map[int][2]string{}, map[string]map[uint64]bool{}
	for _, a := range told.Areas {
		for _, one := range a.Ranges {
			first, err := strconv.ParseUint(one.Address, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			for k := range one.Pages {
				if page := int(first-heatBase)/4096 + k; first >= heatBase && page < heatPages {
					all[page] = [2]string{one.Reader.name(), one.Writer.name()}
				}
			}
			for _, c := range []*lastCode{one.Reader, one.Writer} {
				if c != nil && offsets[c.Function] == nil {
					offsets[c.Function] = map[uint64]bool{}
				}
				if c != nil {
					offsets[c.Function][c.Offset] = true
				}
			}
		}
	}
	return all, offsets
}

// saidLasts is what the program says.
func saidLasts(text string) (all map[int][2]string, at map[string]uint64) {
	all, at = map[int][2]string{}, map[string]uint64{}
	for line := range strings.Lines(text) {
		var page int
		var by [2]string
		var name string
		var offset uint64
		if n, _ := fmt.Sscanf(line, "page %d %s %s", &page, &by[0], &by[1]); n == 3 {
			all[page] = by
		} else if n, _ := fmt.Sscanf(line, "at %s %d", &name, &offset); n == 2 {
			at[name] = offset
		}
	}
	return all, at
}

// isLast reports whether a function is the last of some page.
func isLast(all map[int][2]string, name string) bool {
	for _, by := range all {
		if strings.HasPrefix(by[0], name+"@") || strings.HasPrefix(by[1], name+"@") {
			return true
		}
	}
	return false
}

// whoProgram is a program that says it, and two libraries with the same functions.
func whoProgram(t *testing.T, flags ...string) (program string, libraries [2]string) {
	flags = append(flags, "-Wall", "-Werror", "-falign-functions=32")
	program = compile(t, need(t, "gcc"), append(flags, "-pthread", "-rdynamic"), "heat_who.c")
	for i := range libraries {
		libraries[i] = filepath.Join(filepath.Dir(program), fmt.Sprintf("libwho%d.so", i))
		if err := os.Rename(compile(t, need(t, "gcc"), append(flags, "-DLIBRARY", "-shared", "-fPIC"), "heat_who.c"), libraries[i]); err != nil {
			t.Fatal(err)
		}
	}
	return program, libraries
}

// TestHeatWho: the functions that have read and written each page last are those that say so: of several
// threads, children, and libraries that come and go; and the instructions, where a function has one only.
func TestHeatWho(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range lane.Some([][]string{{"-O1"}, {"-O2", "-no-pie"}, {"-O0"}, {"-O2", "-g"}}, 0) {
		program, libraries := whoProgram(t, flags...)
		for i, way := range lane.Some([][]string{{""}, {"threads"}, {"turns"}, {"fork"}, {"library", libraries[0], libraries[1]}, {"exec", program}}, 0, 2, 3, 4, 5) {
			for _, how := range lane.Some([][]string{{"--objects", "main,libwho*"}, {"--lock", "--objects", "main,libwho*"}, {"--objects", "all", "--control"}, {"--objects", "main,libwho*", "--edges"}}, i%4) {
				r, table := countedAt(t, cmd(append([]string{program}, way...)...), append([]string{"--heat=who"}, how...)...)
				got, offsets := lastsOf(t, table)
				want, at := saidLasts(r.stdout)
				if !maps.Equal(got, want) || len(want) < 40 {
					t.Errorf("%v %v %v: %v, not %v: %+v", flags, way, how, got, want, r)
				}
				for name, offset := range at {
					if !isLast(want, name) {
						continue
					}
					if !maps.Equal(offsets[name], map[uint64]bool{offset: true}) {
						t.Errorf("%v %v %v: %s is at %v, not %d", flags, way, how, name, offsets[name], offset)
					}
				}
			}
		}
	}
}

// TestHeatWhoKept: with plans that are kept, of libraries that are loaded later, too, they are the same.
func TestHeatWhoKept(t *testing.T) {
	lane.Parallel(t)
	program, libraries := whoProgram(t, "-O2", "-fPIE", "-pie")
	p := newPlanned(t, cmd(program, "library", libraries[0], libraries[1]), "run")
	p.flags = []string{"--heat=who"}
	for starts, done := 0, false; !done; starts++ {
		r, rep, cached, all := p.start(t)
		got, _ := lastsOf(t, rep.table)
		if want, _ := saidLasts(r.stdout); !maps.Equal(got, want) || len(want) < 40 {
			t.Errorf("%d of %d plans are used: %v, not %v: %+v", cached, all, got, want, r)
		}
		if done = cached == all && isWarm(t, rep); starts > 20 {
			t.Fatalf("%d of %d plans are used", cached, all)
		}
	}
}

// TestHeatWhoPages: pages are those that are noted otherwise.
func TestHeatWhoPages(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O2", "-falign-functions=32"}, "heat.c")
	for _, way := range lane.Some([][]string{{"--objects", "main"}, {"--edges"}, {"--trips"}, {"--lock"}}, 0, 3) {
		without := run(t, cmd(program))
		with, table := countedAt(t, cmd(program), append([]string{"--heat=who"}, way...)...)
		same(t, without, with)
		want, _ := saidPages(t, with.stdout)
		if got := touchedPages(t, table); !maps.Equal(got, want) {
			t.Errorf("%v: %v, not %v", way, got, want)
		}
	}
	wraps := compile(t, gcc, []string{"-O1", "-falign-functions=32"}, "heatwraps.c")
	notesAll(t, run(t, cmd(wraps)), cmd(wraps), "--heat=who")
}

// TestHeatWhoShown: who has touched most pages last is in front of them, and with each range who has,
// with the source line, as text and CSV have it.
func TestHeatWhoShown(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O1", "-g", "-falign-functions=32"}, "heat_who.c")
	_, table := countedAt(t, cmd(program), "--heat=who", "--objects", "main")
	for _, row := range [][]string{
		{"", "Pages that were read last by: ", "Pages that were written last by: "},
		{"--pages", " last read by get_here+0x2 (heat_who.c:", " last written by put_here+0x3 (heat_who.c:"},
		{"--format=csv", ",symbols,last_reader,last_reader_at,last_writer,last_writer_at\n", "get_here+0x2,heat_who.c:"},
	} {
		r := run(t, cmd(slices.DeleteFunc([]string{build(t, "hotspots"), "heat", table, row[0]}, func(s string) bool { return s == "" })...))
		for _, text := range row[1:] {
			if r.status != 0 || !strings.Contains(r.stdout, text) {
				t.Errorf("%v: %q is not in %+v", row[0], text, r)
			}
		}
	}
	_, table = countedAt(t, cmd(program), "--heat=pages", "--objects", "main")
	for _, format := range []string{"text", "json", "csv"} {
		if r := run(t, cmd(build(t, "hotspots"), "heat", table, "--pages", "--format", format)); r.status != 0 || strings.Contains(r.stdout, "last_reader") || strings.Contains(r.stdout, "last read by") {
			t.Errorf("%+v", r)
		}
	}
}
