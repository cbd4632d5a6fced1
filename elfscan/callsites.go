package elfscan

import (
	"cmp"
	"io"
	"slices"
)

// CallSite is a range of code whose calls may throw to a landing pad: the unwinder goes
// on there, to catch an exception or to clean up.
type CallSite struct{ Low, High, Pad uint64 }

// CallSites reads the call sites of the ELF file in r, which is size bytes long, that
// have a landing pad, by rising address. (A Scan keeps only the landing pads that a
// patched entry must know of.)
func CallSites(r io.ReaderAt, size int64) ([]CallSite, error) {
	return ofFrames(r, size, func(f *file, hdr frameHeader) ([]CallSite, error) { return f.callSites(hdr, size) })
}

// callSites reads no more than most.
func (f *file) callSites(hdr frameHeader, most int64) (list []CallSite, err error) {
	w, err := f.walked(hdr)
	if err != nil {
		return nil, err
	}
	err = f.eachArea(w.lsdas, func(c cursor, ref lsdaRef) {
		if int64(len(list)) < most { // areas may be shared by many: a file may be made so
			c.eachSite(ref, func(s CallSite) { list = append(list, s) })
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b CallSite) int { return cmp.Or(cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High)) })
	return list, nil
}
