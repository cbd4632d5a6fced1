package test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// shown is a function in the JSON of hotspots show.
type shown struct {
	Name    string
	Guess   string
	Address string
	Calls   *uint64
	Threads []struct {
		Pid, Tid int
		Several  bool
		Calls    uint64
	}
	Instructions *uint64
	Callers      []edge
	Callees      []edge
	ReferredBy   []struct {
		Kind, Address, Name, Text string
		Sites                     int
	} `json:"referred_by"`
	Refers []struct{ Kind, Name, Text string }
	Code   []struct {
		Address, Bytes, Text string
		Patched              []int
		Runs                 *uint64
	}
	Patch string
	Notes []string
}

func showOf(t *testing.T, table, name string) (list []shown) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "show", name, table, "--format", "json"))
	var all struct{ Functions []shown }
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || r.stderr != "" || r.status != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	return all.Functions
}

// addressOf is that of a symbol, by nm.
func addressOf(t *testing.T, program, symbol string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^0*([0-9a-f]+) T ` + symbol + `$`).FindStringSubmatch(run(t, cmd(need(t, "nm"), program)).stdout)
	if m == nil {
		t.Fatalf("no %s", symbol)
	}
	return "0x" + m[1]
}

// TestShow: of a program without symbols the strings, symbols and names are told that its
// functions stand beside, however it was linked.
func TestShow(t *testing.T) {
	lane.Parallel(t)
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-no-pie", "-fno-pie"}, {"-O2", "-fno-plt", "-fcf-protection"}} {
		program := compile(t, need(t, "gcc"), flags, "show.c")
		grow, door, closes := addressOf(t, program, "grow"), addressOf(t, program, "open_door"), addressOf(t, program, "close_door")
		run(t, cmd(need(t, "strip"), program))
		_, table := countedAt(t, cmd(program, "20"))
		list := showOf(t, table, grow)
		list = slices.DeleteFunc(list, func(f shown) bool { return !strings.HasPrefix(f.Name, "program+") })
		if len(list) != 1 {
			t.Fatalf("%v: %+v", flags, list)
		}
		f := list[0]
		var refers []string
		for _, r := range f.Refers {
			refers = append(refers, fmt.Sprintf("%s %s%s", r.Kind, r.Name, r.Text))
		}
		slices.Sort(refers)
		for _, want := range []string{"call fprintf", "call strlen", "import stderr", "string too large: %s\n"} {
			if !slices.Contains(refers, want) {
				t.Errorf("%v: %q, not %q", flags, refers, want)
			}
		}
		if *f.Calls != 40 || len(f.Threads) != 2 || f.Threads[0].Calls != 20 || f.Threads[0].Tid == f.Threads[1].Tid || f.Threads[0].Several {
			t.Errorf("%v: %+v", flags, f)
		}
		var from []string
		for _, r := range f.ReferredBy {
			from = append(from, r.Kind+" "+r.Address+" "+r.Text)
		}
		if want := []string{"call " + door + " open", "call " + closes + " close"}; !slices.Equal(from, want) {
			t.Errorf("%v: %q, not %q", flags, from, want)
		}
		one := showOf(t, table, "program+"+door)[0]
		if one.Guess != "open" || one.ReferredBy[0].Kind != "pointer" || one.ReferredBy[0].Text != "open" {
			t.Errorf("%v: %+v", flags, one)
		}
		n, _ := strconv.ParseUint(door[2:], 16, 64)
		if inside := showOf(t, table, fmt.Sprintf("program+0x%x", n+1)); len(inside) != 1 || inside[0].Address != door {
			t.Errorf("%v: %+v", flags, inside)
		}
		r := run(t, cmd(build(t, "hotspots"), "show", "program+"+grow, table))
		for _, want := range []string{`string       "too large: %s\n"`, `(beside "open")`, "by thread ", "CODE, [overwritten] while it ran"} {
			if !strings.Contains(r.stdout, want) || r.stderr != "" {
				t.Errorf("%v: no %s in %s%s", flags, want, r.stdout, r.stderr)
			}
		}
	}
}

// TestShowBlocks: with blocks there are instructions, callers and callees.
func TestShowBlocks(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "show.c")
	_, table := countedAt(t, cmd(program, "20"), "--blocks")
	f := showOf(t, table, "grow")[0]
	calls := map[string]uint64{}
	for _, e := range f.Callers {
		calls[e.Caller.Name] = e.Calls
	}
	if f.Instructions == nil || *f.Instructions < 40*5 || calls["open_door"] != 20 || calls["close_door"] != 20 || len(f.Callees) != 1 || f.Callees[0].Calls != 40 || *f.Code[0].Runs != 40 {
		t.Errorf("%+v", f)
	}
	if main := showOf(t, table, "main")[0]; len(main.Callers) != 1 || main.Callers[0].Kind != "elsewhere" {
		t.Errorf("%+v", main)
	}
}

// TestShowPatched: of a running program the bytes are told that are others in its memory, at
// the entry and where calls are led past it; of the same when it has ended those at the entry.
func TestShowPatched(t *testing.T) {
	lane.Parallel(t)
	program, table := compile(t, need(t, "gcc"), []string{"-O2"}, "show.c"), filepath.Join(t.TempDir(), "table")
	c := exec.Command(build(t, "hotspots"), "run", "-o", table, "--summary=0", "--", program, "20", "wait")
	in, out := converse(t, c)
	defer c.Wait()
	defer in.Close() // the program ends, also where hotspots is killed
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	f := showOf(t, table, "open_door")[0]
	if f.Patch != "memory" || len(f.Code) == 0 || len(f.Code[0].Patched) == 0 {
		t.Errorf("%+v", f)
	}
	for _, code := range f.Code {
		if strings.HasPrefix(code.Text, "call") && len(code.Patched) == 0 && setting("TEST_BLOCKS") == "" {
			t.Errorf("the call is not led past the entry: %+v", code)
		}
	}
}

// TestShowNames: what is not found is said in one line, with what is like it.
func TestShowNames(t *testing.T) {
	lane.Parallel(t)
	program := compile(t, need(t, "gcc"), []string{"-O2"}, "show.c")
	_, table := countedAt(t, cmd(program, "20"))
	for name, says := range map[string]string{
		"open_dor": `did you mean open_door\?`, "OPEN_DOOR": `did you mean open_door\?`, "door": "did you mean (open_door, close_door|close_door, open_door)",
		"nothing like it": "no function of that name: hotspots report --filter", "0x1": "no known function has that address", "": "no function of that name", "libnone.so+0x1000": "no known function has that address",
	} {
		r := run(t, cmd(build(t, "hotspots"), "show", name, table))
		oneLine(t, r.stderr, says, "")
		if r.status != 1 || r.stdout != "" {
			t.Errorf("%q: %+v", name, r)
		}
	}
	// Without its file there is what the table says.
	if err := exec.Command("cp", "/bin/true", program).Run(); err != nil {
		t.Fatal(err)
	}
	if f := showOf(t, table, "grow")[0]; *f.Calls != 40 || len(f.Code) != 0 || len(f.Notes) == 0 || !strings.Contains(f.Notes[0], "is not the file that was counted") {
		t.Errorf("%+v", f)
	}
}
