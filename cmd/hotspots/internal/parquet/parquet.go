// Package parquet writes Apache Parquet files (github.com/apache/parquet-format, version
// 2.10): a flat list of columns, values PLAIN, pages compressed by gzip, as every reader has
// it. A library for it would be half of hotspots' size again, or more.
package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Kind is what the values of a column are.
type Kind uint8

// Kinds, with the Go types that Writer.Row takes for them.
const (
	String  Kind = iota // string, UTF-8
	Uint32              // uint32
	Uint64              // uint64
	Instant             // time.Time, in microseconds
)

// Column is one of a file. Where it is Optional a row may have nil in it.
type Column struct {
	Name     string
	Kind     Kind
	Optional bool
}

const magic = "PAR1"

// So many rows, or bytes of a column, are in memory until they are written.
const (
	groupRows  = 1 << 16
	groupBytes = 64 << 20
)

// Writer writes a file. Close it after the last row.
type Writer struct {
	out     io.Writer
	at      int64 // bytes written
	err     error // the first
	columns []Column
	pages   []page // of each column, of the group that is being filled
	rows    int    // in it
	groups  []group
}

// page is the values of a column that are not written yet.
type page struct {
	values []byte // PLAIN, without those that are nil
	levels []bool // of an optional column: whether a row has a value
}

// group is what the file's end says of rows that have been written.
type group struct {
	rows   int
	chunks []chunk
}

// chunk is where a column of a group is. Sizes have the page's header in them.
type chunk struct{ at, size, plain int64 }

// NewWriter begins a file with these columns.
func NewWriter(w io.Writer, columns []Column) *Writer {
	f := &Writer{out: w, columns: columns, pages: make([]page, len(columns))}
	f.write([]byte(magic))
	return f
}

// write keeps the first error, until Close.
func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.at, w.err = w.at+int64(n), err
}

// Row adds a row: a value for each column. The error is that of writing.
func (w *Writer) Row(values ...any) error {
	if len(values) != len(w.columns) {
		panic(fmt.Sprintf("BUG: %d values for %d columns", len(values), len(w.columns)))
	}
	full := false
	for i, v := range values {
		w.pages[i].add(&w.columns[i], v)
		full = full || len(w.pages[i].values) >= groupBytes
	}
	if w.rows++; full || w.rows == groupRows {
		w.flush()
	}
	return w.err
}

// add adds a value; nil is none.
func (p *page) add(c *Column, v any) {
	if c.Optional {
		p.levels = append(p.levels, v != nil)
	}
	le := binary.LittleEndian
	switch v := v.(type) {
	case string:
		c.want(String)
		p.values = append(le.AppendUint32(p.values, uint32(len(v))), v...)
	case uint32:
		c.want(Uint32)
		p.values = le.AppendUint32(p.values, v)
	case uint64:
		c.want(Uint64)
		p.values = le.AppendUint64(p.values, v)
	case time.Time:
		c.want(Instant)
		p.values = le.AppendUint64(p.values, uint64(v.UnixMicro()))
	case nil:
		if !c.Optional {
			panic("BUG: column " + c.Name + " is not optional")
		}
	default:
		panic(fmt.Sprintf("BUG: %T in column %s", v, c.Name))
	}
}

func (c *Column) want(k Kind) {
	if c.Kind != k {
		panic("BUG: column " + c.Name + " has another type")
	}
}

// flush writes the rows that are in memory as a group.
func (w *Writer) flush() {
	if w.rows == 0 {
		return
	}
	g := group{rows: w.rows}
	for i := range w.pages {
		g.chunks = append(g.chunks, w.page(&w.pages[i]))
		w.pages[i] = page{values: w.pages[i].values[:0], levels: w.pages[i].levels[:0]}
	}
	w.groups, w.rows = append(w.groups, g), 0
}

// page writes a column of a group, which is one page.
func (w *Writer) page(p *page) chunk {
	plain := append(runs(p.levels), p.values...)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(plain) // into memory: there is no error
	z.Close()
	header := pageHeader(w.rows, len(plain), packed.Len())
	at := w.at
	w.write(header)
	w.write(packed.Bytes())
	return chunk{at, w.at - at, int64(len(header) + len(plain))}
}

// runs are definition levels, the hybrid encoding of numbers of one bit: for each run of
// rows that are alike its length, doubled, and a byte. All of it with its length in front.
func runs(levels []bool) []byte {
	if len(levels) == 0 {
		return nil
	}
	b := make([]byte, 4)
	for i := 0; i < len(levels); {
		first := i
		for i < len(levels) && levels[i] == levels[first] {
			i++
		}
		level := byte(0)
		if levels[first] {
			level = 1
		}
		b = append(binary.AppendUvarint(b, uint64(i-first)<<1), level)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Close writes what the file ends with. It does not close what it writes to.
func (w *Writer) Close() error {
	w.flush()
	end := w.footer()
	w.write(end)
	w.write(binary.LittleEndian.AppendUint32(nil, uint32(len(end))))
	w.write([]byte(magic))
	return w.err
}
