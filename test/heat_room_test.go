//go:build long

package test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestHeatRoom: a program of code that is mostly loads has room for its copies, however its memory
// is noted; one of nothing but loads of a byte of code has not, and all that shows touched memory
// says so.
func TestHeatRoom(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots := need(t, "gcc"), build(t, "hotspots")
	dense, denser := compile(t, gcc, nil, "dense.S"), compile(t, gcc, []string{"-DSTRINGS"}, "dense.S")
	noRoom := func(table, command string) []string {
		r := run(t, cmd(hotspots, command, table, "--format", "json"))
		var shown struct {
			Unseen struct {
				NoRoom []string `json:"no_room"`
			} `json:"unseen"`
		}
		if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || r.status != 0 {
			t.Fatalf("%+v: %v", r, err)
		}
		return shown.Unseen.NoRoom
	}
	for _, flags := range [][]string{{"--heat=pages"}, {"--regions"}} {
		command := strings.TrimPrefix(strings.Split(flags[0], "=")[0], "--")
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			_, table := countedAt(t, cmd(dense), flags...)
			if got := noRoom(table, command); len(got) > 0 {
				t.Errorf("no room for %v", got)
			}
			_, table = countedAt(t, cmd(denser), append(slices.Clone(flags), "--objects", "main,libc.so.6")...)
			if got := noRoom(table, command); !slices.Equal(got, []string{denser}) {
				t.Errorf("no room for %v, not for %s", got, denser)
			}
			if r := run(t, cmd(hotspots, command, table)); !strings.Contains(r.stdout, "all of "+denser+", for whose copies there was no room") {
				t.Errorf("%+v", r)
			}
			_, table = countedAt(t, cmd(denser), append(slices.Clone(flags), "--objects", "main")...)
			if r := run(t, cmd(hotspots, command, table)); r.status != 1 || !strings.Contains(r.stderr, "there was no room for those of "+denser) {
				t.Errorf("%+v", r)
			}
		})
	}
}
