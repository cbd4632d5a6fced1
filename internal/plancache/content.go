package plancache

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"
)

// TimesTell reports whether a file's times, in ns, tell it from others of its inode number
// and size. A change sets ctime, and nobody else can. But images of file systems (squashfs,
// EROFS, ISO 9660) have for it what the image's maker said, the file's mtime or a
// time of all files; and where whole seconds are counted two changes have the same.
func TimesTell(mtime, ctime uint64) bool { return ctime != mtime && ctime%1e9 != 0 }

// errNoContent is why there is no sum of a file.
var errNoContent = errors.New("its program headers are not those of an ELF file")

// What ContentOf reads of an ELF file (elf(5)).
const (
	elfHeader   = 64
	elfPhoff    = 32
	elfPhentry  = 54
	elfPhnum    = 56
	phSize      = 56
	phOffset    = 8
	phFilesz    = 32
	ptLoad      = 1
	contentStep = 64 << 10
)

// ContentOf is a sum of what is loaded of an ELF file of that size: the FNV-1a of each
// program header and, behind one that is loaded, of the XXH64 of each 64 KB. It is never 0.
// Errors: what reading says; the file is no such.
func ContentOf(r io.ReaderAt, size uint64) (uint64, error) {
	var header [elfHeader]byte
	if _, err := r.ReadAt(header[:], 0); err != nil {
		return 0, err
	}
	if le.Uint16(header[elfPhentry:]) != phSize {
		return 0, errNoContent
	}
	sum, at := fnvBegin, le.Uint64(header[elfPhoff:])
	step := make([]byte, contentStep)
	for range le.Uint16(header[elfPhnum:]) {
		var ph [phSize]byte
		if _, err := r.ReadAt(ph[:], int64(at)); err != nil {
			return 0, err
		}
		at += phSize
		sum = fnv(sum, ph[:])
		if le.Uint32(ph[:]) != ptLoad {
			continue
		}
		from, n := le.Uint64(ph[phOffset:]), le.Uint64(ph[phFilesz:])
		if n > size { // all of them are not longer than the file
			return 0, errNoContent
		}
		for size -= n; n > 0; {
			b := step[:min(n, contentStep)]
			if _, err := r.ReadAt(b, int64(from)); err != nil {
				return 0, err
			}
			sum = fnv(sum, binary.LittleEndian.AppendUint64(nil, xxhash.Sum64(b)))
			from, n = from+uint64(len(b)), n-uint64(len(b))
		}
	}
	return max(sum, 1), nil
}

const fnvBegin = uint64(0xcbf29ce484222325)

// fnv is the FNV-1a, 64 bits, of what sum is of and b behind it.
func fnv(sum uint64, b []byte) uint64 {
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 0x100000001b3
	}
	return sum
}
