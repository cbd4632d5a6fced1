package debugfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Bounds of what is unpacked. The largest dictionary is that of xz -9.
const (
	maxDictionary = 64 << 20
	maxUnpacked   = 128 << 20
)

var errXZ = errors.New("damaged xz data")

// unpack unpacks an .xz stream of LZMA2. The container is read here, since the xz package
// takes a dictionary as large as each block's header says, 4 GB for a file of 100 bytes.
// https://tukaani.org/xz/xz-file-format.txt
func unpack(packed []byte) ([]byte, error) {
	const header = 12
	if len(packed) < header || string(packed[:6]) != "\xfd7zXZ\x00" {
		return nil, errXZ
	}
	var out bytes.Buffer
	check := packed[7] & 0xf
	rest := packed[header:]
	for len(rest) > 0 && rest[0] != 0 { // the index begins with a zero
		n, err := unpackBlock(&out, rest, check)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	if len(rest) == 0 {
		return nil, errXZ
	}
	return out.Bytes(), nil
}

// unpackBlock unpacks the block that rest begins with, and returns its length.
func unpackBlock(out *bytes.Buffer, rest []byte, check byte) (int, error) {
	head, dictionary, err := blockHeader(rest)
	if err != nil {
		return 0, err
	}
	in := bytes.NewReader(rest[head:])
	r, err := lzma.Reader2Config{DictCap: dictionary}.NewReader2(in)
	if err != nil {
		return 0, fmt.Errorf("%w: %v", errXZ, err)
	}
	start := out.Len()
	if _, err := io.Copy(out, io.LimitReader(r, int64(maxUnpacked-start)+1)); err != nil {
		return 0, fmt.Errorf("%w: %v", errXZ, err)
	}
	if out.Len() > maxUnpacked {
		return 0, fmt.Errorf("xz data of more than %d MB", maxUnpacked>>20)
	}
	end := (len(rest) - in.Len() + 3) &^ 3
	size := checkSizes[check]
	if end+size > len(rest) {
		return 0, errXZ
	}
	var wrong uint64
	switch got := out.Bytes()[start:]; check {
	case checkCRC32:
		wrong = uint64(crc32.ChecksumIEEE(got)) ^ uint64(le.Uint32(rest[end:]))
	case checkCRC64:
		wrong = crc64(got) ^ le.Uint64(rest[end:])
	}
	if wrong != 0 {
		return 0, fmt.Errorf("%w: a wrong check sum", errXZ)
	}
	return end + size, nil
}

// Check sums behind blocks; others than these are not looked at.
const (
	checkCRC32 = 1
	checkCRC64 = 4
)

var checkSizes = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// crc64 is the sum of ECMA-182, its bits reversed. (hash/crc64 would make its tables at each
// start of hotspots.)
func crc64(b []byte) uint64 {
	const polynomial = 0xc96c5795d7870f42
	var table [256]uint64
	for i := range table {
		c := uint64(i)
		for range 8 {
			c = c>>1 ^ polynomial&-(c&1)
		}
		table[i] = c
	}
	c := ^uint64(0)
	for _, x := range b {
		c = table[byte(c)^x] ^ c>>8
	}
	return ^c
}

// blockHeader reads {u8 size; u8 flags; sizes, if flags say so; one filter: id, size of its
// properties, dictionary; zeros; u32 CRC}.
func blockHeader(b []byte) (size, dictionary int, err error) {
	size = (int(b[0]) + 1) * 4
	if len(b) < size || crc32.ChecksumIEEE(b[:size-4]) != le.Uint32(b[size-4:]) {
		return 0, 0, errXZ
	}
	flags, in := b[1], bytes.NewReader(b[2:size-4])
	number := func() (n uint64) {
		if err == nil {
			n, err = binary.ReadUvarint(in)
		}
		return n
	}
	const filters, packedSize, unpackedSize, lzma2 = 0x3, 0x40, 0x80, 0x21
	for _, flag := range []byte{packedSize, unpackedSize} {
		if flags&flag != 0 {
			number()
		}
	}
	id, properties, bits := number(), number(), number()
	if err != nil || flags&filters != 0 || id != lzma2 || properties != 1 || bits > 40 {
		return 0, 0, fmt.Errorf("%w, or not LZMA2 alone", errXZ)
	}
	dictionary = int(2|bits&1) << (bits/2 + 11)
	if dictionary > maxDictionary {
		return 0, 0, fmt.Errorf("xz data with a dictionary of more than %d MB", maxDictionary>>20)
	}
	return size, max(dictionary, lzma.MinDictCap), nil
}
