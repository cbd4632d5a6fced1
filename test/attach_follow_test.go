package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestFollowMixture: with --follow-exec all is counted that is executed, or it is said, whatever
// loads its libraries, whoever executes it, and in whatever way. Nobody sees anything of it.
func TestFollowMixture(t *testing.T) {
	lane.Parallel(t)
	needNoBlocks(t)
	const ways, each = 8, 1000 // mixture.c
	kinds := map[string][]string{"dynamic": {"gcc", "-O1"}, "static": {"gcc", "-O1", "-static"}, "musl": musl}
	hotspots, dir := build(t, "hotspots"), t.TempDir()
	paths := map[string]string{}
	for name, how := range kinds {
		paths[name] = filepath.Join(dir, name)
		if err := os.Rename(compileWith(t, how, "mixture.c"), paths[name]); err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range lane.Some([][]string{{"dynamic", "static", "musl"}, {"static", "musl", "dynamic", "static"}, {"musl", "static", "dynamic"}}, 0, 1) {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			var args []string
			for _, name := range names {
				args = append(args, paths[name])
			}
			without := run(t, cmd(args...))
			tables := t.TempDir()
			with := run(t, cmd(append([]string{hotspots, "run", "--follow-exec", "--fold", "0", "--summary", "0", "-o", filepath.Join(tables, "%e.%p"), "--"}, args...)...))
			told := strings.Count(with.stderr, "not counted: ") + strings.Count(with.stderr, "nothing is counted: ")
			with.stderr = notOurs(with.stderr) // who was not asked in time runs uncounted, and it is said
			same(t, without, with)
			all, err := filepath.Glob(filepath.Join(tables, "*"))
			if err != nil {
				t.Fatal(err)
			}
			want, executed := map[uint64]int{ways * uint64(len(names)-1): 1, each: ways*(len(names)-1) + 1}, map[uint64]int{}
			for _, table := range all {
				executed[readReport(t, table).calls(t, "work")]++
			}
			missing := 0
			for calls, n := range want {
				missing += n - executed[calls]
				delete(executed, calls)
			}
			if len(executed) > 0 || missing != told {
				t.Errorf("%d processes are not counted, %d were told of; and %v (calls: processes)", missing, told, executed)
			}
		})
	}
}

// notOurs is what of it the program has said.
func notOurs(stderr string) (own string) {
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "hotspots: ") && !strings.HasPrefix(line, "dynprof: ") {
			own += line
		}
	}
	return own
}
