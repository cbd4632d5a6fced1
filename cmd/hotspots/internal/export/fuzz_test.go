package export

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

var stacks = regexp.MustCompile(`\A(?:[^;\n]*;[^;\n]*;[^;\n]* [1-9][0-9]*\n)*\z`)

// FuzzExport: whatever is in a table, collapsed stacks have three frames and a number, and
// a Parquet file can be read; or there is an error.
func FuzzExport(f *testing.F) {
	live := tabletest.Demo(f, filepath.Join(f.TempDir(), "a.dynprof"), tabletest.Spec())
	seed, err := os.ReadFile(live.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.ReplaceAll(seed, []byte("demo"), []byte(";\xff\n ")))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := table.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var text, file bytes.Buffer
		folded := NewFolded(&text, Calls, false)
		if folded.Add(tab) == nil && (folded.Close() != nil || !stacks.Match(text.Bytes())) {
			t.Errorf("%q", text.Bytes())
		}
		rows := NewParquet(&file, "host", false)
		if rows.Add(tab) != nil {
			return
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil {
			t.Error(err)
		}
		for _, to := range []func() error{
			func() error { return Callgrind(&text, tab, false) }, func() error { return Pprof(&text, tab, false) },
		} {
			to() // an error is as good
		}
	})
}
