package test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Pages that are touched while counting is on, and while it is off, by hotspots run --heat
// --control.

// windows is a run of testdata/heat_paused.c.
type windows struct {
	t      *testing.T
	c      *exec.Cmd
	table  string
	to     io.WriteCloser
	from   *bufio.Reader
	inside bool // the program pauses by itself
}

func startWindows(t *testing.T, inside bool, flags ...string) *windows {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32", "-I../libdynprof", "-pthread"}, "heat_paused.c")
	library := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32", "-I../libdynprof", "-shared", "-fPIC", "-DLIBRARY"}, "heat_paused.c")
	args := append([]string{"run", "--control", "--summary", "0", "-o", table}, flags...)
	w := &windows{t: t, c: exec.Command(build(t, "hotspots"), append(args, "--", program, library)...), table: table, inside: inside}
	w.c.Stderr = os.Stderr
	w.to, w.from = converse(t, w.c)
	t.Cleanup(func() { w.c.Process.Kill() })
	w.ready()
	return w
}

// ready waits until the program has done what it was told.
func (w *windows) ready() {
	w.t.Helper()
	if line, err := w.from.ReadString('\n'); line != "go\n" {
		w.t.Fatalf("%q, %v", line, err)
	}
}

// do has the program do something: each byte is a command, p and r of whoever pauses, and i and o wait
// until a slice is known in which counting was on, or off.
func (w *windows) do(commands string) {
	w.t.Helper()
	for _, c := range commands {
		switch {
		case c == 'i' || c == 'o':
			counting := map[rune]string{'i': "on", 'o': "off"}[c]
			until(w.t, func() bool {
				m, ok := readHeat(w.t, w.table)
				return ok && slices.ContainsFunc(m.Slices, func(s heatSlice) bool { return s.Counting == counting })
			}, "no slice is known in which counting was "+counting)
		case (c == 'p' || c == 'r') && !w.inside:
			verb := map[rune]string{'p': "pause", 'r': "resume"}[c]
			if r := run(w.t, cmd(build(w.t, "hotspots"), verb, w.table)); r.status != 0 || r.stdout+r.stderr != "" {
				w.t.Fatalf("%s: %+v", verb, r)
			}
		default:
			if _, err := w.to.Write([]byte(string(c))); err != nil {
				w.t.Fatal(err)
			}
			w.ready()
		}
	}
}

// want adds the pages of a phase.
func (w *windows) want(pages map[int]string, phases ...int) {
	const workers, own, each = 4, 3, 16
	for _, phase := range phases {
		for k := range workers * own {
			pages[1+each*phase+k/own*4+k%own] = "-w"
		}
	}
}

// finish ends the program.
func (w *windows) finish() {
	w.t.Helper()
	if _, err := w.to.Write([]byte{'x'}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// end ends the program, and compares its pages.
func (w *windows) end(want map[int]string) *heatMap {
	w.t.Helper()
	w.finish()
	got := touchedPages(w.t, w.table)
	for page, what := range want {
		if got[page] != what {
			w.t.Errorf("page %d: %q, not %q", page, got[page], what)
		}
	}
	for page, what := range got {
		if want[page] == "" {
			w.t.Errorf("page %d is touched (%s), which counting did not see", page, what)
		}
	}
	m, _ := readHeat(w.t, w.table)
	return &m
}

// TestHeatPaused: pages are those that calls touch which begin while counting is on, of all
// threads and a child, and of a library that is loaded while it is off. A call that is under way when it ends or begins goes on as it was, until
// a call of its own comes back. Slices in which counting was off have nothing else.
func TestHeatPaused(t *testing.T) {
	lane.Parallel(t)
	type row struct {
		inside bool
		flags  []string
	}
	for _, row := range lane.Some([]row{{false, []string{"--heat=pages"}}, {true, []string{"--heat=pages", "--edges"}}, {true, []string{"--heat=pages", "--trips"}}, {false, []string{"--heat=lines"}}, {true, []string{"--heat=pages", "--lock"}}}, 0, 1) {
		t.Run(strings.Join(row.flags, " "), func(t *testing.T) {
			t.Parallel()
			w := startWindows(t, row.inside, row.flags...)
			want := map[int]string{100: "-w", 101: "-w", 105: "-w", 112: "-w"}
			w.want(want, 0, 2, 4)
			w.do("iwap" + "bowalk" + "rbwk" + "pcw" + "rbw")
			m := w.end(want)
			span := m.span(t)
			for page, s := range span {
				for i := s[0]; i <= s[1] && page < 100; i++ {
					if c := m.Slices[i-1].Counting; c == "off" && s[0] == s[1] {
						t.Errorf("page %d was touched in slice %d, when counting was %s", page, i, c)
					}
				}
			}
			if m.Slices[0].Counting != "on" || !slices.ContainsFunc(m.Slices, func(s heatSlice) bool { return s.Counting == "both" }) {
				t.Errorf("%+v", m.Slices)
			}
			last := m.Slices[len(m.Slices)-1]
			if r := readReport(t, w.table); last.Instructions != r.TotalInstructions {
				t.Errorf("%+v, %d instructions", last, r.TotalInstructions)
			}
			if r := run(t, cmd(build(t, "hotspots"), "heat", w.table)); r.status != 0 || !strings.Contains(r.stdout, "Counting was off in ") {
				t.Errorf("%+v", r)
			}
		})
	}
}
