package elfscan

import "io"

// SignalFrames reads which code of the ELF file in r, which is size bytes long, unwinders take for
// a signal's frame by what .eh_frame tells of it.
func SignalFrames(r io.ReaderAt, size int64) ([]Range, error) {
	return ofFrames(r, size, func(f *file, hdr frameHeader) (list []Range, err error) {
		w, err := f.walked(hdr)
		if err != nil {
			return nil, err
		}
		for i := range w.list {
			if d := &w.list[i]; d.signal {
				low := f.textLow + uint64(d.addr)
				list = append(list, Range{Low: low, High: low + uint64(d.size)})
			}
		}
		return list, nil
	})
}
