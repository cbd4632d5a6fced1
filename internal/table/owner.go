package table

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Owner is a thread that had a row, and what it counted there.
type Owner struct {
	Pid, Tid    uint32 // 0: not known, or several whose calls nobody has told apart
	Incarnation uint32 // number of its process in the fork tree; 0: not known
	Calls       uint64
}

// former is an owner that its row had before.
type former struct {
	Owner
	row      uint32
	from, to uint64 // calls of the row when it took it, and when it had ended
}

// readFormers reads the notes of former owners. One that is being written at
// this moment is left out.
func (t *Table) readFormers(s *Snapshot, head uint64) error {
	noted := min(head, uint64(t.Geometry.Formers.Capacity))
	size := int(t.Geometry.Formers.EntrySize)
	return t.EachData(t.Geometry.Formers, noted, func(_ uint64, b []byte) error {
		for ; len(b) > 0; b = b[size:] {
			if row := le.Uint32(b[layout.FmRow:]); row != 0 {
				s.formers = append(s.formers, former{
					Owner: Owner{Pid: le.Uint32(b[layout.FmPid:]), Tid: le.Uint32(b[layout.FmTid:]), Incarnation: le.Uint32(b[layout.FmIncarnation:])},
					row:   row - 1, from: le.Uint64(b[layout.FmFrom:]), to: le.Uint64(b[layout.FmTo:]),
				})
			}
		}
		return nil
	})
}

// Owners lists every thread that counted, present owners and former ones, with
// its calls. Their sum is s.Total. There is room for the names of 1024 former
// owners, and those of rows with more than 32,768 counters are not told apart:
// the calls of the others are those of one owner without a name.
//
// The calls of a row are a line that its owners have cut into pieces:
//
//	0      from      to = from      to      Base        Calls
//	|  ?    |  former |   former    |   ?    |  present  |
//
// A reset is one more cut: what lies before it is left out. Of folded processes each is an
// owner, and all together one of what comes behind a reset.
func (s *Snapshot) Owners() []Owner {
	if len(s.Folded) > 0 && s.Reset.IsZero() {
		return s.foldedOwners()
	}
	slices.SortFunc(s.formers, func(a, b former) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.from, b.from))
	})
	var all []Owner
	var unknown Owner
	next := 0
	for i := range s.Rows {
		r := &s.Rows[i]
		for next < len(s.formers) && s.formers[next].row < r.Index {
			next++
		}
		at := min(s.cut[r.Index], r.Calls)
		piece := func(o Owner, end uint64) {
			if end = min(end, r.Calls); end > at {
				o.Calls, at = end-at, end
				all = append(all, o)
			}
		}
		gap := func(end uint64) {
			if end = min(end, r.Calls); end > at {
				unknown.Calls, at = unknown.Calls+end-at, end
			}
		}
		for ; next < len(s.formers) && s.formers[next].row == r.Index; next++ {
			gap(s.formers[next].from)
			piece(s.formers[next].Owner, min(s.formers[next].to, r.Base))
		}
		gap(r.Base)
		piece(ownerOf(r), r.Calls)
	}
	if unknown.Calls > 0 {
		all = append(all, unknown)
	}
	return all
}

func (s *Snapshot) foldedOwners() []Owner {
	all := make([]Owner, len(s.Folded))
	for i := range s.Folded {
		d := &s.Folded[i]
		if all[i] = (Owner{Pid: d.Pid, Calls: d.Calls}); d.Threads == 1 {
			all[i].Tid = d.Pid
		}
	}
	return all
}

// ownerOf is the row's present owner.
func ownerOf(r *layout.Row) Owner {
	o := Owner{Pid: r.Pid, Tid: r.Tid, Incarnation: r.Owner}
	if r.Kind == layout.RowProcess {
		o.Incarnation = r.Incarnation
	}
	return o
}
