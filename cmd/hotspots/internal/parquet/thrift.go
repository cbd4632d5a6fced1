package parquet

import "encoding/binary"

// The compact protocol of Thrift (thrift/doc/specs/thrift-compact-protocol.md): a field is a
// byte with its distance from the field before and its type, and its value; a structure ends
// with 0.

const (
	typeTrue, typeFalse, typeByte = 1, 2, 3
	typeI32, typeI64, typeBinary  = 5, 6, 8
	typeList, typeStruct          = 9, 12
)

// structure is one that is being encoded.
type structure struct {
	b    []byte
	last int // number of its last field
}

func (s *structure) field(number, kind int) {
	s.b = append(s.b, byte((number-s.last)<<4|kind)) // no structure here skips more than 15
	s.last = number
}

func (s *structure) i32(number int, v int32) *structure {
	s.field(number, typeI32)
	s.b = binary.AppendVarint(s.b, int64(v))
	return s
}

func (s *structure) i64(number int, v int64) *structure {
	s.field(number, typeI64)
	s.b = binary.AppendVarint(s.b, v)
	return s
}

func (s *structure) i8(number int, v int8) *structure {
	s.field(number, typeByte)
	s.b = append(s.b, byte(v))
	return s
}

func (s *structure) boolean(number int, v bool) *structure {
	if v {
		s.field(number, typeTrue)
	} else {
		s.field(number, typeFalse)
	}
	return s
}

func (s *structure) text(number int, v string) *structure {
	s.field(number, typeBinary)
	s.b = appendText(s.b, v)
	return s
}

func (s *structure) in(number int, v *structure) *structure {
	s.field(number, typeStruct)
	s.b = append(s.b, v.end()...)
	return s
}

// list adds a list of n elements of a type; element appends one.
func (s *structure) list(number, kind, n int, element func(b []byte, i int) []byte) *structure {
	const short = 15
	s.field(number, typeList)
	if n < short {
		s.b = append(s.b, byte(n<<4|kind))
	} else {
		s.b = binary.AppendUvarint(append(s.b, byte(short<<4|kind)), uint64(n))
	}
	for i := range n {
		s.b = element(s.b, i)
	}
	return s
}

func (s *structure) end() []byte { return append(s.b, 0) }

func appendText(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}
