package parquet

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// row is what parquet-go reads a row into.
type row struct {
	Name  string    `parquet:"name"`
	Small uint32    `parquet:"small"`
	Large *uint64   `parquet:"large"`
	Note  *string   `parquet:"note"`
	When  time.Time `parquet:"when,timestamp(microsecond)"`
}

var columns = []Column{
	{Name: "name"}, {Name: "small", Kind: Uint32}, {Name: "large", Kind: Uint64, Optional: true},
	{Name: "note", Optional: true}, {Name: "when", Kind: Instant},
}

// TestRead: another's reader finds what was written, in files of no row, of one, and of more
// than one group; largest numbers, empty strings, values that are not there.
func TestRead(t *testing.T) {
	when := time.Date(2026, 11, 25, 1, 2, 3, 4000, time.UTC)
	for _, n := range []int{0, 1, 2, 1000, groupRows, 2*groupRows + 3} {
		var b bytes.Buffer
		w := NewWriter(&b, columns)
		var want []row
		for i := range n {
			r := row{Name: strings.Repeat("né", i%5), Small: ^uint32(i), When: when.Add(time.Duration(i) * time.Microsecond)}
			var large, note any
			if i%7 < 3 {
				v := ^uint64(0) - uint64(i)
				r.Large, large = &v, v
			}
			if i%100 != 1 {
				v := ""
				r.Note, note = &v, v
			}
			if err := w.Row(r.Name, r.Small, large, note, r.When); err != nil {
				t.Fatal(err)
			}
			want = append(want, r)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		const schema = "message schema {\n\trequired binary name (STRING);\n\trequired int32 small (INT(32,false));\n\toptional int64 large (INT(64,false));\n" +
			"\toptional binary note (STRING);\n\trequired int64 when (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS));\n}"
		if got := f.Schema().String(); got != schema {
			t.Errorf("schema %s", got)
		}
		got, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil || len(got) != n {
			t.Fatalf("%d rows: %d, %v", n, len(got), err)
		}
		for i := range got {
			if !same(got[i], want[i]) {
				t.Fatalf("%d rows: row %d is %+v, not %+v", n, i, got[i], want[i])
			}
		}
	}
}

func same(a, b row) bool {
	return a.Name == b.Name && a.Small == b.Small && a.When.Equal(b.When) && (a.Large == nil) == (b.Large == nil) && (a.Note == nil) == (b.Note == nil) &&
		(a.Large == nil || *a.Large == *b.Large) && (a.Note == nil || *a.Note == *b.Note)
}

var errFull = errors.New("full")

// full takes so many bytes.
type full int

func (f *full) Write(b []byte) (int, error) {
	if *f -= full(len(b)); *f < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestFull: what cannot be written is an error, wherever that happens.
func TestFull(t *testing.T) {
	write := func(out io.Writer) error {
		w := NewWriter(out, columns)
		w.Row("a", uint32(1), nil, nil, time.Unix(0, 0))
		return w.Close()
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		room := full(n)
		if err := write(&room); !errors.Is(err, errFull) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// TestLevels pins the encoding of which values are there.
func TestLevels(t *testing.T) {
	for _, r := range []struct {
		levels []bool
		want   string
	}{
		{nil, ""},
		{[]bool{true}, "\x02\x00\x00\x00\x02\x01"},
		{[]bool{false, false, true}, "\x04\x00\x00\x00\x04\x00\x02\x01"},
		{make([]bool, 100), "\x03\x00\x00\x00\xc8\x01\x00"},
	} {
		if got := string(runs(r.levels)); got != r.want {
			t.Errorf("%v: %q", r.levels, got)
		}
	}
}
