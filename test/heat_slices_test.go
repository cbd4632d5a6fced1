package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// Slices of time in which pages are touched.

// heatMap is the JSON of hotspots heat, in part.
type heatMap struct {
	Ended  bool `json:"mappings_at_end"`
	Total  struct{ Touched, Read, Written, Executed uint64 }
	Slices []heatSlice
	Areas  []struct {
		Ranges []struct {
			Address     string
			Pages       int
			First, Last int
		}
	}
}

func readHeat(t *testing.T, table string) (m heatMap, ok bool) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "json"))
	if r.status != 0 {
		return m, false
	}
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
		t.Fatal(err)
	}
	return m, true
}

type heatSlice struct {
	Instructions uint64
	Used         uint64
	WorkingSet   uint64 `json:"working_set"`
	Written      uint64
	Executed     uint64
	Resident     uint64
	MinorFaults  uint64 `json:"minor_faults"`
	Threads      uint64
	Counting     string
}

// span is the first and the last slice of each page at heatBase.
func (m *heatMap) span(t *testing.T) map[int][2]int {
	t.Helper()
	all := map[int][2]int{}
	for _, a := range m.Areas {
		for _, r := range a.Ranges {
			var first uint64
			if _, err := fmt.Sscanf(r.Address, "0x%x", &first); err != nil {
				t.Fatal(err)
			}
			for i := range r.Pages {
				if page := int(first-heatBase)/4096 + i; first >= heatBase && page < heatPages {
					all[page] = [2]int{r.First, r.Last}
				}
			}
		}
	}
	return all
}

// phases is a run of testdata/heat_phases.c.
type phases struct {
	c     *exec.Cmd
	table string
	to    io.WriteCloser
	from  *bufio.Reader
	pages map[int][2]int // as they are known by now
}

const heatPhases = 4

func startPhases(t *testing.T) *phases {
	t.Helper()
	table := filepath.Join(t.TempDir(), "table")
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "heat_phases.c")
	p := &phases{c: exec.Command(build(t, "hotspots"), "run", "--heat=pages", "--objects", "main", "--summary", "0", "-o", table, "--", program), table: table}
	p.c.Stderr = os.Stderr
	p.to, p.from = converse(t, p.c)
	t.Cleanup(func() { p.c.Process.Kill() })
	return p
}

// see waits until the pages of a phase, which the program is in, are in the file.
func (p *phases) see(t *testing.T, phase int) {
	t.Helper()
	if line, err := p.from.ReadString('\n'); line != fmt.Sprintf("phase %d\n", phase) {
		t.Fatalf("%q, %v", line, err)
	}
	until(t, func() bool {
		m, ok := readHeat(t, p.table)
		p.pages = m.span(t)
		for i := range 5 {
			own, has := p.pages[10+20*phase+2*i]
			ok = ok && has && p.pages[0][1] >= own[1]
		}
		return ok
	}, fmt.Sprintf("the pages of phase %d are not seen", phase))
}

func (p *phases) goOn(t *testing.T) {
	t.Helper()
	if _, err := p.to.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
}

// check compares slices with phases, of which so many were seen.
func (p *phases) check(t *testing.T, seen int) *heatMap {
	t.Helper()
	m, ok := readHeat(t, p.table)
	if !ok {
		t.Fatal("nothing is shown")
	}
	pages, end := m.span(t), 0
	if len(pages) != 1+5*seen {
		t.Errorf("%v", pages)
	}
	for phase := range seen {
		last := 0
		for i := range 5 {
			s := pages[10+20*phase+2*i]
			if s[0] <= end || s[1] < s[0] || s[1] > len(m.Slices) {
				t.Errorf("phase %d, page %d: slices %v, the phase before ended with %d of %d", phase, i, s, end, len(m.Slices))
			}
			last = max(last, s[1])
		}
		end = last
	}
	if all := pages[0]; seen > 1 && all[0] >= pages[30][0] || all[1] < end {
		t.Errorf("the page of all phases: %v", all)
	}
	before := uint64(0)
	for i, s := range m.Slices {
		if s.Instructions < before || s.WorkingSet > s.Used || s.Used > m.Total.Touched {
			t.Errorf("slice %d: %+v after %d instructions", i, s, before)
		}
		before = s.Instructions
	}
	return &m
}

// TestHeatSlices: what is touched in a phase is in slices that are behind those of the phase
// before, children's too; and how many instructions have run by the last slice is what the
// table says.
func TestHeatSlices(t *testing.T) {
	lane.Parallel(t)
	p := startPhases(t)
	for phase := range heatPhases {
		p.see(t, phase)
		p.goOn(t)
	}
	if err := p.c.Wait(); err != nil {
		t.Fatal(err)
	}
	m := p.check(t, heatPhases)
	last := m.Slices[len(m.Slices)-1]
	if r := readReport(t, p.table); last.Instructions != r.TotalInstructions || last.Used != m.Total.Touched || !m.Ended {
		t.Errorf("%+v, %d instructions, %+v", last, r.TotalInstructions, m.Total)
	}
	for _, args := range [][]string{{"--curve"}, {"--curve", "--format", "csv", "--window", "1000"}} {
		r := run(t, cmd(append([]string{build(t, "hotspots"), "heat", p.table}, args...)...))
		if n := strings.Count(r.stdout, "\n"); r.status != 0 || n < len(m.Slices) {
			t.Errorf("%+v", r)
		}
	}
	p.draw(t, last.Instructions)
	p.advised(t, m.span(t))
}

