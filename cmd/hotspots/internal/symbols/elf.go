package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Write reads a core, or the process of that number, and writes an ELF file with
// what debuggers want to know of its stubs. It returns how many there are.
func Write(w io.Writer, name string) (stubs int, err error) {
	m, err := open(name)
	if err != nil {
		return 0, err
	}
	defer m.close()
	all := m.arenas()
	if len(all) == 0 {
		return 0, fmt.Errorf("%s: %w", name, ErrNone)
	}
	m.identify(all)
	for _, a := range all {
		stubs += len(a.stubs)
	}
	_, err = w.Write(encode(all))
	return stubs, err
}

// section is one of the file, in the order of its header.
type section struct {
	name string
	elf.Section64
	data []byte
}

// encode makes an ELF file of the symbols and frames: no code, only where it is.
func encode(all []arena) []byte {
	sections := []section{{}}
	for i, a := range all {
		sections = append(sections, section{name: fmt.Sprintf(".stubs.%d", i), Section64: elf.Section64{
			Type: uint32(elf.SHT_NOBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: a.at, Size: a.end - a.at, Addralign: 4096,
		}})
	}
	symbols, strings := symbolTable(all)
	return assemble(append(sections,
		section{name: ".debug_frame", Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS), Addralign: 8}, data: debugFrame(all)},
		section{name: ".symtab", Section64: elf.Section64{
			Type: uint32(elf.SHT_SYMTAB), Link: uint32(len(sections) + 2), Info: 1, Addralign: 8, Entsize: elf.Sym64Size,
		}, data: symbols},
		section{name: ".strtab", Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}, data: strings},
	))
}

func symbolTable(all []arena) (symbols, names []byte) {
	symbols, names = make([]byte, elf.Sym64Size), []byte{0}
	for i, a := range all {
		for k := range a.stubs {
			s := &a.stubs[k]
			sym := elf.Sym64{
				Name: uint32(len(names)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: uint16(i + 1), Value: s.At, Size: s.end - s.At,
			}
			symbols, _ = binary.Append(symbols, binary.LittleEndian, &sym)
			names = append(append(names, s.name...), 0)
		}
	}
	return symbols, names
}

// assemble lays the file out: header, contents, names, section headers.
func assemble(sections []section) []byte {
	names := []byte{0}
	sections = append(sections, section{name: ".shstrtab", Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB), Addralign: 1}})
	for i := range sections {
		if sections[i].name != "" {
			sections[i].Name = uint32(len(names))
			names = append(append(names, sections[i].name...), 0)
		}
	}
	sections[len(sections)-1].data = names
	const headerSize = 64
	body := make([]byte, headerSize)
	for i := range sections {
		s := &sections[i]
		body = append(body, make([]byte, -len(body)&7)...)
		if s.Off = uint64(len(body)); s.data != nil {
			s.Size = uint64(len(s.data))
		}
		body = append(body, s.data...)
	}
	body = append(body, make([]byte, -len(body)&7)...)
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(len(body)), Ehsize: headerSize,
		Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	for i := range sections {
		body, _ = binary.Append(body, binary.LittleEndian, &sections[i].Section64)
	}
	var head bytes.Buffer
	binary.Write(&head, binary.LittleEndian, &h)
	copy(body, head.Bytes())
	return body
}
