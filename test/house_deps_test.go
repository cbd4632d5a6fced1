package test

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestDeps: what a test is skipped without is installed by make deps, or make long, or there is no
// Debian without it.
func TestDeps(t *testing.T) {
	essential := []string{"bash", "chroot", "dash", "env", "false", "ls", "true", "tar", "prlimit", "setarch", "setpriv", "timeout", "unshare", "wc"}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	needs, name := regexp.MustCompile(`\bneed(?:File)?\(t, ((?:"[^"]*[^"/]"(?:, )?)+)\)`), regexp.MustCompile(`"([^"]*)"`)
	found := 0
	for _, file := range files {
		for _, call := range needs.FindAllStringSubmatch(read(t, file), -1) {
			for _, what := range name.FindAllStringSubmatch(call[1], -1) {
				found++
				if what[1] != "go" && !slices.Contains(essential, what[1]) && installs(what[1]) == installsNothing {
					t.Errorf("%s: nothing in scripts/deps has %s", file, what[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d are found", found)
	}
	for what, want := range map[string]string{"gcc": "make deps installs it", "/usr/sbin/cron": "make long installs it", "promtool": "make prometheus installs it", "nosuch": installsNothing} {
		if got := installs(what); got != want {
			t.Errorf("%s: %s, not %s", what, got, want)
		}
	}
}
