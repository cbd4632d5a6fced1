package web

import (
	"encoding/binary"
	"encoding/json"
)

// columns writes counts for a browser, which has no integers above 2^53 in JSON: four bytes
// with the length of a head, the head in JSON, zeros up to a multiple of eight, the counts,
// eight bytes each, and the numbers of their functions, four bytes each. The head says in "n"
// how many. All are little-endian, as every browser's arrays are.
func columns(head map[string]any, functions []uint32, counts []uint64) ([]byte, error) {
	head["schema"], head["n"] = Schema, len(functions)
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	const word = 8
	start := (4 + len(text) + word - 1) / word * word
	b := make([]byte, start, start+12*len(functions))
	binary.LittleEndian.PutUint32(b, uint32(len(text)))
	copy(b[4:], text)
	for _, n := range counts {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, i := range functions {
		b = binary.LittleEndian.AppendUint32(b, i)
	}
	return b, nil
}