// advised has advice given: what is written in one phase could have the memory of what is
// written in another, but pages whose slices meet have memory of their own. A phase's pages are
// touched once each, so that two of them need not meet: slices end when they do.
func (p *phases) advised(t *testing.T, spans map[int][2]int) {
	t.Helper()
	holders, own, a := map[int][]int{}, 0, adviceOf(t, p.table)
	for _, o := range a.Overlay {
		first, err := strconv.ParseUint(o.Address, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i := range o.Pages {
			if page := int(first-heatBase)/4096 + i; first >= heatBase && page >= 10 && page < 10+20*heatPhases {
				own++
				for _, other := range holders[o.Frame+i] {
					if s, z := spans[page], spans[other]; s[0] <= z[1] && z[0] <= s[1] {
						t.Errorf("pages %d and %d have frame %d, in slices %v and %v", page, other, o.Frame+i, s, z)
					}
				}
				holders[o.Frame+i] = append(holders[o.Frame+i], page)
			}
		}
	}
	if own != 5*heatPhases {
		t.Errorf("%d pages have frames: %v", own, holders)
	}
	saved := 0
	for _, one := range a.Advice {
		if one.Kind == "overlay" && strings.HasPrefix(one.Proof, "replayed") {
			saved = one.Pages
		}
	}
	if !a.Heat || len(holders) > 5*heatPhases/2 || saved < 5*(heatPhases-1) {
		t.Errorf("%d frames, %d pages less: %+v", len(holders), saved, a)
	}
}

// draw has a picture drawn: the pages of phases are cyan in it, one phase behind the other.
func (p *phases) draw(t *testing.T, instructions uint64) {
	t.Helper()
	const mostColumns = 1 << 14 // the program has more instructions where it waits for long
	dir := t.TempDir()
	picture, legend := filepath.Join(dir, "a.png"), filepath.Join(dir, "a.json")
	if r := run(t, cmd(build(t, "hotspots"), "heat", "picture", p.table, "-o", filepath.Join(dir, "a.svg"))); r.status != 2 || !strings.Contains(r.stderr, "a.svg: pictures are PNG: -o ") {
		t.Errorf("%+v", r)
	}
	if r := run(t, cmd(build(t, "hotspots"), "heat", "picture", p.table, "-o", picture, "--legend", legend, "--rows", "4K", "--cols", strconv.FormatUint(instructions/mostColumns+1, 10))); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	drawn, err := png.Decode(strings.NewReader(read(t, picture)))
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Plot   struct{ X, Y, Width, Height int }
		Memory []struct {
			Rows []struct {
				Y       int
				Address string
			}
		}
	}
	if err := json.Unmarshal([]byte(read(t, legend)), &l); err != nil {
		t.Fatal(err)
	}
	cyan := map[uint64]int{} // by page: its first column
	for _, m := range l.Memory {
		for _, row := range m.Rows {
			address, err := strconv.ParseUint(row.Address, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			for x := range l.Plot.Width {
				if r, g, b, _ := drawn.At(l.Plot.X+x, row.Y).RGBA(); address >= heatBase && address < heatBase+heatPages*4096 && r == 0 && g > 0 && b > 0 {
					cyan[(address-heatBase)/4096] = x
					break
				}
			}
		}
	}
	for phase := range uint64(heatPhases) {
		if x, has := cyan[10+20*phase]; !has || phase > 0 && x <= cyan[10+20*(phase-1)] {
			t.Errorf("phase %d: %v", phase, cyan)
		}
	}
	for _, args := range [][]string{{}, {"-o", picture, "--colours", "red"}, {"-o", picture, "--cols", "0"}, {"-o", picture, "--rows", "4X"}, {"-o", filepath.Join(picture, "a")}} {
		if r := run(t, cmd(append([]string{build(t, "hotspots"), "heat", "picture", p.table}, args...)...)); r.status == 0 || r.stderr == "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestHeatKilled: what a program had touched that is killed is there.
func TestHeatKilled(t *testing.T) {
	lane.Parallel(t)
	p := startPhases(t)
	p.see(t, 0)
	p.goOn(t)
	p.see(t, 1)
	if err := syscall.Kill(readReport(t, p.table).Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if p.c.Wait(); p.c.ProcessState.ExitCode() != 128+int(syscall.SIGKILL) {
		t.Errorf("%v", p.c.ProcessState)
	}
	if m := p.check(t, 2); m.Ended {
		t.Error("mappings at the end of a program that was killed")
	}
}

// TestHeatRunKilled: what hotspots run had seen when it was killed is there, and the program
// goes on.
func TestHeatRunKilled(t *testing.T) {
	lane.Parallel(t)
	p := startPhases(t)
	p.see(t, 0)
	p.c.Process.Kill()
	p.c.Process.Wait()
	p.goOn(t)
	if line, err := p.from.ReadString('\n'); line != "phase 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p.to.Close()
	io.Copy(io.Discard, p.from) // it ends
	p.check(t, 1)
}
