package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is wrong is said in one line, before anything runs.
func TestBisectErrors(t *testing.T) {
	usualPath(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ran := filepath.Join(t.TempDir(), "ran")
	touch := func(flags ...string) []string {
		return append(append([]string{"bisect"}, flags...), "--", "touch", ran)
	}
	for _, row := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"no program", []string{"bisect"}, 2, "no program named"},
		{"unknown flag", touch("--nonsense"), 2, "unknown flag"},
		{"bad format", touch("--format", "csv"), 2, "text, json"},
		{"bad glob", touch("--objects", "a["), 2, "--objects"},
		{"bad regex", touch("--only", "("), 2, "--only"},
		{"missing list", touch("--skip", "@/no/such/list"), 2, "--skip"},
		{"negative time", touch("--timeout", "-1s"), 2, "--timeout"},
		{"no run", touch("--repeat", "0"), 2, "--repeat"},
		{"no library", touch(), 125, "--library"},
		{"no such library", touch("--library", "/no/such/library"), 125, "no library there"},
		{"program not found", []string{"bisect", "--", "no-such-program"}, 127, "no such program"},
		{"program not executable", []string{"bisect", "--", "/"}, 126, "cannot be executed"},
		{"32-bit program", []string{"bisect", "--", write(t, "bits32", elf32(), 0o755)}, 125, "32-bit"},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, errOut, status := hotspots(row.args...)
			if status != row.status || !strings.Contains(errOut, row.says) || out != "" || strings.Count(errOut, "\n") != 1 {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, errOut)
			}
		})
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBisectHelp(t *testing.T) {
	out, _, status := hotspots("bisect", "--help")
	_, examples, _ := strings.Cut(out, "Examples:\n")
	if status != 0 || strings.Count(examples, "  hotspots bisect ") < 3 || !strings.Contains(out, "Exit status") {
		t.Errorf("status %d\n%s", status, out)
	}
	dir := t.TempDir()
	if _, errOut, status := hotspots("man", dir); status != 0 {
		t.Fatal(errOut)
	}
	if _, err := os.Stat(filepath.Join(dir, "hotspots-bisect.1")); err != nil {
		t.Error(err)
	}
}
