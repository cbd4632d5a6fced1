package main

// #include "giveback.h"
import "C"

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher"
)

// A program may change its text; then it gets it back first (giveback.c). What
// that needs lies in pages of its own, as the origins do:
//
//	texts | their files' names | changes of the first text, of the second, ...
type undos struct {
	pages *arena
	buf   []byte
}

// The list of changes is written as patcher.Undo and read as struct dp_undo.
const (
	undoSize     = int(unsafe.Sizeof(patcher.Undo{}))
	undoTextSize = int(C.sizeof_struct_dp_undo_text)

	_ = uint(undoSize-C.sizeof_struct_dp_undo) + uint(C.sizeof_struct_dp_undo-undoSize)
)

// layUndos takes room for what takes the changes of all objects back; nil if there
// is none.
func layUndos(in *input, all []*object, space placer, reserve []byte) *undos {
	size := 0
	for _, o := range all {
		size += o.changesAtMost() * undoSize
		for i := range o.exec {
			size += undoTextSize + align(len(o.exec[i].Path)+1, 8)
		}
	}
	pages := &arena{offset: in.used, size: uint64(align(size, pageSize))}
	if size == 0 || pages.size > in.size-in.used {
		return nil
	}
	var ok bool
	if pages.at, ok = space.PlaceAnywhere(all[0].span, pages.size); !ok {
		return nil
	}
	in.used += pages.size
	return &undos{pages, reserve[pages.offset : pages.offset+pages.size]}
}

func (o *object) changesAtMost() int {
	n := o.patchesAtMost()
	if o.survey != nil && o.code.NoteCalls {
		for range o.survey.Calls() {
			n++
		}
	}
	return n
}

// write writes what takes the texts' changes back, and returns where the list of
// texts is, and how long.
func (u *undos) write(texts []patchedText, spans []text, calls []patcher.Call) (at, count uint64) {
	order := make([]int, len(texts))
	for i, from := 0, 0; i < len(texts); i++ {
		order[i] = i
		texts[i].calls = calls[from : from+spans[i].calls]
		from += spans[i].calls
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(spans[i].Start, spans[j].Start) })
	list := mem.Array[C.struct_dp_undo_text](u.address(0), len(texts))
	used := len(texts) * undoTextSize
	for k, i := range order {
		t := &spans[i]
		list[k] = C.struct_dp_undo_text{
			start: C.uint64_t(t.Start), size: C.uint64_t(t.End - t.Start), prot: C.uint32_t(t.Prot),
			file: C.uint64_t(u.pages.at + uint64(used)), offset: C.uint64_t(t.Offset),
		}
		used += align(copy(u.buf[used:], t.Path)+1, 8)
	}
	for k, i := range order {
		room := mem.Array[patcher.Undo](u.address(used), (len(u.buf)-used)/undoSize)
		n := len(patcher.AppendUndos(room[:0], x86.RunAddr(spans[i].Start), texts[i].patches, texts[i].calls))
		list[k].undos, list[k].count = C.uint64_t(u.pages.at+uint64(used)), C.uint32_t(n)
		used += n * undoSize
	}
	u.pages.size = uint64(align(used, pageSize))
	return u.pages.at, uint64(len(texts))
}

// address is where the planner writes the byte at offset n.
func (u *undos) address(n int) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(u.buf)))) + uint64(n)
}
