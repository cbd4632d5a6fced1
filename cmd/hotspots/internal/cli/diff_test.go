package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// Copies of one table are not added up: diff shows what is between them,
// whatever was reset meanwhile.
func TestDiffOfSnapshots(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before.dynprof"), filepath.Join(dir, "after.dynprof")
	live := tabletest.Demo(t, filepath.Join(dir, "live.dynprof"), tabletest.Spec())
	for _, resets := range []bool{false, true} {
		live.Set(0, 100, 200, 300, 400)
		if err := edit.Copy(live.Path, before); err != nil {
			t.Fatal(err)
		}
		if resets {
			if err := edit.Reset(live.Path); err != nil {
				t.Fatal(err)
			}
		}
		live.Set(0, 107, 200, 3000, 400)
		if err := edit.Copy(live.Path, after); err != nil {
			t.Fatal(err)
		}
		out, errOut, status := hotspots("diff", before, after, "--format=csv", "--top=3")
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			f := strings.Split(line, ",")
			got = append(got, f[3]+" "+f[7])
		}
		if want := "demo+0x1170 2700|main 7|"; !strings.HasPrefix(strings.Join(got, "|"), want) || status != 0 || errOut != "" {
			t.Errorf("resets %t: %q, status %d, %s", resets, got, status, errOut)
		}
	}
	for _, args := range [][]string{{"report", before, after}, {"report", live.Path, after}, {"coverage", before, after}} {
		if out, errOut, status := hotspots(args...); status != 1 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, "hotspots diff "+args[1]+" "+args[2]) {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errOut)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(before, link); err != nil {
		t.Fatal(err)
	}
	if _, errOut, status := hotspots("report", before, link); status != 0 {
		t.Errorf("one table by two names: %s", errOut)
	}
}

func TestCompactCommand(t *testing.T) {
	dir := t.TempDir()
	live := tabletest.Demo(t, filepath.Join(dir, "a.dynprof"), tabletest.Synthetic(100))
	other := demoTable(t, filepath.Join(dir, "b.dynprof"), nil)
	if _, errOut, status := hotspots("compact", live.Path, other); status != 1 || !strings.Contains(errOut, "a process counts into it") {
		t.Errorf("in use: status %d, %s", status, errOut)
	}
	live.Close()
	want, _, _ := hotspots("report", live.Path)
	if out, errOut, status := hotspots("compact", live.Path, other); status != 0 || out+errOut != "" {
		t.Errorf("status %d, %s%s", status, out, errOut)
	}
	if got, _, _ := hotspots("report", live.Path); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fi, err := os.Stat(live.Path); err != nil || fi.Size() > 100<<10 {
		t.Errorf("%d bytes, %v", fi.Size(), err)
	}
}
