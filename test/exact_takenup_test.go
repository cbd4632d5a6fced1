package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestTakenUp: a thread that a handler strikes at any instruction of a stub or a copy, and whose
// context is taken up later, has called what it has called, once. Of blocks some are not counted
// then, as docs/blocks.md says, and none is counted twice.
func TestTakenUp(t *testing.T) {
	lane.Parallel(t)
	const calls, executed = 100, 550 // 5 and 6 instructions by turns
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror"}, "takenup.c")
	for _, flags := range []string{"", "--keep-calls", "--lock", "--blocks", "--trips"} {
		for _, every := range lane.Some([]int{0, 13, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 51, 61}, 0, 2, 5) {
			what, table := fmt.Sprintf("%s, every %d", flags, every), filepath.Join(t.TempDir(), "table")
			args := append(append([]string{build(t, "hotspots"), "run", "--summary", "0", "-o", table}, strings.Fields(flags)...), "--", program, fmt.Sprint(calls), fmt.Sprint(every))
			if r := run(t, cmd(args...)); r.status != 0 || r.stderr != "" || r.stdout != fmt.Sprintf("%d calls, struck as it should be\n", calls) {
				t.Fatalf("%s: %+v", what, r)
			}
			var list struct {
				Functions []struct {
					Object, Name        string
					Calls, Instructions int64
				}
			}
			if err := json.Unmarshal([]byte(run(t, cmd(build(t, "hotspots"), "report", "--format", "json", table)).stdout), &list); err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, f := range list.Functions {
				if f.Object != program {
					continue
				}
				if got[f.Name] = f.Calls; f.Name == "leaf" && (f.Instructions > executed || f.Instructions == 0 && strings.Contains(flags, "--blocks") || every == 0 && f.Instructions > 0 && f.Instructions != executed) {
					t.Errorf("%s: leaf has %d instructions, not %d", what, f.Instructions, executed)
				}
			}
			if got["work"] != 1 || got["leaf"] != calls || got["last"] != calls/2+2 {
				t.Errorf("%s: %d, %d and %d calls", what, got["work"], got["leaf"], got["last"])
			}
		}
	}
}
