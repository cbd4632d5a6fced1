package place

// Trial finds free address space by taking it: where a process has thousands of
// mappings, or nobody tells what they are, that is less work than knowing them all.
type Trial struct {
	Lowest uint64 // the least address that may be mapped
	// Hold takes a range for good; it reports false, and takes nothing, if something
	// is there.
	Hold func(at, size uint64) bool
	// Known, unless it is nil, knows all that is free: for when nothing is where it was
	// tried.
	Known func() (*Space, error)
}

// Place does what Space.Place does, but for which of the free places it takes.
func (t *Trial) Place(span Span, size uint64) (uint64, bool) {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	low := t.Lowest
	if span.High > reach {
		low = max(low, span.High-reach)
	}
	high := min(span.Low+reach, addressEnd)
	for off := range distances {
		if at := span.Low - off - size - guard; span.Low >= off+size+guard && at >= low && t.Hold(at, size+guard) {
			return at, true
		}
	}
	for off := range distances { // the far end first: away from the heap
		if at := high - off - size - guard; high >= off+size+guard && at >= span.High && t.Hold(at, size+guard) {
			return at, true
		}
	}
	return t.known(span, size)
}

// known asks what is free, and again if that has just been taken: the planner's own
// threads map memory, too.
func (t *Trial) known(span Span, size uint64) (uint64, bool) {
	const tries = 16
	for range tries {
		if t.Known == nil {
			break
		}
		space, err := t.Known()
		if err != nil {
			break
		}
		at, ok := space.Place(span, size)
		if !ok {
			break
		}
		if t.Hold(at, size) {
			return at, true
		}
	}
	return 0, false
}

// Held is address space that is taken already, for what may be placed in it.
type Held struct {
	Span
	Else Trial // for what may not
}

// Place takes from the end.
func (h *Held) Place(span Span, size uint64) (uint64, bool) {
	size = (size + pageSize - 1) &^ (pageSize - 1)
	at := h.High - size
	if h.High-h.Low < size || span.High > at+reach || h.High > span.Low+reach {
		return h.Else.Place(span, size)
	}
	h.High = at
	return at, true
}

// HeapEnd: the heap of a program that runs stays.
func (h *Held) HeapEnd() uint64 { return 0 }

// PlaceAnywhere does not look far.
func (h *Held) PlaceAnywhere(near Span, size uint64) (uint64, bool) { return h.Place(near, size) }

// distances yields some far from the object first: near it, other threads map memory
// meanwhile. Then powers of two from 64 KB, and multiples of 16 MB.
func distances(yield func(uint64) bool) {
	const far, step, steps, first, stride = 768 << 20, 128 << 10, 64, 64 << 10, 16 << 20
	for d := uint64(far); d < far+steps*step; d += step {
		if !yield(d) {
			return
		}
	}
	for d := uint64(first); d < reach; d *= 2 {
		if !yield(d) {
			return
		}
	}
	for d := uint64(0); d < reach; d += stride {
		if !yield(d) {
			return
		}
	}
}
