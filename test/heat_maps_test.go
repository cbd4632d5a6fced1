package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What pages lie in, of programs that do not tell at their end.

// mappedHeat is the JSON of hotspots heat, in part.
type mappedHeat struct {
	Program string
	Ended   bool   `json:"mappings_at_end"`
	Time    uint64 `json:"mappings_ns"`
	Total   struct{ Mapped, Resident uint64 }
	Areas   []struct {
		Name             string
		Ours             bool
		Mapped, Resident uint64
		First, Last      int
		Ranges           []struct {
			Address      string
			Bytes        uint64
			Read         bool
			Written      bool
			Executed     bool
			First        int
			Last         int
			ReadFirst    int `json:"read_first"`
			ReadLast     int `json:"read_last"`
			WrittenFirst int `json:"written_first"`
			WrittenLast  int `json:"written_last"`
			Symbols      []string
		}
	}
}

func readMappedHeat(t *testing.T, table string) (m mappedHeat, ok bool) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "json"))
	return m, r.status == 0 && json.Unmarshal([]byte(r.stdout), &m) == nil
}

// nameAt is the area that a page is in, and its symbols.
func (m *mappedHeat) nameAt(at uint64) (name string, symbols []string) {
	for _, a := range m.Areas {
		for _, r := range a.Ranges {
			if from, _ := strconv.ParseUint(r.Address, 0, 64); at >= from && at < from+r.Bytes {
				return a.Name, r.Symbols
			}
		}
	}
	return "", nil
}

// told is memory that testdata/heat_maps.c has touched.
type told struct {
	what     string
	at, size uint64
}

// TestHeatMaps: pages of a program that is killed, or aborts, or executes another, have the names
// of what was mapped there when they were touched, also if that is a file's memory that is not
// mapped any more.
func TestHeatMaps(t *testing.T) {
	lane.Parallel(t)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "heat_maps.c")
	for _, end := range lane.Some([]string{"kill", "abort", "/bin/true", "exit"}, 0, 3) {
		t.Run(filepath.Base(end), func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table")
			c := exec.Command(build(t, "hotspots"), "run", "--heat=pages", "--objects", "main", "--summary", "0", "-o", table, "--", program, file)
			to, from := converse(t, c)
			t.Cleanup(func() { c.Process.Kill() })
			var all []told
			// listen takes what is touched up to a line.
			listen := func(last string) {
				t.Helper()
				for {
					line, err := from.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if line == last+"\n" {
						return
					}
					var one told
					if _, err := fmt.Sscanf(line, "%s 0x%x %d", &one.what, &one.at, &one.size); err != nil {
						t.Fatalf("%q: %v", line, err)
					}
					all = append(all, one)
				}
			}
			wrong := func(m *mappedHeat) (text string) {
				for _, one := range all {
					want := map[string]string{"anonymous": "[anonymous]", "last": "[anonymous]", "shared": "[shared]", "file": file, "gone": file, "heap": "[heap]", "bss": program}[one.what]
					for at := one.at; at < one.at+one.size; at += 4096 {
						if name, _ := m.nameAt(at); name != want {
							text += fmt.Sprintf("%s at %#x is %q\n", one.what, at, name)
							break
						}
					}
				}
				return text
			}
			known := func() {
				t.Helper()
				until(t, func() bool {
					m, ok := readMappedHeat(t, table)
					return ok && wrong(&m) == ""
				}, "what is mapped is not known while the program runs")
			}
			listen("ready")
			known()
			fmt.Fprintln(to, "go on")
			listen("unmapped")
			known()
			switch end {
			case "kill":
				if err := syscall.Kill(readReport(t, table).Pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			case "exit":
				to.Close()
			default:
				fmt.Fprintln(to, end)
			}
			c.Wait()
			if strings.HasPrefix(end, "/") { // the name that was given is the next program's
				if m, ok := readMappedHeat(t, table); !ok || filepath.Base(m.Program) != filepath.Base(end) {
					t.Errorf("%q goes under the name that was given", m.Program)
				}
				table += ".2"
			}
			m, ok := readMappedHeat(t, table)
			if text := wrong(&m); !ok || text != "" || m.Ended != (end == "exit") || m.Ended != (m.Time == 0) || m.Total.Resident == 0 {
				t.Errorf("at the end %v, %d ns, %d resident: %s", m.Ended, m.Time, m.Total.Resident, text)
			}
			for _, a := range m.Areas {
				if strings.Contains(a.Name, "dynprof") && a.Name != "[dynprof]" || a.Ours != (a.Name == "[dynprof]") {
					t.Errorf("%s: %v", a.Name, a.Ours)
				}
			}
			for _, one := range all {
				if _, symbols := m.nameAt(one.at + 4096); one.what == "bss" && strings.Join(symbols, " ") != "zeros" {
					t.Errorf("%q, not zeros", symbols)
				}
			}
		})
	}
}
