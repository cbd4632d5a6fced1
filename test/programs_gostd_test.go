//go:build long

package test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunGoStd: tests of Go's standard library come out as they do without us, each by its name,
// in a static program and in one with a libc. TEST_STD names others.
func TestRunGoStd(t *testing.T) {
	needNoBlocks(t)
	src := filepath.Join(strings.TrimSpace(run(t, cmd(need(t, "go"), "env", "GOROOT")).stdout), "src")
	for pkg := range strings.SplitSeq(cmp.Or(setting("TEST_STD"), "encoding/json"), ",") {
		for _, how := range [][]string{{"CGO_ENABLED=0"}, {"CGO_ENABLED=1", "-buildmode=pie"}} {
			t.Run(pkg+" "+how[0], func(t *testing.T) {
				program := filepath.Join(t.TempDir(), "program")
				c := exec.Command("go", append(append([]string{"test", "-c", "-o", program}, how[1:]...), pkg)...)
				c.Env = append(os.Environ(), how[0], "GOFLAGS=", "GOWORK=off")
				if msg, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, msg)
				}
				tests := cmd(program, "-test.short", "-test.v")
				tests.dir = filepath.Join(src, pkg)
				if _, err := os.Stat(tests.dir); err != nil {
					t.Skip(err)
				}
				tests.env = []string{"GODEBUG="}
				without := verdicts(run(t, tests))
				ran, r := counted(t, tests, "--strict")
				with := verdicts(ran)
				for name, verdict := range without {
					if with[name] != verdict {
						t.Errorf("%s: %s, without us %s", name, cmp.Or(with[name], "not there"), verdict)
					}
				}
				if t.Failed() {
					t.Logf("%s%s", ran.stdout, ran.stderr)
				}
				t.Logf("%d tests, %d calls", len(without), r.TotalCalls)
				if len(without) < 10 || len(with) != len(without) {
					t.Errorf("%d tests, without us %d", len(with), len(without))
				}
				covers(t, r, 1000, 95)
			})
		}
	}
}

// verdicts are how tests came out, by their names.
func verdicts(r result) map[string]string {
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(r.stdout, -1) {
		all[m[2]] = m[1]
	}
	return all
}
