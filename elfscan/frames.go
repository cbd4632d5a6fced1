package elfscan

import (
	"cmp"
	"debug/elf"
	"fmt"
	"math"
	"slices"
)

// frame is what an FDE tells: a code range and the state at its start.
type frame struct {
	addr   uint32 // as file.rel
	size   uint32
	start  startKind
	lsda   bool // has a language-specific data area
	signal bool // signal frame: augmentation 'S'
}

func (d *frame) key() uint32 { return d.addr }

// frames reads .eh_frame, found by its section header or else by the header
// that the unwinder uses.
// pads are landing pads (landingPads).
func (f *file) frames() (list []frame, pads []uint64) {
	hdr, err := f.frameHeader()
	if err != nil {
		f.problem(err)
	}
	w, err := f.walked(hdr)
	if err != nil {
		f.problem(err)
	}
	sortByKey(w.list, (*frame).key)
	pads = f.landingPads(w.lsdas)
	f.partsByPads(w.list, pads)
	return w.list, pads
}

// walked is what .eh_frame has, as far as it could be read: nothing if there is none.
func (f *file) walked(hdr frameHeader) (*frameWalk, error) {
	off, size, addr, bounded := f.ehFrame(hdr)
	w := &frameWalk{file: f, data: hdr.addr, bounded: bounded, count: hdr.count}
	if size == 0 {
		return w, nil
	}
	return w, w.walk(off, size, addr)
}

// partsByPads finds parts that start with a landing pad: since an offset of 0
// means none, gcc puts a nop in front, at which the stack looks as at an entry.
func (f *file) partsByPads(list []frame, pads []uint64) {
	for i := range list {
		if _, ok := slices.BinarySearch(pads, f.textLow+uint64(list[i].addr)+1); ok {
			list[i].start = startPart
		}
	}
}

// ehFrame locates .eh_frame. Without a section header its end is not known:
// bounded is false, and it lies somewhere in the size bytes.
func (f *file) ehFrame(hdr frameHeader) (off, size, addr uint64, bounded bool) {
	for i := range f.sections {
		s := &f.sections[i]
		if s.name == ".eh_frame" && elf.SectionType(s.Type) != elf.SHT_NOBITS {
			return s.Off, s.Size, s.Addr, true
		}
	}
	if hdr.ehFrame != 0 {
		off, size, _ = f.offset(hdr.ehFrame)
	}
	return off, size, hdr.ehFrame, false
}

// frameHeader is .eh_frame_hdr (LSB Core 5.0, 10.6.2).
type frameHeader struct {
	addr    uint64 // its own address
	ehFrame uint64 // address of .eh_frame
	count   uint64 // FDEs
}

func (f *file) frameHeader() (frameHeader, error) {
	p := f.prog(elf.PT_GNU_EH_FRAME)
	if p == nil {
		return frameHeader{}, nil
	}
	const most = 4 + 2*10 // four bytes, two numbers in any format
	h := frameHeader{addr: p.Vaddr}
	b, err := f.read(p.Off, min(p.Filesz, most), ".eh_frame_hdr")
	if err != nil {
		return h, err
	}
	c := cursor{b: b, addr: p.Vaddr}
	version, pointerEnc, countEnc := c.u8(), c.u8(), c.u8()
	c.u8() // encoding of the search table
	ehFrame := c.pointer(pointerEnc, p.Vaddr)
	if c.bad || version != 1 {
		return h, fmt.Errorf("%w: .eh_frame_hdr", ErrTruncated)
	}
	h.ehFrame = ehFrame
	if countEnc != peOmit {
		h.count = c.number(countEnc)
	}
	return h, nil
}

// minFDE is the least size of an FDE: length, CIE pointer, two numbers.
const minFDE = 12

// frameWalk reads the records of .eh_frame one after the other.
type frameWalk struct {
	*file
	data    uint64 // what data-relative pointers count from
	bounded bool   // else other data follows the last record,
	count   uint64 // which is that of so many FDEs
	seen    uint64 // FDEs
	bad     int    // records that cannot be understood
	cies    []cie  // by offset
	last    int    // index of the CIE used last
	list    []frame
	lsdas   []lsdaRef
}

// walk reads all records. One of length zero ends the list for an unwinder
// that walks it, but object files leave such ends in the middle, too.
func (w *frameWalk) walk(off, size, addr uint64) error {
	const what = ".eh_frame"
	if err := w.admit(off, size, what); err != nil {
		return err
	}
	w.list = make([]frame, 0, min(w.count, size/minFDE))
	in := window{file: w.file, off: off, end: off + size}
	for in.left() >= 4 {
		at := in.off - off
		b, err := in.peek(what)
		if err != nil {
			return err
		}
		length, head := uint64(le.Uint32(b)), uint64(4)
		if length == math.MaxUint32 && len(b) >= 12 {
			length, head = le.Uint64(b[4:]), 12
		}
		if length == 0 && !w.bounded && w.seen >= w.count {
			break
		}
		if length > in.left()-head || length > 0 && length < 4 {
			return fmt.Errorf("%w: %s: record at address %#x", ErrTruncated, what, addr+at)
		}
		if length > 0 {
			b = b[:min(head+length, uint64(len(b)))]
			w.record(at, cursor{b: b, pos: int(head), addr: addr + at})
		}
		in.off += head + length
	}
	if w.bad > 0 {
		return fmt.Errorf("%w: %s: %d records", ErrTruncated, what, w.bad)
	}
	return nil
}

// record reads the record at the offset at. The field behind the length, 0 in
// a CIE and the distance back to the CIE in an FDE, has four bytes in
// .eh_frame, whatever the form of the length.
func (w *frameWalk) record(at uint64, c cursor) {
	field := at + uint64(c.pos)
	id := uint64(c.u32())
	if id == 0 {
		w.cies = append(w.cies, parseCIE(at, &c))
		return
	}
	w.seen++
	owner := w.find(field - id)
	if owner == nil || !owner.ok {
		w.bad++
		return
	}
	w.fde(&c, owner)
}

// find returns the CIE at the offset at, mostly that of the FDE before.
func (w *frameWalk) find(at uint64) *cie {
	if w.last < len(w.cies) && w.cies[w.last].at == at {
		return &w.cies[w.last]
	}
	i, ok := slices.BinarySearchFunc(w.cies, at, func(e cie, at uint64) int { return cmp.Compare(e.at, at) })
	if !ok {
		return nil
	}
	w.last = i
	return &w.cies[i]
}

// fde reads an FDE behind its CIE pointer and adds its frame. What a linker
// discarded leaves FDEs of address 0, outside the text, or of size 0.
func (w *frameWalk) fde(c *cursor, e *cie) {
	addr := c.pointer(e.pointerEnc, w.data)
	size := c.number(e.pointerEnc)
	d, lsda := frame{signal: e.signal}, uint64(0)
	if e.augmented {
		data := c.sub(c.uleb())
		if e.lsdaEnc != peOmit {
			lsda = data.lsda(e.lsdaEnc)
		}
	}
	if c.bad || size > math.MaxInt64 {
		w.bad++
		return
	}
	rel, ok := w.rel(addr)
	if !ok || size == 0 {
		return
	}
	d.addr, d.size = rel, uint32(min(size, math.MaxUint32))
	if lsda != 0 {
		d.lsda = true
		w.lsdas = append(w.lsdas, lsdaRef{lsda, addr, addr + size})
	}
	d.start = e.start.run(c, e.dataAlign).kind()
	w.list = append(w.list, d)
}
