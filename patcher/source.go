package patcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/target"
)

// deleted is what the kernel adds to the path of a file without a name: one of
// memfd_create(2), or one that a newer has replaced.
const deleted = " (deleted)"

// open scans the object's file. Where that has no name any more, or is out of
// reach, the kernel's own links to it are tried (proc(5): map_files is for those
// with rights), and last the memory that it was loaded into.
func (o *object) open(maps []procmaps.Mapping) (target.File, error) {
	places := []string{o.path}
	if o.unnamed {
		places = nil
	}
	if o.main {
		places = append(places, "/proc/self/exe")
	}
	for _, m := range o.files[:min(1, len(o.files))] {
		places = append(places, fmt.Sprintf("/proc/self/map_files/%x-%x", m.Start, m.End))
	}
	var why error
	for _, place := range places {
		f, err := o.openFile(place, maps)
		if err == nil {
			return f, nil
		}
		why = errors.Join(why, err)
	}
	i, err := o.image()
	if err == nil {
		o.scan, err = elfscan.Scan(i, i.size)
	}
	if err != nil {
		return nil, errors.Join(why, err)
	}
	return i, nil
}

func (o *object) openFile(path string, maps []procmaps.Mapping) (target.File, error) {
	f, err := o.target.Open(path)
	if err != nil {
		return nil, err
	}
	if o.scan, err = elfscan.Scan(f, f.Size()); err == nil {
		err = o.sameFile(f, maps)
	}
	if err != nil {
		f.Close()
		o.scan = nil
		return nil, err
	}
	return f, nil
}

// image is a file as far as memory has it: without section headers, and so
// without the symbols that only the linker needs.
type image struct {
	size   int64
	pieces []piece // a later one covers an earlier
}

type piece struct {
	at   int64 // in the file
	data []byte
}

func (i *image) Size() int64 { return i.size }

func (i *image) Close() error { return nil }

// ReadAt reads zeros where nothing is mapped.
func (i *image) ReadAt(b []byte, at int64) (int, error) {
	n := int(max(0, min(int64(len(b)), i.size-at)))
	clear(b[:n])
	for _, p := range i.pieces {
		if from := max(at, p.at); from < p.at+int64(len(p.data)) && from < at+int64(n) {
			copy(b[from-at:n], p.data[from-p.at:])
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// image is made of the object's mappings.
func (o *object) image() (*image, error) {
	i := &image{}
	for _, m := range o.files {
		if m.Prot&procmaps.ProtRead != 0 {
			i.add(int64(m.Offset), o.target.View(m.Start, int(m.End-m.Start)))
		}
	}
	const header = 64
	head := make([]byte, header)
	if n, _ := i.ReadAt(head, 0); n < header || !strings.HasPrefix(string(head), "\x7fELF") {
		return nil, fmt.Errorf("%s: its header is not in memory", o.path)
	}
	clear(head[40:48]) // e_shoff
	clear(head[58:64]) // e_shentsize, e_shnum, e_shstrndx
	i.add(0, head)
	scan, err := elfscan.Scan(i, i.size)
	if err != nil {
		return nil, err
	}
	i.unrelocate(scan, o.bias, o.span.Low, o.span.High)
	return i, nil
}

func (i *image) add(at int64, data []byte) {
	i.pieces = append(i.pieces, piece{at, data})
	i.size = max(i.size, at+int64(len(data)))
}

// unrelocate makes addresses in data, to which the dynamic linker has added the
// bias (dynamic section, RELR), those of the file again. What is no address and
// looks like one is of no concern: nothing but addresses is read there.
func (i *image) unrelocate(scan *elfscan.Object, bias, low, high uint64) {
	const writable = 2 // PF_W
	for _, s := range scan.Segments {
		if s.Flags&writable == 0 || s.FileSize > uint64(i.size) {
			continue
		}
		data := make([]byte, s.FileSize)
		i.ReadAt(data, int64(s.Offset))
		for at := int(-s.Addr & 7); at+8 <= len(data); at += 8 {
			if word := binary.LittleEndian.Uint64(data[at:]); low <= word && word < high {
				binary.LittleEndian.PutUint64(data[at:], word-bias)
			}
		}
		i.add(int64(s.Offset), data)
	}
}
