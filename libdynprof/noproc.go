package main

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
)

// What is mapped, where /proc cannot tell: a program that has changed its root. The
// objects that came tell of themselves by their program headers, and what is free
// around them is tried out.

const (
	probeReach = 2 << 30
	probeGrain = 1 << 20
)

// guessMaps are mappings that hold the objects' and all others near them.
func guessMaps(in *input) []mem.Mapping {
	var all []mem.Mapping
	for i := range in.objects {
		all = append(all, segmentsOf(&in.objects[i], uint64(i+1))...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, byStart)
	own := all
	low, high := max(own[0].Start, probeReach)-probeReach, own[len(own)-1].End+probeReach
	for at := low &^ (probeGrain - 1); at < high; at += probeGrain {
		if !mem.Free(at, probeGrain) {
			all = append(all, without(own, at, at+probeGrain)...)
		}
	}
	slices.SortFunc(all, byStart)
	return all
}

func byStart(a, b mem.Mapping) int { return cmp.Compare(a.Start, b.Start) }

// without is what of [low, high) is none of own, which are in order.
func without(own []mem.Mapping, low, high uint64) (rest []mem.Mapping) {
	for _, m := range own {
		if m.End <= low || m.Start >= high {
			continue
		}
		if m.Start > low {
			rest = append(rest, mem.Mapping{Start: low, End: m.Start})
		}
		low = m.End
	}
	if low < high {
		rest = append(rest, mem.Mapping{Start: low, End: high})
	}
	return rest
}

// segmentsOf are the loaded segments of an object whose ELF header is mapped at its
// base, as it is in every library that ld made, without gaps.
func segmentsOf(l *loaded, inode uint64) (all []mem.Mapping) {
	const headerSize, entrySize = 64, 56
	if l.bias == 0 || l.bias%pageSize != 0 || mem.Free(l.bias, pageSize) {
		return nil
	}
	head := mem.View(l.bias, pageSize)
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
		low, size := l.bias+binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[40:])
		m := mem.Mapping{Start: low &^ (pageSize - 1), End: uint64(align(int(low+size), pageSize)), Inode: inode, Path: l.name}
		for flag, prot := range map[elf.ProgFlag]mem.Prot{elf.PF_R: mem.ProtRead, elf.PF_W: mem.ProtWrite, elf.PF_X: mem.ProtExec} {
			if flags&flag != 0 {
				m.Prot |= prot
			}
		}
		if end != 0 && end < m.Start {
			all = append(all, mem.Mapping{Start: end, End: m.Start, Inode: inode, Path: l.name})
		}
		all, end = append(all, m), m.End
	}
	return all
}
