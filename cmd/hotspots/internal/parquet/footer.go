package parquet

import "encoding/binary"

// Words of parquet.thrift.
const (
	typeInt32, typeInt64, typeByteArray = 1, 2, 6 // Type

	required, optional = 0, 1 // FieldRepetitionType

	encodingPlain, encodingRLE = 0, 3 // Encoding

	codecGzip = 2 // CompressionCodec

	dataPage = 0 // PageType

	// ConvertedType, for readers that are older than LogicalType.
	convertedUTF8, convertedMicros, convertedUint32, convertedUint64 = 0, 10, 13, 14

	// Fields of LogicalType.
	logicalString, logicalTimestamp, logicalInteger = 1, 8, 10
)

// types are how values of a kind are stored, and what is said of them.
func (k Kind) types() (stored, converted int32, logical *structure) {
	logical = &structure{}
	switch k {
	case Uint32:
		return typeInt32, convertedUint32, logical.in(logicalInteger, (&structure{}).i8(1, 32).boolean(2, false))
	case Uint64:
		return typeInt64, convertedUint64, logical.in(logicalInteger, (&structure{}).i8(1, 64).boolean(2, false))
	case Instant: // in UTC; a unit: MICROS
		return typeInt64, convertedMicros, logical.in(logicalTimestamp, (&structure{}).boolean(1, true).in(2, (&structure{}).in(2, &structure{})))
	}
	return typeByteArray, convertedUTF8, logical.in(logicalString, &structure{})
}

// pageHeader is a PageHeader, of a page with so many rows.
func pageHeader(rows, plain, packed int) []byte {
	data := (&structure{}).i32(1, int32(rows)).i32(2, encodingPlain).i32(3, encodingRLE).i32(4, encodingRLE)
	return (&structure{}).i32(1, dataPage).i32(2, int32(plain)).i32(3, int32(packed)).in(5, data).end()
}

// footer is the FileMetaData.
func (w *Writer) footer() []byte {
	rows := 0
	for _, g := range w.groups {
		rows += g.rows
	}
	s := (&structure{}).i32(1, 2). // version
					list(2, typeStruct, 1+len(w.columns), w.schema).
					i64(3, int64(rows)).
					list(4, typeStruct, len(w.groups), w.group).
					text(6, "hotspots")
	return s.end()
}

// schema appends SchemaElement i: the root, or a column.
func (w *Writer) schema(b []byte, i int) []byte {
	if i == 0 {
		return append(b, (&structure{}).text(4, "schema").i32(5, int32(len(w.columns))).end()...)
	}
	c := &w.columns[i-1]
	repetition := int32(required)
	if c.Optional {
		repetition = optional
	}
	stored, converted, logical := c.Kind.types()
	return append(b, (&structure{}).i32(1, stored).i32(3, repetition).text(4, c.Name).i32(6, converted).in(10, logical).end()...)
}

// group appends RowGroup i.
func (w *Writer) group(b []byte, i int) []byte {
	g := &w.groups[i]
	var plain int64
	for _, c := range g.chunks {
		plain += c.plain
	}
	s := (&structure{}).list(1, typeStruct, len(g.chunks), func(b []byte, k int) []byte { return w.chunk(b, g, k) }).
		i64(2, plain).i64(3, int64(g.rows))
	return append(b, s.end()...)
}

// chunk appends the ColumnChunk of a column.
func (w *Writer) chunk(b []byte, g *group, column int) []byte {
	c, k := &g.chunks[column], &w.columns[column]
	stored, _, _ := k.Kind.types()
	encodings := []int64{encodingPlain, encodingRLE}
	data := (&structure{}).i32(1, stored).
		list(2, typeI32, len(encodings), func(b []byte, i int) []byte { return binary.AppendVarint(b, encodings[i]) }).
		list(3, typeBinary, 1, func(b []byte, _ int) []byte { return appendText(b, k.Name) }).
		i32(4, codecGzip).i64(5, int64(g.rows)).i64(6, c.plain).i64(7, c.size).i64(9, c.at)
	return append(b, (&structure{}).i64(2, c.at).in(3, data).end()...)
}
