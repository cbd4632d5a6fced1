// Command lazyrela takes the relocations of what is only Go's from the dynamic linker, in
// libdynprof.so as it is linked: 18,000 of them, which write to a hundred pages of each
// program, and all but the twin do without. They stay where they are, behind those that the
// dynamic linker makes, and section .dp_lazy says so to whoever starts Go
// (libdynprof/twin.c).
//
//	go run ./internal/lazyrela build/libdynprof.so
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lazyrela FILE")
		os.Exit(2)
	}
	n, err := edit(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "lazyrela: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Printf("lazyrela: %s: %d relocations are left to the twin\n", os.Args[1], n)
}

var le = binary.LittleEndian

// edit edits the file, and returns how many relocations the dynamic linker has less.
func edit(path string) (n int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	old := bytes.Clone(b)
	if n, err = divide(b); err != nil || bytes.Equal(b, old) {
		return n, err
	}
	return n, os.WriteFile(path, b, 0o755)
}

// golang are the sections of which all is Go's.
var golang = []string{".go.relro", ".go.data", ".go.module", ".go.fipsinfo", ".noptrdata"}

const (
	entry    = 24 // of Elf64_Rela
	dynEntry = 16
)

// divide sorts the relocations of an ELF file, and tells the dynamic linker of the first
// only.
func divide(b []byte) (lazy int, err error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	rela, note, dynamic := f.Section(".rela.dyn"), f.Section(".dp_lazy"), f.Section(".dynamic")
	var owned []*elf.Section
	for _, name := range golang {
		if s := f.Section(name); s != nil && s.Size > 0 {
			owned = append(owned, s)
		}
	}
	switch {
	case rela == nil || note == nil || dynamic == nil || note.Size != 16:
		return 0, fmt.Errorf("it has no .rela.dyn, no .dynamic, or no .dp_lazy of 16 bytes")
	case len(owned) != len(golang):
		return 0, fmt.Errorf("this Go toolchain names its sections otherwise (libdynprof/goinit.ld)")
	case le.Uint64(b[note.Offset:]) != 0: // the linker had nothing to do
		return int(le.Uint64(b[note.Offset+8:])), nil
	}
	isLazy := func(r []byte) bool {
		at, kind := le.Uint64(r), elf.R_X86_64(le.Uint32(r[8:]))
		return kind == elf.R_X86_64_RELATIVE && slices.ContainsFunc(owned, func(s *elf.Section) bool { return at >= s.Addr && at < s.Addr+s.Size })
	}
	all := b[rela.Offset:][:rela.Size]
	var eager, late []byte
	relative := uint64(0)
	for r := all; len(r) >= entry; r = r[entry:] {
		if isLazy(r) {
			late = append(late, r[:entry]...)
			continue
		}
		eager = append(eager, r[:entry]...)
		if elf.R_X86_64(le.Uint32(r[8:])) == elf.R_X86_64_RELATIVE {
			relative++
		}
	}
	copy(all, eager)
	copy(all[len(eager):], late)
	le.PutUint64(b[note.Offset:], rela.Addr+uint64(len(eager)))
	le.PutUint64(b[note.Offset+8:], uint64(len(late)/entry))
	for d := b[dynamic.Offset:][:dynamic.Size]; len(d) >= dynEntry; d = d[dynEntry:] {
		switch elf.DynTag(le.Uint64(d)) {
		case elf.DT_RELASZ:
			le.PutUint64(d[8:], uint64(len(eager)))
		case elf.DT_RELACOUNT: // they are the first, as the linker has sorted them
			le.PutUint64(d[8:], relative)
		}
	}
	return len(late) / entry, nil
}
