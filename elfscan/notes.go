package elfscan

import "debug/elf"

// interp returns the path of the dynamic linker, "" if none is asked for.
func (f *file) interp() string {
	p := f.prog(elf.PT_INTERP)
	if p == nil {
		return ""
	}
	b, err := f.read(p.Off, min(p.Filesz, maxPath), "interpreter")
	if err != nil {
		f.problem(err)
	}
	return cstring(string(b), 0, maxPath)
}

// notes returns the build-id, and whether the file has a Go runtime in it: the
// descriptions of the notes "GNU" of type NT_GNU_BUILD_ID and "Go" of type 4
// (cmd/link, elf.go).
func (f *file) notes() (buildID []byte, isGo bool) {
	const ntGoBuildID = 4
	for i := range f.progs {
		p := &f.progs[i]
		if elf.ProgType(p.Type) != elf.PT_NOTE {
			continue
		}
		b, err := f.read(p.Off, p.Filesz, "notes")
		if err != nil {
			f.problem(err)
			continue
		}
		if id := BuildID(b, p.Align); id != nil {
			buildID = id
		}
		isGo = isGo || findNote(b, max(p.Align, 4), "Go\x00\x00", ntGoBuildID) != nil
	}
	return buildID, isGo
}

// BuildID returns the build-id among the notes of a segment that is aligned so: the
// description of the note "GNU" of type NT_GNU_BUILD_ID. It is nil if there is none.
func BuildID(notes []byte, align uint64) []byte {
	const ntGNUBuildID = 3
	return findNote(notes, max(align, 4), "GNU\x00", ntGNUBuildID)
}

// findNote walks the notes in b: {u32 name size, description size, type},
// name, description, the latter two padded to align. It returns a
// description.
func findNote(b []byte, align uint64, name string, kind uint32) []byte {
	const head = 12
	if align != 4 && align != 8 {
		return nil
	}
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= head {
		nameSize, descSize := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:]))
		desc := pad(head + nameSize)
		end := desc + descSize
		if end > uint64(len(b)) {
			return nil
		}
		if le.Uint32(b[8:]) == kind && string(b[head:head+nameSize]) == name {
			return b[desc:end:end]
		}
		b = b[min(pad(end), uint64(len(b))):]
	}
	return nil
}
