package cli

import (
	"bufio"
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/build"
)

// TestNarrow: on a terminal no line is longer than that, but for --wide and paths of tables.
func TestNarrow(t *testing.T) {
	const long = "a_function_with_a_name_that_is_longer_than_what_a_terminal_with_eighty_columns_has"
	path := demoTable(t, filepath.Join(t.TempDir(), "a.dynprof"), func(s *build.Spec) {
		s.Functions[0].Name, s.Program = long, "/opt/"+strings.Repeat("x", 50)+"/demo"
	})
	for _, row := range []struct {
		args string
		cut  bool
	}{{"report", true}, {"report --wide", false}, {"coverage --list jump", true}, {"coverage --list jump --wide", false}} {
		var out bytes.Buffer
		a := &app{stdout: bufio.NewWriter(&out), stderr: &out}
		a.style.Width = 80
		if status := a.main(append(strings.Fields(row.args), path)); status != 0 {
			t.Fatal(out.String())
		}
		_, table, _ := strings.Cut(out.String(), "\n")
		if strings.HasPrefix(row.args, "coverage") {
			table = out.String()
		}
		if cut := widest(table) <= 80; cut != row.cut || cut == strings.Contains(table, long) {
			t.Errorf("%s:\n%s", row.args, out.String())
		}
	}
	var out bytes.Buffer
	a := &app{stdout: bufio.NewWriter(&out), stderr: &out}
	a.style.Width = 80
	if status := a.main([]string{"ls", filepath.Dir(path)}); status != 0 || !strings.Contains(out.String(), "  demo  ") || strings.Contains(out.String(), "LISTEN") || !strings.Contains(out.String(), "  "+path+"\n") {
		t.Errorf("status %d:\n%s", status, out.String())
	}
}

func TestBriefly(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		ago  time.Duration
		want string
	}{{time.Hour, "11:00:00"}, {24 * time.Hour, "Nov 24 12:00"}, {366 * 24 * time.Hour, "2025-11-24"}} {
		if got := briefly(now.Add(-row.ago), now); got != row.want {
			t.Errorf("%v ago: %s, not %s", row.ago, got, row.want)
		}
	}
}
