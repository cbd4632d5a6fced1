package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"

	"github.com/dynprof/dynprof/patcher/target/remote"
)

// A static program of glibc has the dynamic linker's code in itself, and loads libraries by it as
// any other does: it changes a list, and calls a function that debuggers stop at. No dynamic
// section leads there; its symbols do, if they were not stripped. The list is there when the
// first library comes.

// ownLinkerNames are what of it must be there: so it is glibc's.
var ownLinkerNames = []string{"_r_debug", "_dl_debug_state", "_dl_debug_initialize", "_dl_main_map"}

// ownLinker is where a static program has its list (struct r_debug), and the function; 0: it has
// none that is known.
func ownLinker(exe string) (list, hook uint64) {
	f, err := elf.Open(exe)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	table := f.SectionByType(elf.SHT_SYMTAB)
	if table == nil || int(table.Link) >= len(f.Sections) {
		return 0, 0
	}
	names, err := f.Sections[table.Link].Data()
	if err != nil || slices.ContainsFunc(ownLinkerNames, func(name string) bool { return !bytes.Contains(names, []byte(name+"\x00")) }) {
		return 0, 0
	}
	symbols, err := f.Symbols()
	if err != nil {
		return 0, 0
	}
	for _, s := range symbols {
		switch kind := elf.ST_TYPE(s.Info); {
		case s.Name == ownLinkerNames[0] && kind == elf.STT_OBJECT && s.Size >= rDebugSize:
			list = s.Value
		case s.Name == ownLinkerNames[1] && kind == elf.STT_FUNC:
			hook = s.Value
		}
	}
	if list == 0 || hook == 0 {
		return 0, 0
	}
	return list, hook
}

const rDebugSize = 40 // r_version, r_map, r_brk, r_state, r_ldbase

// findOwnLinker has a static program's own dynamic linker tell of what it loads.
func (p *prepared) findOwnLinker() error {
	l := p.linker
	if !l.Static || p.isGo {
		return nil
	}
	list, hook := ownLinker(p.process.Thread() + "/exe")
	if list == 0 {
		return nil
	}
	list, hook = list+l.Objects[0].Bias, hook+l.Objects[0].Bias
	b := make([]byte, rDebugSize)
	if _, err := p.process.Memory.ReadAt(b, int64(list)); err != nil {
		return nil
	}
	le := binary.LittleEndian
	const newest = 2
	if brk := le.Uint64(b[16:]); brk != 0 && brk != hook || le.Uint32(b) > newest {
		return nil // it is another's
	}
	l.RDebug, l.Hook = list, hook
	return atRest(p.process.Memory, l)
}

// atRest is an error if a static program's own list changes just now.
func atRest(memory io.ReaderAt, l *remote.Linker) error {
	const state = 24 // RT_CONSISTENT is 0
	b := make([]byte, 4)
	if !l.Static || l.RDebug == 0 {
		return nil
	}
	if _, err := memory.ReadAt(b, int64(l.RDebug)+state); err != nil {
		return err
	}
	if !bytes.Equal(b, make([]byte, len(b))) {
		return remote.ErrLoading
	}
	return nil
}
