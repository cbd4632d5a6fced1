package elfscan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// CallSite is a range of code whose calls may throw to a landing pad: the unwinder goes
// on there, to catch an exception or to clean up.
type CallSite struct{ Low, High, Pad uint64 }

// CallSites reads the call sites of the ELF file in r, which is size bytes long, that
// have a landing pad, by rising address. (A Scan keeps only the landing pads that a
// patched entry must know of.)
func CallSites(r io.ReaderAt, size int64) (list []CallSite, err error) {
	defer func() {
		if p := recover(); p != nil {
			list, err = nil, fmt.Errorf("%w: %v", ErrTruncated, p)
		}
	}()
	f, err := open(r, size)
	if err != nil {
		return nil, err
	}
	hdr, err := f.frameHeader()
	if err != nil {
		return nil, err
	}
	off, n, addr, bounded := f.ehFrame(hdr)
	if n == 0 {
		return nil, nil
	}
	w := frameWalk{file: f, data: hdr.addr, bounded: bounded, count: hdr.count}
	if err := w.walk(off, n, addr); err != nil {
		return nil, err
	}
	err = f.eachArea(w.lsdas, func(c cursor, ref lsdaRef) {
		if int64(len(list)) < size { // areas may be shared by many: a file may be made so
			c.eachSite(ref, func(s CallSite) { list = append(list, s) })
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b CallSite) int { return cmp.Or(cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High)) })
	return list, nil
}
