package cli

import (
	"strings"
	"testing"
)

// TestSelection: a name that nothing has is said behind the run, and with --strict it is
// an error.
func TestSelection(t *testing.T) {
	usualPath(t)
	for _, row := range []struct {
		flags  string
		status int
		says   string // empty: nothing
	}{
		{"--only main --skip tiny --threshold demo::*=5 --objects all", 3, ""},
		{"--only mian", 3, "hotspots: --only mian: no function that may be counted has such a name; did you mean main?\n"},
		{"--strict --skip mian", 125, "did you mean main?"},
		{"--objects dem", 3, "hotspots: --objects dem: the program has no object of that name; did you mean demo?\n"},
		{"--threshold mian=9", 3, "hotspots: --threshold mian: "},
	} {
		cmd := command(t, append(strings.Fields(row.flags), "sh", "-c", "exit 3")...)
		cmd.Env = append(cmd.Env, "FAKE_TABLE="+templateTable(t))
		_, errOut, status := output(t, cmd)
		if status != row.status || !strings.Contains(errOut, row.says) || (row.says == "") != (errOut == "") {
			t.Errorf("%s: status %d, %q", row.flags, status, errOut)
		}
	}
}
