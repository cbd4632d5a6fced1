package beside

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// castagnoli takes long to make.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// SumSize is the size in bytes of what a part ends with.
const SumSize = crc32.Size

// AppendPart is a part of a file that is written bit by bit, behind others: what it is, the
// length of what it holds (uvarint), that, and a sum of it all, by which one that is not complete
// is known.
func AppendPart(to []byte, kind byte, body []byte) []byte {
	begin := len(to)
	to = append(to, kind)
	to = binary.AppendUvarint(to, uint64(len(body)))
	to = append(to, body...)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[begin:], castagnoli()))
}

// Part is the same, of what a buffer holds behind so many bytes, room for the head and more; the
// buffer is that of the part then.
func Part(buf []byte, room int, kind byte) []byte {
	var head [1 + binary.MaxVarintLen64]byte
	n := 1 + binary.PutUvarint(head[1:], uint64(len(buf)-room))
	head[0] = kind
	part := buf[room-n:]
	copy(part, head[:n])
	return binary.LittleEndian.AppendUint32(part, crc32.Checksum(part, castagnoli()))
}

// IsWhole reports whether a part has the sum that it ends with. It has SumSize bytes at least.
func IsWhole(part []byte) bool {
	sum := len(part) - SumSize
	return binary.LittleEndian.Uint32(part[sum:]) == crc32.Checksum(part[:sum], castagnoli())
}
