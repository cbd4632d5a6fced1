package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script is a program in a file of its own.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRun: what is not as it shall be is told, in each variant.
func TestRun(t *testing.T) {
	known := []byte("#!/bin/sh\necho f 3; echo g 5\n")
	const run = `if [ $1 = run ]; then `
	for _, row := range []struct{ name, hotspots, want string }{
		{"exact", run + `echo f 3; echo g 5; else echo name,calls; echo f,3; echo g,5; fi`, ""},
		{"too few", run + `echo f 3; echo g 5; else echo name,calls; echo f,3; echo g,4; fi`, `g was called 5 times, and "4" were counted`},
		{"none", run + `echo f 3; echo g 5; else echo name,calls; echo g,5; fi`, `f was called 3 times, and "" were counted`},
		{"no report", run + `echo f 3; echo g 5; else echo broken >&2; exit 1; fi`, "broken"},
		{"another output", run + `echo f 4; fi`, "did something else"},
		{"a message", run + `echo f 3; echo g 5; echo nothing is counted >&2; fi`, "nothing is counted"},
		{"fails", run + `echo no library >&2; exit 125; fi`, "no library"},
		{"settings of the user's", run + `test -n "$DYNPROF_ONLY" && exit 1; echo f 3; echo g 5; else echo name,calls; echo f,3; echo g,5; fi`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Setenv("DYNPROF_ONLY", "nothing")
			told := 0
			all, err := Run(Config{Hotspots: script(t, row.hotspots), Program: known, Tell: func(Result) { told++ }})
			if err != nil || len(all) != len(variants) || told != len(all) {
				t.Fatalf("%d results, %d told: %v", len(all), told, err)
			}
			for _, r := range all {
				if !strings.Contains(r.Error, row.want) || (r.Error == "") != (row.want == "") {
					t.Errorf("%s: %q", r.Variant, r.Error)
				}
			}
		})
	}
	if _, err := Run(Config{}); !errors.Is(err, ErrNoProgram) {
		t.Errorf("no program: %v", err)
	}
	if _, err := Run(Config{Program: []byte("no program at all\x00")}); err == nil || !strings.Contains(err.Error(), "does not run here") {
		t.Errorf("one that does not run: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := Run(Config{Program: known}); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("no place: %v", err)
	}
}
