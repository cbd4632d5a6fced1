package patcher

import (
	"cmp"
	"errors"
	"slices"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
)

// The target makes the changes of its texts that are listed here; and it may change text
// itself, and gets it back first (giveback.c). The lists lie in pages of their own, as the
// origins do:
//
//	texts | their files' names | lists of the first text, of the second, ...
type undos struct {
	pages *arena
	buf   []byte
}

// layUndos takes room for the changes of all objects. Calls for which there is none are not
// led.
func (p *Plan) layUndos(space placer) error {
	if len(p.arenas) == 0 {
		return nil
	}
	must, calls := 0, 0 // bytes
	p.led = 0
	for _, o := range p.all {
		must += o.undosAtMost()
		n := o.callsAtMost()
		p.led += n
		leds := len(o.exec) * min(n, patch.MostLeds*o.count())
		if o.bySite {
			leds = n // each site has a stub of its own
		}
		calls += n*patch.ListedSize + leds*patch.LedSize
	}
	room := int(p.ReserveSize - p.used)
	if must+calls > room {
		const each = patch.ListedSize + patch.LedSize
		p.led = max((room-must)/each, 0)
		calls = p.led * each
	}
	pages := &arena{offset: p.used, size: uint64(align(must+calls, pageSize))}
	if pages.size > p.ReserveSize-p.used {
		return p.tooSmall()
	}
	const about = 64 << 10 // whoever knows how many there are finds the same place, mostly
	var ok bool
	if pages.at, ok = space.PlaceAnywhere(p.all[0].span, uint64(align(int(pages.size), about))); !ok {
		return errors.New("there is no room for the list of what is patched")
	}
	p.used += pages.size
	p.undos = &undos{pages, p.reserve[pages.offset : pages.offset+pages.size]}
	return nil
}

// undosAtMost is the size of what takes the patches of an object's texts back; with the
// calls that are led, if its plan is an earlier start's.
func (o *object) undosAtMost() int {
	const aligned = 3 * 8 // the lists
	size := o.patchesAtMost() * (patch.ListedSize + patch.OverwrittenSize)
	if c := o.cached; c != nil {
		size = len(c.Listed) + len(c.Patches) + len(c.Leds)
	}
	for i := range o.exec {
		size += patch.UndoTextSize + align(len(o.exec[i].Path)+1, 8) + aligned
	}
	return size
}

func (o *object) callsAtMost() (n int) {
	if o.survey != nil && o.leads {
		for range o.survey.Calls() {
			n++
		}
	}
	return n
}

// ToTake is how many bytes of memory are taken from here on, at most: the lists of changes,
// and the text that the target copies as it changes something on its pages.
func (p *Plan) ToTake() (size uint64) {
	if p.undos != nil {
		size = p.undos.pages.size
	}
	for _, o := range p.all {
		changes, text := o.patchesAtMost()+o.callsAtMost(), uint64(0)
		if c := o.cached; c != nil {
			changes = len(c.Listed) / patch.ListedSize
		}
		for _, m := range o.exec {
			text += m.End - m.Start
		}
		size += min(text, uint64(changes)*pageSize)
	}
	return size
}

// write writes the texts' changes, and returns where the list of texts is, and how long.
func (u *undos) write(texts []patchedText, spans []text) (at, count uint64) {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
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
	n, patches := len(t.patches)+len(t.calls), len(t.patches)
	if t.kept != nil {
		n, patches = len(t.kept.List), len(t.kept.Overwritten)
	}
	text.List, lists.List = at(), mem.Values[patch.Listed](room(n, patch.ListedSize))[:0]
	text.Overwritten, lists.Overwritten = at(), mem.Values[patch.Overwritten](room(patches, patch.OverwrittenSize))[:0]
	text.Leds, lists.Leds = at(), mem.Values[patch.Led](u.buf[used:])[:0]
	if t.kept != nil {
		t.groups.Add(&lists, t.kept)
	} else {
		lists.Note(x86.RunAddr(text.Start), t.patches, t.calls)
	}
	text.Count, text.Extent = uint32(len(lists.List)), lists.Extent()
	room(len(lists.Leds), patch.LedSize)
	return used
}
