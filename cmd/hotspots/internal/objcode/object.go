package objcode

import (
	"debug/elf"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Object is all that is read of an object's file.
type Object struct {
	*Image
	*Data
	*Links
	Functions []elfscan.Function
	BuildID   []byte
	Low, High uint64 // addresses of its memory
}

// LoadCounted reads the file of an object, if it is still the one that was counted since
// then: where there is no build ID to tell, one that has not changed.
func LoadCounted(o *layout.Object, since time.Time) (*Object, error) {
	if o.BuildID == "" {
		file, err := unchanged(o.Path, since)
		if err != nil {
			return nil, err
		}
		file.Close()
	}
	file, scan, err := open(o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readObject(file, scan)
}

// LoadFile reads a file, whatever build it is.
func LoadFile(path string) (*Object, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe without waiting
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	scan, err := elfscan.Scan(file, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return readObject(file, scan)
}

func readObject(file *os.File, scan *elfscan.Object) (*Object, error) {
	code, err := readSegments(file, scan, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	o := &Object{Image: &Image{code}, Functions: scan.Functions, BuildID: scan.BuildID, Low: ^uint64(0)}
	if o.Data, err = readData(file, scan); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	if o.Links, err = readLinks(file); err != nil {
		o.Links = &Links{} // names of imports are missing
	}
	for _, s := range scan.Segments {
		o.Low, o.High = min(o.Low, s.Addr), max(o.High, s.Addr+s.MemSize)
	}
	return o, nil
}

// parse reads a file's sections, if these take no more memory than such files do.
func parse(file *os.File) (*elf.File, error) {
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := debugfile.Check(file, fi.Size()); err != nil {
		return nil, err
	}
	return elf.NewFile(file)
}

// Bytes are what the file has of the code at an address.
func (m *Image) Bytes(addr uint64, size uint32) []byte {
	for _, s := range m.Segments {
		if addr >= s.Addr && addr-s.Addr < uint64(len(s.Code)) {
			code := s.Code[addr-s.Addr:]
			return code[:min(len(code), int(size))]
		}
	}
	return nil
}

// BuildIDOf is the build ID of a file.
func BuildIDOf(path string) ([]byte, error) {
	o, err := LoadFile(path)
	if err != nil {
		return nil, err
	}
	return o.BuildID, nil
}
