package patcher

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
)

// A program may change its text; then it gets it back first (giveback.c). What
// that needs lies in pages of its own, as the origins do:
//
//	texts | their files' names | lists of the first text, of the second, ...
type undos struct {
	pages *arena
	buf   []byte
}

// layUndos takes room for what takes the changes of all objects back. Calls for which
// there is none are not led.
func (p *Plan) layUndos(space placer) error {
	if len(p.arenas) == 0 {
		return nil
	}
	patches, calls := 0, 0
	p.led = 0
	for _, o := range p.all {
		patches += o.undosAtMost()
		n := o.callsAtMost()
		p.led += n
		calls += n*patch.ListedSize + len(o.exec)*min(n, o.count())*patch.LedSize
	}
	room := int(p.ReserveSize - p.used)
	if patches+calls > room {
		const each = patch.ListedSize + patch.LedSize
		p.led = max((room-patches)/each, 0)
		calls = p.led * each
	}
	pages := &arena{offset: p.used, size: uint64(align(patches+calls, pageSize))}
	if pages.size > p.ReserveSize-p.used {
		return p.tooSmall()
	}
	var ok bool
	if pages.at, ok = space.PlaceAnywhere(p.all[0].span, pages.size); !ok {
		return errors.New("there is no room for what gives text back")
	}
	p.used += pages.size
	p.undos = &undos{pages, p.reserve[pages.offset : pages.offset+pages.size]}
	return nil
}

// undosAtMost is the size of what takes the patches of an object's texts back.
func (o *object) undosAtMost() int {
	const aligned = 8 // of leds
	size := o.patchesAtMost() * (patch.ListedSize + patch.OverwrittenSize)
	for i := range o.exec {
		size += patch.UndoTextSize + align(len(o.exec[i].Path)+1, 8) + aligned
	}
	return size
}

func (o *object) callsAtMost() (n int) {
	if o.cached != nil {
		return len(o.cached.Calls) / patch.CallSize
	}
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
		used = u.writeLists(&list[k], used, &texts[i])
	}
	u.pages.size = uint64(align(used, pageSize))
	return u.pages.at, uint64(len(texts))
}

// writeLists writes the lists of one text behind what is used, and returns what is used
// then.
func (u *undos) writeLists(text *patch.UndoText, used int, t *patchedText) int {
	room := func(n, size int) []byte {
		b := u.buf[used : used+n*size]
		used += align(n*size, 8)
		return b
	}
	at := func() uint64 { return u.pages.at + uint64(used) }
	var lists patch.Undos
	text.List, lists.List = at(), mem.Values[patch.Listed](room(len(t.patches)+len(t.calls), patch.ListedSize))[:0]
	text.Overwritten, lists.Overwritten = at(), mem.Values[patch.Overwritten](room(len(t.patches), patch.OverwrittenSize))[:0]
	text.Leds, lists.Leds = at(), mem.Values[patch.Led](u.buf[used:])[:0]
	lists.Note(x86.RunAddr(text.Start), t.patches, t.calls)
	text.Count, text.Extent = uint32(len(lists.List)), lists.Extent()
	room(len(lists.Leds), patch.LedSize)
	return used
}
