package x86

import (
	"debug/elf"
	"path/filepath"
	"testing"
)

// BenchmarkDecode sweeps the .text section of real programs; ns/inst is the
// figure that start-up time follows. A program that is not there is skipped.
func BenchmarkDecode(b *testing.B) {
	for _, path := range []string{
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libx265.so.199",
		"/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	} {
		b.Run(filepath.Base(path), func(b *testing.B) { benchText(b, path) })
	}
}

func benchText(b *testing.B, path string) {
	f, err := elf.Open(path)
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	var insts, bad int
	for b.Loop() {
		insts, bad = sweep(text)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(insts), "ns/inst")
	b.ReportMetric(float64(insts), "inst")
	b.ReportMetric(float64(bad), "bad")
}

// sweep decodes linearly, one byte on after what is no instruction.
func sweep(text []byte) (insts, bad int) {
	var in Inst
	for i := 0; i < len(text); {
		if Decode(text[i:], &in) != nil {
			bad++
			i++
			continue
		}
		insts++
		i += int(in.Len)
	}
	return insts, bad
}
