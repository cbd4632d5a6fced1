package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// FuzzView: whatever is in a table, it is refused, or shown without what a terminal would
// take for more than text.
func FuzzView(f *testing.F) {
	live := tabletest.Demo(f, filepath.Join(f.TempDir(), "a.dynprof"), tabletest.Spec())
	live.Close()
	image, err := os.ReadFile(live.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0x1000, []byte("\x1b[2J\x00"))
	f.Add(0x130, []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, at int, change []byte) {
		b := append([]byte(nil), image...)
		if at < 0 || at >= len(b) {
			return
		}
		copy(b[at:], change)
		path := filepath.Join(t.TempDir(), "b.dynprof")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Open(path, false, nil, nil)
		if err != nil {
			return
		}
		defer p.Close()
		m := top.New(top.Options{Interval: time.Second, Sort: "rate", By: "function"})
		m.Resize(120, 40)
		for _, group := range "ftof" {
			m.Frame(p.Read(false))
			m.Key(cells.Event{Key: cells.Rune, Rune: group})
			for _, key := range []cells.Key{cells.Down, cells.Enter, cells.Escape} {
				m.Key(cells.Event{Key: key})
				text := m.View().Text()
				if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
					t.Fatalf("%q", text[max(0, i-20):i+1])
				}
			}
		}
	})
}
