package plancache

import (
	"bytes"
	"math"
	"os"
	"testing"
)

func TestTimesTell(t *testing.T) {
	for _, row := range []struct {
		mtime, ctime uint64
		tell         bool
	}{
		{1_700_000_000_000_000_000, 1_700_000_000_123_456_789, true},
		{1_700_000_000_123_456_789, 1_700_000_000_123_456_789, false},
		{1_700_000_000_123_456_789, 1_700_000_001_000_000_000, false},
		{0, 0, false},
	} {
		if got := TimesTell(row.mtime, row.ctime); got != row.tell {
			t.Errorf("%d, %d: %t", row.mtime, row.ctime, got)
		}
	}
}

// elf is a file with those program headers, each {type, offset, size}, behind the header.
func elf(size int, segments ...[3]uint64) []byte {
	b := make([]byte, size)
	le.PutUint64(b[elfPhoff:], elfHeader)
	le.PutUint16(b[elfPhentry:], phSize)
	le.PutUint16(b[elfPhnum:], uint16(len(segments)))
	for i, s := range segments {
		ph := b[elfHeader+i*phSize:]
		le.PutUint32(ph, uint32(s[0]))
		le.PutUint64(ph[phOffset:], s[1])
		le.PutUint64(ph[phFilesz:], s[2])
	}
	return b
}

func TestContentOf(t *testing.T) {
	const size = 400_000
	whole := elf(size, [3]uint64{ptLoad, 0, 200_000}, [3]uint64{2, 300_000, 10}, [3]uint64{ptLoad, 200_003, 90_000})
	sum := func(b []byte) uint64 {
		s, err := ContentOf(bytes.NewReader(b), uint64(len(b)))
		if err != nil || s == 0 {
			t.Fatal(s, err)
		}
		return s
	}
	want := sum(whole)
	for at := range size {
		if at >= elfHeader && at < 1000 || at < elfHeader && at > 6 || at%997 != 0 && at != 199_999 && at != 200_003 && at != 290_002 {
			continue
		}
		loaded := at < 200_000 || at >= 200_003 && at < 290_003
		whole[at]++
		if got := sum(whole); (got != want) != loaded {
			t.Errorf("byte %d changed: %x, it was %x", at, got, want)
		}
		whole[at]--
	}
	if s := sum(elf(elfHeader)); s != fnvBegin {
		t.Errorf("no program headers: %x", s)
	}
}

func TestContentOfHostile(t *testing.T) {
	const size = 1000
	longEntry := elf(size, [3]uint64{ptLoad, 0, 10})
	longEntry[elfPhentry]++
	far := elf(size, [3]uint64{ptLoad, 0, 10})
	le.PutUint64(far[elfPhoff:], math.MaxUint64-8)
	for name, b := range map[string][]byte{
		"empty":                  nil,
		"short":                  make([]byte, elfHeader-1),
		"another entry size":     longEntry,
		"headers beyond the end": far,
		"a segment that is":      elf(size, [3]uint64{ptLoad, size - 1, 2}),
		"one far away":           elf(size, [3]uint64{ptLoad, math.MaxUint64, 2}),
		"too long":               elf(size, [3]uint64{ptLoad, 0, math.MaxUint64}),
		"too long together":      elf(size, [3]uint64{ptLoad, 0, size - 1}, [3]uint64{ptLoad, 0, 2}),
	} {
		if s, err := ContentOf(bytes.NewReader(b), uint64(len(b))); err == nil {
			t.Errorf("%s: %x", name, s)
		}
	}
}

func BenchmarkContentOf(b *testing.B) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	fi, _ := f.Stat()
	for b.Loop() {
		ContentOf(f, uint64(fi.Size()))
	}
	b.SetBytes(fi.Size())
}
