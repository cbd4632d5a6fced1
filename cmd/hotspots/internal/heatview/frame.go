package heatview

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/density"
)

// Schema is the version of frames.
const Schema = 2

// head is what a frame of cells begins with.
type head struct {
	Schema  int    `json:"schema"`
	Kind    string `json:"kind"` // cells
	View    uint32 `json:"view"`
	Whole   bool   `json:"whole"`   // nothing of frames before it is shown any more
	Ready   bool   `json:"ready"`   // there is no more to be told now
	Columns int    `json:"columns"` // that there is room for: column c is at c modulo this
	Rows    int    `json:"rows"`    // likewise
	Column  uint64 `json:"column"`  // instructions
	Row     uint64 `json:"row"`     // bytes
	First   uint64 `json:"first"`   // column at the left, counted from the start of the program
	End     uint64 `json:"end"`     // the one behind the last
	Begin   uint64 `json:"begin"`   // the first that this frame has
	N       int    `json:"n"`       // how many
	New     int    `json:"new"`     // rows
	Bytes   int    `json:"bytes"`   // of the cells

	From         uint64 `json:"from"` // addresses of the view
	To           uint64 `json:"to"`
	Mapped       bool   `json:"mapped"`
	Instructions uint64 `json:"instructions"` // executed so far
	Slices       int    `json:"slices"`
	Behind       int64  `json:"behind"` // ms since the last slice was written
}

// Frame is what is to be told next, of some most bytes; nil if nothing is. It has addresses of new
// rows, as eight bytes, a number each (IEEE 754), then cells: of each column how many runs of
// rows it has, then for each of these how many rows are between it and the last, and 128 times its
// length with the density.Cell of each of its rows, as in encoding/binary.Uvarint. Who asks has to send it, or
// to begin anew.
func (g *Grid) Frame(most int) []byte {
	if !g.untold && g.from >= g.to && g.told == len(g.stored) {
		return nil
	}
	h := head{
		Schema: Schema, Kind: "cells", View: g.Number, Whole: g.untold, Columns: g.Columns, Rows: g.Rows, Column: 1 << g.shift, Row: g.source.Granule << g.height,
		First: g.first, End: g.end, Begin: g.from, New: len(g.stored) - g.told,
		From: g.From, To: g.To, Mapped: g.Mapped, Instructions: g.source.Executed, Slices: g.source.File.Count, Behind: time.Since(g.source.Written).Milliseconds(),
	}
	var body []byte
	for _, key := range g.stored[g.told:] {
		body = binary.LittleEndian.AppendUint64(body, math.Float64bits(float64(key*h.Row)))
	}
	rows := len(body)
	for g.from < g.to && len(body) < most {
		body = appendColumn(body, g.column(g.from)[:len(g.stored)])
		g.from++
		h.N++
	}
	h.Bytes = len(body) - rows
	h.Ready = g.from >= g.to
	g.untold, g.told = false, len(g.stored)
	return Join(h, body)
}

// Join is a head and what is behind it, as answers with columns have them: four bytes with the length of
// the head, that, zeros up to a multiple of eight.
func Join(head any, body []byte) []byte {
	text, err := json.Marshal(head)
	if err != nil {
		panic("heatview: BUG: " + err.Error())
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 12+len(text)+len(body)), uint32(len(text)))
	b = append(b, text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return append(b, body...)
}

// appendColumn appends the runs of a column.
func appendColumn(b []byte, cells []density.Cell) []byte {
	count := len(b)
	b = append(b, 0, 0) // how many, of two bytes
	n, end := 0, 0
	for i := 0; i < len(cells); {
		if cells[i] == 0 {
			i++
			continue
		}
		k := i + 1
		for k < len(cells) && cells[k] == cells[i] {
			k++
		}
		b = binary.AppendUvarint(b, uint64(i-end))
		b = binary.AppendUvarint(b, uint64(k-i)<<density.CellBits|uint64(cells[i]))
		n++
		i, end = k, k
	}
	binary.LittleEndian.PutUint16(b[count:], uint16(n))
	return b
}
