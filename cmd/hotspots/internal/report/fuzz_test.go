package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// FuzzReport: whatever is in a table, its JSON is valid, and its text has no
// control characters.
func FuzzReport(f *testing.F) {
	live := tabletest.Demo(f, filepath.Join(f.TempDir(), "a.dynprof"), tabletest.Spec())
	seed, err := os.ReadFile(live.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.ReplaceAll(seed, []byte("demo"), []byte("\x1b[\xff\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		r, err := New([]*table.Table{tab, tab}, Options{})
		if err != nil {
			return
		}
		r.Sort("calls")
		var out, coverage, text bytes.Buffer
		if r.JSON(&out) != nil || r.CoverageJSON(&coverage, r.Coverage()) != nil || !json.Valid(out.Bytes()) || !json.Valid(coverage.Bytes()) {
			t.Errorf("not valid:\n%s\n%s", out.Bytes(), coverage.Bytes())
		}
		r.Text(&text, Style{})
		r.ListText(&text, Style{})
		r.CoverageText(&text, r.Coverage(), Style{})
		for _, c := range text.String() {
			if unicode.IsControl(c) && c != '\n' {
				t.Fatalf("control character in %q", text.String())
			}
		}
	})
}
