package table

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Callee is what calls by a pointer, or jumps, at the end of a block have reached.
type Callee struct {
	Block   uint32 // number in Flow.Blocks
	Address uint64 // run address
	Calls   uint64
}

// calleeReader reads the notes and slots of rows: each row has its own.
type calleeReader struct {
	first  uint32            // counter that words begins with
	words  []byte            // of a row
	notes  []uint32          // first words, by block; NoCounter: it has none
	blocks map[uint32]uint32 // by first word
	slots  [][2]uint64       // from where to where in words those of each object are
	calls  map[Callee]uint64 // of those without Calls
}

// readCallees reads the callees of all blocks that have notes, by block and address.
func (f *Flow) readCallees(t *Table) error {
	c := t.flowCounters()
	r := calleeReader{first: c.First, blocks: map[uint32]uint32{}, calls: map[Callee]uint64{}}
	for i := range f.Blocks {
		if b := &f.Blocks[i]; b.Flags&layout.BlockNote != 0 {
			r.blocks[b.Callee] = uint32(i)
			r.notes = append(r.notes, b.Callee)
		}
	}
	if len(r.notes) == 0 {
		return nil
	}
	for i := range t.Objects {
		if o := &t.Objects[i]; o.Sets > 0 {
			at, n := uint64(o.Slots)-uint64(r.first), uint64(o.Sets)*layout.SetWords
			if o.Slots < r.first || at+n > uint64(c.Count) {
				return layout.Corrupt("%d sets of slots at %d", o.Sets, o.Slots)
			}
			r.slots = append(r.slots, [2]uint64{8 * at, 8 * (at + n)})
		}
	}
	r.words = make([]byte, 8*uint64(c.Count))
	used, err := t.U32(layout.HdrRowsUsed)
	if err != nil {
		return err
	}
	for row := range min(used, t.Geometry.Rows.Capacity) {
		if err := r.row(t, row); err != nil {
			return err
		}
	}
	for c, n := range r.calls {
		c.Calls = n
		f.Callees = append(f.Callees, c)
	}
	slices.SortFunc(f.Callees, func(a, b Callee) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Address, b.Address))
	})
	return nil
}

// row adds those of a row, of which holes are left out.
func (r *calleeReader) row(t *Table, row uint32) error {
	at := t.Geometry.Rows.Offset + uint64(row)*uint64(t.Geometry.Rows.EntrySize) + layout.RowCounters + 8*uint64(r.first)
	var read [][]byte
	err := t.EachData(layout.Section{Offset: at, EntrySize: 8}, uint64(len(r.words)/8), func(first uint64, b []byte) error {
		read = append(read, r.words[8*first:][:copy(r.words[8*first:], b)])
		return nil
	})
	if err != nil || len(read) == 0 {
		return err
	}
	for _, note := range r.notes {
		word := r.words[8*(note-r.first):]
		r.add(note, le.Uint64(word[layout.NtCallee:]), le.Uint64(word[layout.NtCalls:]))
	}
	for _, s := range r.slots {
		for slot := r.words[s[0]:s[1]]; len(slot) > 0; slot = slot[layout.SlSize:] {
			r.add((le.Uint32(slot[layout.SlNote:])-layout.RowCounters)/8, le.Uint64(slot[layout.SlCallee:]), le.Uint64(slot[layout.SlCalls:]))
		}
	}
	for _, b := range read {
		clear(b)
	}
	return nil
}

// add adds calls by the note of that first word. Of a damaged table it may be none.
func (r *calleeReader) add(note uint32, callee, calls uint64) {
	if callee == 0 || calls == 0 {
		return
	}
	if block, ok := r.blocks[note]; ok {
		r.calls[Callee{Block: block, Address: callee}] += calls
	}
}

// HasNotes reports whether callees of calls by pointers are noted.
func (f *Flow) HasNotes() bool {
	return slices.ContainsFunc(f.Blocks, func(b Block) bool { return b.Flags&layout.BlockNote != 0 })
}

// CalleesOf are those of a block, by its number.
func (f *Flow) CalleesOf(block uint32) []Callee {
	part, _ := among(f.Callees, block, func(c *Callee) uint32 { return c.Block })
	return part
}
