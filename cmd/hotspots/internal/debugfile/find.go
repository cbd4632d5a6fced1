package debugfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// System is where distributions put debug information.
const System = "/usr/lib/debug"

// Finder looks for what is told of objects. The zero value looks in their own files only.
type Finder struct {
	Root string // System, or another
	// Fetch gets the file of debug information with a build ID; nil: there is nobody to ask.
	// It is an error that wraps fs.ErrNotExist if there is none.
	Fetch func(buildID string) (path string, err error)
}

// Paths are the files that may have an object's debug information, as gdb looks for them.
// link is what the object's .gnu_debuglink names, or empty.
func Paths(o *layout.Object, root, link string) (list []string) {
	if id := o.BuildID; len(id) > 2 && root != "" {
		list = append(list, filepath.Join(root, ".build-id", id[:2], id[2:]+".debug"))
	}
	if link == "" || link != filepath.Base(link) {
		return list
	}
	dir := filepath.Dir(o.Path)
	list = append(list, filepath.Join(dir, link), filepath.Join(dir, ".debug", link))
	if root != "" {
		list = append(list, filepath.Join(root, dir, link))
	}
	return list
}

// Symbols finds the symbols of an object: in its own file, if that is still the one that was
// counted since then, in .gnu_debugdata of it, and in a separate file. They are nil if there
// are none.
func (f *Finder) Symbols(o *layout.Object, since time.Time) (Symbols, error) {
	own, link, sum, err := ownSymbols(o, since)
	if len(own) > 0 || err != nil {
		return own, err
	}
	err = f.Separate(o, link, func(path string) (found bool, err error) {
		own, err = separate(path, o.BuildID, sum)
		return own != nil, err
	})
	return own, err
}

// Separate has try look at the files that may have an object's debug information, until it has
// found some: those on this machine, by the build ID and where the object's .gnu_debuglink
// says, which is link, then a server's.
func (f *Finder) Separate(o *layout.Object, link string, try func(path string) (found bool, err error)) error {
	for _, path := range Paths(o, f.Root, link) {
		found, err := try(path)
		if found || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	if f.Fetch == nil || o.BuildID == "" {
		return nil
	}
	path, err := f.Fetch(o.BuildID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = try(path)
	}
	return err
}

// ownSymbols are those that the object's file has itself, and what it says of another file.
// That it is not there, or another one by now, is no error: a separate file may be.
func ownSymbols(o *layout.Object, since time.Time) (all Symbols, link string, sum uint32, err error) {
	r, size, err := Regular(o.Path)
	if err != nil {
		return nil, "", 0, nil
	}
	defer r.Close()
	if o.BuildID == "" && changed(r, since) {
		return nil, "", 0, nil
	}
	f, err := open(r, size)
	if err != nil || f.buildID() != o.BuildID {
		return nil, "", 0, nil
	}
	link, sum = f.link()
	if all, err = f.symbols(); len(all) > 0 || err != nil {
		return all, link, sum, located(o.Path, err)
	}
	packed, err := f.named(".gnu_debugdata", maxUnpacked)
	if packed == nil || err != nil {
		return nil, link, sum, located(o.Path, err)
	}
	b, err := unpack(packed)
	if err != nil {
		return nil, link, sum, located(o.Path+": .gnu_debugdata", err)
	}
	if f, err = open(bytes.NewReader(b), int64(len(b))); err == nil {
		all, err = f.symbols()
	}
	return all, link, sum, located(o.Path+": .gnu_debugdata", err)
}

// changed reports whether a file may be another one than it was then.
func changed(f *os.File, since time.Time) bool {
	fi, err := f.Stat()
	return err != nil || time.Unix(fi.Sys().(*syscall.Stat_t).Ctim.Unix()).After(since)
}

func located(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", where, err)
}

// separate reads the symbols of a file of debug information; nil if it is of another object.
func separate(path, buildID string, sum uint32) (Symbols, error) {
	r, size, err := Regular(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := open(r, size)
	if err != nil {
		return nil, located(path, err)
	}
	if buildID != "" {
		if f.buildID() != buildID {
			return nil, nil
		}
	} else if ok, err := HasSum(r, sum); !ok || err != nil {
		return nil, err
	}
	s, err := f.symbols()
	return s, located(path, err)
}

// HasSum reports whether a file has that CRC-32, by which one without a build ID is known.
func HasSum(r io.ReaderAt, sum uint32) (bool, error) {
	crc := crc32.NewIEEE()
	_, err := io.Copy(crc, io.NewSectionReader(r, 0, 1<<62))
	return crc.Sum32() == sum, err
}

// Regular opens a file, and tells its size; not what would have to be waited for: then the
// error wraps fs.ErrNotExist.
func Regular(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
