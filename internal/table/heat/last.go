package heat

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Last is the instruction that has read something last, and the one that has written it, by number
// (layout.ObjCodes); 0: none has.
type Last struct{ Reader, Writer uint32 }

// ByLast is pages that the same instructions have touched last.
type ByLast struct {
	First, Pages uint64
	Last
}

// lasts is that of each page so far, by parts of the address space.
type lasts struct{ of map[uint64]*[lastPages]Last }

const lastPages = 512

// take notes what the shadow has of a page, and says what was done.
func (l *lasts) take(page, word uint64) Range {
	if l.of == nil {
		l.of = map[uint64]*[lastPages]Last{}
	}
	part := l.of[page/lastPages]
	if part == nil {
		part = &[lastPages]Last{}
		l.of[page/lastPages] = part
	}
	is, last := Range{First: page, Pages: 1}, &part[page%lastPages]
	if reader := uint32(word); reader != 0 {
		last.Reader, is.What = reader, WasRead
	}
	if writer := uint32(word >> 32); writer != 0 {
		last.Writer, is.What = writer, is.What|WasWritten
	}
	return is
}

// record is who has touched which page last, as the file has it.
func (l *lasts) record() []byte {
	var body []byte
	var run ByLast
	end := uint64(0)
	put := func() {
		if run.Pages > 0 {
			for _, n := range []uint64{run.First - end, run.Pages, uint64(run.Reader), uint64(run.Writer)} {
				body = binary.AppendUvarint(body, n)
			}
			end = run.First + run.Pages
		}
	}
	for _, at := range slices.Sorted(maps.Keys(l.of)) {
		for i, last := range l.of[at] {
			page := at*lastPages + uint64(i)
			switch {
			case last == (Last{}):
			case run.First+run.Pages == page && run.Last == last:
				run.Pages++
			default:
				put()
				run = ByLast{page, 1, last}
			}
		}
	}
	put()
	return beside.AppendPart(nil, recordLast, body)
}

// parseLasts reads it.
func parseLasts(body []byte) (list []ByLast, err error) {
	n := numbers{body: body}
	for end := uint64(0); len(n.body) > 0; {
		gap, pages, reader, writer := n.take(), n.take(), n.take(), n.take()
		if n.short || gap > Pages-end || pages == 0 || pages > Pages-end-gap || reader>>32 != 0 || writer>>32 != 0 || reader|writer == 0 {
			return nil, errDamaged
		}
		list = append(list, ByLast{end + gap, pages, Last{uint32(reader), uint32(writer)}})
		end += gap + pages
	}
	return list, nil
}

// LastsIn lists who has touched some pages last, up to, and without, end.
func (f *File) LastsIn(first, end uint64) []ByLast {
	from, _ := slices.BinarySearchFunc(f.Lasts, first, func(b ByLast, at uint64) int { return cmp.Compare(b.First+b.Pages-1, at) })
	to := from
	for to < len(f.Lasts) && f.Lasts[to].First < end {
		to++
	}
	return f.Lasts[from:to]
}
