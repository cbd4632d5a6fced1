package patcher

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/target"
)

// Where objects that come later lie, without /proc/self/maps: a program with a
// thousand libraries has seven thousand mappings, one that has changed its root may
// have no /proc. Objects tell by their program headers, and what is free near them
// is tried out. And who has loaded an object by himself, and told the dynamic linker's
// list of it, may have copied it, or parts of it, to memory that is no file's: there
// mappings do not tell, and program headers do.

// segment is a loaded segment of an object, or a gap between two.
type segment struct {
	procmaps.Mapping
	ofFile uint64 // bytes of it
}

// lateMaps are the objects' mappings; nil if they do not tell.
func lateMaps(objects []target.Loaded, t target.Target) (all []procmaps.Mapping) {
	for i := range objects {
		o := &objects[i]
		path, err := t.Resolve(o.Name)
		if err != nil || t.IsFree(o.Bias, pageSize) {
			return nil
		}
		segments := segmentsOf(o, t, path, uint64(i+1))
		if segments == nil {
			return nil
		}
		for _, s := range segments {
			all = append(all, s.Mapping)
		}
	}
	slices.SortFunc(all, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// segmentsOf are the loaded segments of an object whose ELF header is mapped at its
// base, as it is in every library that ld made, without gaps, in order.
func segmentsOf(l *target.Loaded, t target.Target, path string, inode uint64) (all []segment) {
	const headerSize, entrySize = 64, 56
	if l.Bias == 0 || l.Bias%pageSize != 0 {
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
		flags, offset := elf.ProgFlag(binary.LittleEndian.Uint32(p[4:])), binary.LittleEndian.Uint64(p[8:])
		low, size := l.Bias+binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[40:])
		s := segment{ofFile: binary.LittleEndian.Uint64(p[32:])}
		s.Mapping = procmaps.Mapping{Start: low &^ (pageSize - 1), End: (low + size + pageSize - 1) &^ (pageSize - 1), Offset: offset &^ (pageSize - 1), Inode: inode, Path: path}
		if s.End < s.Start || s.Start < end {
			return nil // nobody loads that
		}
		for flag, prot := range map[elf.ProgFlag]procmaps.Prot{elf.PF_R: procmaps.ProtRead, elf.PF_W: procmaps.ProtWrite, elf.PF_X: procmaps.ProtExec} {
			if flags&flag != 0 {
				s.Prot |= prot
			}
		}
		if end != 0 && end < s.Start {
			all = append(all, segment{Mapping: procmaps.Mapping{Start: end, End: s.Start, Inode: inode, Path: path}})
		}
		all, end = append(all, s), s.End
	}
	return all
}

// withCopies is maps with the segments of those objects that do not lie in the mappings of
// one file, as if they were. No file has their inode: none of their plans is kept.
func withCopies(objects []target.Loaded, t target.Target, maps []procmaps.Mapping) []procmaps.Mapping {
	for i, o := range locate(objects, maps) {
		l := &objects[i]
		if !readable(maps, l.Bias, l.Bias+pageSize) {
			continue
		}
		path, err := t.Resolve(l.Name)
		if err != nil {
			path = l.Name + deleted
		}
		segments := segmentsOf(l, t, path, math.MaxUint64-uint64(i))
		has := func(s segment) bool { return l.Span.Low >= s.Start && l.Span.Low < s.End }
		apart := func(s segment) bool { return s.ofFile > 0 && (s.Start < o.Span.Low || s.Start >= o.Span.High) }
		if slices.ContainsFunc(segments, has) && slices.ContainsFunc(segments, apart) {
			maps = claim(maps, segments)
		}
	}
	return maps
}

// claim is maps with segments in place of what is there. They allow what that allows.
func claim(maps []procmaps.Mapping, segments []segment) (all []procmaps.Mapping) {
	low, high := segments[0].Start, segments[len(segments)-1].End
	for _, m := range maps {
		if m.Start < low {
			m.End = min(m.End, low)
			all = append(all, m)
		}
	}
	for _, s := range segments {
		end, part := s.End, s.Mapping
		cut := func(to uint64, prot procmaps.Prot) {
			if to > part.Start {
				part.End, part.Prot = to, prot
				all = append(all, part)
				part.Start, part.Offset = to, part.Offset+to-part.Start
			}
		}
		for _, m := range from(maps, s.Start) {
			if m.Start >= end {
				break
			}
			cut(m.Start, 0) // nothing is there
			cut(min(m.End, end), m.Prot)
		}
		cut(end, 0)
	}
	for _, m := range from(maps, high) {
		if m.Start < high {
			m.Start, m.Offset = high, m.Offset+high-m.Start
		}
		all = append(all, m)
	}
	return all
}
