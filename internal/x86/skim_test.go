package x86

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// wanted reports whether Others must tell the instruction at offset at.
func (s *Skim) wanted(code []byte, at int, in *Inst) bool {
	last, pc := at+int(in.Len) == s.End, s.Addr+uint64(at)
	if in.UsesGS() || in.Far() || in.OpSizeBranch() {
		return true
	}
	matters := func(addr uint64) bool { return addr-s.Low < s.Size }
	switch in.Kind {
	case Plain:
		if in.RIPRel() {
			lea := in.Map == MapLegacy && in.Op == 0x8d
			return lea || matters(in.RIPTarget(code[at:], pc))
		}
		return s.Absolute && in.ImmSize == 4 && matters(uint64(binary.LittleEndian.Uint32(code[at+int(in.ImmOff):])))
	case Jmp, Jcc:
		to := int(in.BranchTarget(code[at:], pc) - s.Addr)
		return to < s.Quiet || to >= s.End || last && in.Kind == Jmp
	case Ret:
		return last
	case Nop, Call:
		return false
	}
	return true
}

// checkSkim goes over code by Next, and by Decode.
func checkSkim(t *testing.T, s *Skim, code []byte, from int) (next int) {
	t.Helper()
	next = s.Next(code, from)
	var calls []uint64
	others := s.Others()
	var in Inst
	at := from
	for ; at < next; at += int(in.Len) {
		if err := Decode(code[at:min(s.End, len(code))], &in); err != nil {
			t.Fatalf("%x % x: skimmed, but %v", at, code[at:min(at+16, len(code))], err)
		}
		switch told := len(others) > 0 && others[0] == at; {
		case told:
			others = others[1:]
		case s.wanted(code, at, &in):
			t.Fatalf("%x % x: skimmed over", at, code[at:at+int(in.Len)])
		case in.Kind == Call:
			calls = append(calls, in.BranchTarget(code[at:], s.Addr+uint64(at)))
		}
	}
	if at != next || len(others) > 0 {
		t.Fatalf("%x % x: it ends at %x, not at %x; others at %x", from, code[from:min(from+16, len(code))], at, next, others)
	}
	if !slices.Equal(s.Calls(), calls) {
		t.Fatalf("%x % x: calls %x, want %x", from, code[from:min(from+16, len(code))], s.Calls(), calls)
	}
	return next
}

// TestSkim skims real programs, and code that starts anywhere in them.
func TestSkim(t *testing.T) {
	for path := range libraries {
		f, err := elf.Open(path)
		if err != nil {
			t.Logf("not skimmed: %v", err)
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			defer f.Close()
			section := f.Section(".text")
			text, err := section.Data()
			if err != nil {
				t.Fatal(err)
			}
			text = text[:min(len(text), 1<<20)]
			s := &Skim{Low: section.Addr, Size: section.Size}
			skimmed := 0
			for size := 5; size < 300; size += 7 {
				s.Absolute = !s.Absolute
				for base := 0; base+size < len(text); base += 4*size + 1 {
					s.Addr, s.Quiet, s.End = section.Addr+uint64(base), 5, size
					for at := 0; at < size; at++ {
						next := checkSkim(t, s, text[base:], at)
						skimmed += next - at
						at = max(at, next)
					}
				}
			}
			if skimmed < len(text) {
				t.Errorf("only %d bytes skimmed over", skimmed)
			}
		})
	}
	if _, err := os.Stat("/lib/x86_64-linux-gnu/libc.so.6"); err != nil {
		t.Error("no program to skim")
	}
}

// FuzzSkim skims code of which only the first bytes are the function's.
func FuzzSkim(f *testing.F) {
	for _, rows := range [][]layoutRow{legacyRows, branchRows, prefixRows, twoByteRows, vexRows, evexRows, xopRows} {
		var code []byte
		for _, row := range rows {
			code = append(code, rowBytes(row.hex)...)
		}
		f.Add(code, uint8(3), uint8(200), true)
		f.Add(code, uint8(200), uint8(5), false)
	}
	f.Fuzz(func(t *testing.T, code []byte, quiet, behind uint8, absolute bool) {
		s := &Skim{Addr: 0x1000, Size: 0x80001000, Absolute: absolute}
		s.End = max(len(code)-int(behind), 0)
		s.Quiet = min(int(quiet), s.End)
		for at := 0; at < s.End; {
			at = max(checkSkim(t, s, code, at), at+1)
		}
	})
}

// TestSkimAtEnd: no byte is read behind the end of code, wherever that is.
func TestSkimAtEnd(t *testing.T) {
	whole := []byte{0x90, 0x90, 0xeb, 0x20, 0x69, 0xc0, 1, 2, 3, 4, 0x6b, 0xc0, 7, 0x48, 0x83, 0x44, 0x24, 8, 1, 0x48, 0x81, 0x05, 1, 0, 0, 0, 1, 2, 3, 4, 0x74, 2, 0x80, 0x3d, 1, 0, 0, 0, 5, 0xeb, 1, 0xc3, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x73, 0x10, 0xe2, 0xe2}
	whole = append(whole, "X\xeb i\xc0\xc0\xc0\xc0\xc0\xc0\xc0\xc0DDDDDDDDDDDDDDDDDDDDDsi\xe2\xe2"...)
	for n := range len(whole) + 1 {
		code := slices.Clone(whole[:n])[:n:n]
		s := Skim{Addr: 0x1000, End: n, Low: 0x1000, Size: 0x100}
		for at := 0; at < n; {
			end := s.Next(code, at)
			if end == at {
				end++
			}
			at = end
		}
	}
}
