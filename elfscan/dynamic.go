package elfscan

import "debug/elf"

// Tags that debug/elf does not name (gABI, "Relative Relocation Table").
const (
	dtRelrSize = elf.DynTag(35)
	dtRelr     = elf.DynTag(36)
)

// dynamic is what the dynamic section says.
type dynamic struct {
	soname  string
	needed  []string
	textRel bool
	strs    string // the dynamic string table

	initAddr, finiAddr uint64
	symtab             uint64
	hash, gnuHash      uint64
	rela, jmprel, relr table
}

// table is a table in memory, of size bytes.
type table struct{ addr, size uint64 }

// dynamic reads PT_DYNAMIC; nil if there is none.
func (f *file) dynamic() *dynamic {
	p := f.prog(elf.PT_DYNAMIC)
	if p == nil {
		return nil
	}
	d := &dynamic{}
	b, err := f.read(p.Off, p.Filesz, "dynamic section")
	if err != nil {
		f.problem(err)
		return d
	}
	var strs table
	var soname uint64
	var needed []uint64
	for len(b) >= dynSize {
		tag, v := elf.DynTag(le.Uint64(b)), le.Uint64(b[8:])
		b = b[dynSize:]
		switch tag {
		case elf.DT_NULL:
			b = nil
		case elf.DT_NEEDED:
			needed = append(needed, v)
		case elf.DT_SONAME:
			soname = v
		case elf.DT_STRTAB:
			strs.addr = v
		case elf.DT_STRSZ:
			strs.size = v
		default:
			d.set(tag, v)
		}
	}
	f.dynamicStrings(d, strs, soname, needed)
	return d
}

func (d *dynamic) set(tag elf.DynTag, v uint64) {
	switch tag {
	case elf.DT_INIT:
		d.initAddr = v
	case elf.DT_FINI:
		d.finiAddr = v
	case elf.DT_SYMTAB:
		d.symtab = v
	case elf.DT_HASH:
		d.hash = v
	case elf.DT_GNU_HASH:
		d.gnuHash = v
	case elf.DT_RELA:
		d.rela.addr = v
	case elf.DT_RELASZ:
		d.rela.size = v
	case elf.DT_JMPREL:
		d.jmprel.addr = v
	case elf.DT_PLTRELSZ:
		d.jmprel.size = v
	case dtRelr:
		d.relr.addr = v
	case dtRelrSize:
		d.relr.size = v
	case elf.DT_TEXTREL:
		d.textRel = true
	case elf.DT_FLAGS:
		d.textRel = d.textRel || elf.DynFlag(v)&elf.DF_TEXTREL != 0
	}
}

// dynamicStrings reads the string table, and from it the names.
func (f *file) dynamicStrings(d *dynamic, strs table, soname uint64, needed []uint64) {
	if strs.addr == 0 {
		return
	}
	off, err := f.locate(strs.addr, strs.size, "dynamic strings")
	if err == nil {
		d.strs, err = f.readString(off, strs.size, "dynamic strings")
	}
	if err != nil {
		f.problem(err)
		return
	}
	d.soname = cstring(d.strs, soname, maxPath) // offset 0 is the empty string
	for _, v := range needed {
		if name := cstring(d.strs, v, maxPath); name != "" {
			d.needed = append(d.needed, name)
		}
	}
}
