package patcher

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/target"
)

// Where objects that come later lie, without /proc/self/maps: a program with a
// thousand libraries has seven thousand mappings, one that has changed its root may
// have no /proc. Objects tell by their program headers, and what is free near them
// is tried out.

// lateMaps are the objects' mappings; of the whole process if those are not known.
func lateMaps(objects []target.Loaded, t target.Target) ([]procmaps.Mapping, error) {
	var all []procmaps.Mapping
	for i := range objects {
		o := &objects[i]
		path, err := t.Resolve(o.Name)
		segments := segmentsOf(o, t, path, uint64(i+1))
		if err != nil || segments == nil {
			return t.Maps()
		}
		all = append(all, segments...)
	}
	slices.SortFunc(all, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return all, nil
}

// segmentsOf are the loaded segments of an object whose ELF header is mapped at its
// base, as it is in every library that ld made, without gaps.
func segmentsOf(l *target.Loaded, t target.Target, path string, inode uint64) (all []procmaps.Mapping) {
	const headerSize, entrySize = 64, 56
	if l.Bias == 0 || l.Bias%pageSize != 0 || t.IsFree(l.Bias, pageSize) {
		return nil
	}
	head := t.View(l.Bias, pageSize)
	at, n := binary.LittleEndian.Uint64(head[32:]), int(binary.LittleEndian.Uint16(head[56:]))
	if string(head[:4]) != elf.ELFMAG || at < headerSize || at > pageSize || n > (pageSize-int(at))/entrySize {
		return nil
	}
	end := uint64(0)
	for i := range n {
		p := head[int(at)+i*entrySize:]
		if elf.ProgType(binary.LittleEndian.Uint32(p)) != elf.PT_LOAD {
			continue
		}
		flags := elf.ProgFlag(binary.LittleEndian.Uint32(p[4:]))
		low, size := l.Bias+binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[40:])
		m := procmaps.Mapping{Start: low &^ (pageSize - 1), End: uint64(align(int(low+size), pageSize)), Inode: inode, Path: path}
		for flag, prot := range map[elf.ProgFlag]procmaps.Prot{elf.PF_R: procmaps.ProtRead, elf.PF_W: procmaps.ProtWrite, elf.PF_X: procmaps.ProtExec} {
			if flags&flag != 0 {
				m.Prot |= prot
			}
		}
		if end != 0 && end < m.Start {
			all = append(all, procmaps.Mapping{Start: end, End: m.Start, Inode: inode, Path: path})
		}
		all, end = append(all, m), m.End
	}
	return all
}
