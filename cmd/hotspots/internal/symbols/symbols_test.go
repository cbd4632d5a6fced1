package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// core makes one with a page of code at 0x10000, whose two stubs stand for code that
// is in no file, and the page that tells of it.
func core() []byte {
	const code, list, page = 0x10000, 0x20000, 4096
	le := binary.LittleEndian
	told := emit.AppendArenaList(nil, []emit.ArenaRef{
		{At: code, Size: page, Cold: code + 0x800, Records: list + 128, Lengths: list + 160, Count: 2, LengthsSize: 4},
	})
	told = append(told, make([]byte, 128-len(told))...)
	for i := range 2 {
		told = le.AppendUint32(told, uint32(0x100*(i+1))) // at
		told = le.AppendUint32(told, uint32(0x5000+i))    // from
		told = le.AppendUint32(told, uint32(2*i))         // lengths
		told = append(told, 1, 0, 9, 0)
	}
	told = append(told, 4, 7, 5|0x80, 21)
	told = append(told, make([]byte, page-len(told))...)
	h := elf.Header64{Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	b, _ := binary.Append(nil, le, &h)
	for i, at := range []uint64{code, list} {
		b, _ = binary.Append(b, le, &elf.Prog64{Type: uint32(elf.PT_LOAD), Off: uint64(page * (i + 1)), Vaddr: at, Filesz: page, Memsz: page})
	}
	b = append(b, make([]byte, 2*page-len(b))...)
	return append(b, told...)
}

func write(t *testing.T, core []byte) ([]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, core, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err := Write(&out, path)
	return out.Bytes(), err
}

// TestWrite: each stub has a symbol, up to the next.
func TestWrite(t *testing.T) {
	out, err := write(t, core())
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil || len(symbols) != 2 {
		t.Fatalf("%v, %v", symbols, err)
	}
	for i, want := range []elf.Symbol{{Name: "code at 0x15000", Value: 0x10100, Size: 0x100}, {Name: "code at 0x15001", Value: 0x10200, Size: 0x600}} {
		if s := symbols[i]; s.Name != want.Name || s.Value != want.Value || s.Size != want.Size {
			t.Errorf("%+v, not %+v", s, want)
		}
	}
}

// TestDamaged: whatever a core says, there is a file or an error.
func TestDamaged(t *testing.T) {
	whole := core()
	for at := 0; at < len(whole); at += 8 {
		if at > 200 && at < 8192 || at > 8192+256 {
			continue
		}
		for _, v := range []uint64{0, 1 << 31, 1 << 47, 1<<64 - 1} {
			b := bytes.Clone(whole)
			binary.LittleEndian.PutUint64(b[at:], v)
			if out, err := write(t, b); err == nil && len(out) == 0 {
				t.Errorf("%#x at %d: neither", v, at)
			}
		}
	}
	for n := range 130 {
		write(t, whole[:n*64])
	}
}

func rule(at, depth uint64, ops ...byte) elfscan.Rule {
	return elfscan.Rule{Addr: at, Depth: depth, Ops: ops}
}

// TestInstructions: what holds at an instruction holds at its copy, and the stack of
// a call's copy is lower in between.
func TestInstructions(t *testing.T) {
	s := stub{Moved: emit.Moved{At: 0x100, From: 0x5000, Count: 9, Originals: []int{1, 5}, Copies: []int{1, 21}, Calls: []bool{false, true}}, end: 0x200}
	s.rules = append(s.rules, rule(0x5000, 8, 0x0c, 7, 8, 0x90, 1), rule(0x5001, 16, 0x0e, 16), rule(0x5006, 8, 0x0e, 8))
	want := []byte{0x0c, 7, 8, 0x90, 1, 0x40 | 10, 0x0e, 16, 0x40 | 6, 0x0e, 24, 0x40 | 5, 0x0e, 16, 0x40 | 5, 0x0e, 24, 0x40 | 5, 0x0e, 8}
	if got := s.instructions(); !bytes.Equal(got, want) {
		t.Errorf("%x, not %x", got, want)
	}
}
