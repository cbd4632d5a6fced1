package patcher

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
)

// A program may change its text; then it gets it back first (giveback.c). What
// that needs lies in pages of its own, as the origins do:
//
//	texts | their files' names | changes of the first text, of the second, ...
type undos struct {
	pages *arena
	buf   []byte
}

// layUndos takes room for what takes the changes of all objects back.
func (p *Plan) layUndos(space placer) {
	size := 0
	for _, o := range p.all {
		size += o.changesAtMost() * patch.UndoSize
		for i := range o.exec {
			size += patch.UndoTextSize + align(len(o.exec[i].Path)+1, 8)
		}
	}
	pages := &arena{offset: p.used, size: uint64(align(size, pageSize))}
	if size == 0 || pages.size > p.ReserveSize-p.used {
		return
	}
	var ok bool
	if pages.at, ok = space.PlaceAnywhere(p.all[0].span, pages.size); !ok {
		return
	}
	p.used += pages.size
	p.undos = &undos{pages, p.reserve[pages.offset : pages.offset+pages.size]}
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
func (u *undos) write(texts []patchedText, spans []text, calls []patch.Call) (at, count uint64) {
	order := make([]int, len(texts))
	for i, from := 0, 0; i < len(texts); i++ {
		order[i] = i
		texts[i].calls = calls[from : from+spans[i].calls]
		from += spans[i].calls
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(spans[i].Start, spans[j].Start) })
	list := mem.Values[patch.UndoText](u.buf)[:len(texts)]
	used := len(texts) * patch.UndoTextSize
	for k, i := range order {
		t := &spans[i]
		list[k] = patch.UndoText{
			Start: t.Start, Size: t.End - t.Start, Prot: uint32(t.Prot),
			File: u.pages.at + uint64(used), Offset: t.Offset,
		}
		used += align(copy(u.buf[used:], t.Path)+1, 8)
	}
	for k, i := range order {
		room := mem.Values[patch.Undo](u.buf[used:])
		undos := patch.AppendUndos(room[:0], x86.RunAddr(spans[i].Start), texts[i].patches, texts[i].calls)
		n := len(undos)
		list[k].Undos, list[k].Count, list[k].Extent = u.pages.at+uint64(used), uint32(n), patch.ExtentOf(undos)
		used += n * patch.UndoSize
	}
	u.pages.size = uint64(align(used, pageSize))
	return u.pages.at, uint64(len(texts))
}
