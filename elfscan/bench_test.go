package elfscan

import (
	"path/filepath"
	"testing"
)

// BenchmarkScan scans real files from the page cache. A scan in a new process
// takes longer by the first touch of its memory (B/op).
func BenchmarkScan(b *testing.B) {
	for _, path := range realFiles {
		b.Run(filepath.Base(path), func(b *testing.B) {
			m := realImage(b, path)
			b.ReportAllocs()
			entries := 0
			for b.Loop() {
				o, err := Scan(m.r, m.size)
				if err != nil {
					b.Fatal(err)
				}
				entries = len(o.Functions)
			}
			b.ReportMetric(float64(entries), "entries")
		})
	}
}

// BenchmarkSort sorts the FDEs of a large program, as they stand in the file.
func BenchmarkSort(b *testing.B) {
	m := realImage(b, "/usr/lib/gcc/x86_64-linux-gnu/12/cc1")
	f, err := open(m.r, m.size)
	if err != nil {
		b.Fatal(err)
	}
	hdr, err := f.frameHeader()
	if err != nil {
		b.Fatal(err)
	}
	off, size, addr, _ := f.ehFrame(hdr)
	w := frameWalk{file: f, bounded: true}
	if err := w.walk(off, size, addr); err != nil {
		b.Fatal(err)
	}
	list := make([]frame, len(w.list))
	for b.Loop() {
		copy(list, w.list)
		sortByKey(list, (*frame).key)
	}
}
