package lines

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// maxSections is what of a file's debug information is read, uncompressed.
const maxSections = 1 << 30

// File is the debug information of an object.
type File struct {
	Path     string
	Built    time.Time // when the object's file was changed last
	sections map[string][]byte
	shared   map[string][]byte // those of a file that several programs share (dwz -m)
	missing  string            // that file, if it is not there
}

// Open reads the debug information of an object, if its file is still the one that was
// counted: of the file itself, or of a separate one, by the build ID, or where the file's
// .gnu_debuglink says, or of a server, if one may be asked. nil if there is none.
func Open(o *layout.Object, find *debugfile.Finder) (*File, error) {
	object, err := objcode.Open(o)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	fi, err := object.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{Path: o.Path, Built: fi.ModTime()}
	e, err := f.read(object)
	if err != nil {
		return nil, err
	}
	if f.sections != nil {
		f.share(e, find)
		return f, nil
	}
	name, sum := link(e)
	var found *File
	err = find.Separate(o, name, func(path string) (bool, error) {
		found, err = separate(path, o.BuildID, sum, find)
		return found != nil, err
	})
	if found != nil {
		found.Built = f.Built
	}
	return found, err
}

// separate reads a file of debug information; nil if it is of another object.
func separate(path, buildID string, sum uint32, find *debugfile.Finder) (*File, error) {
	file, _, err := debugfile.Regular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f := &File{Path: path}
	e, err := f.read(file)
	if err != nil || f.sections == nil {
		return nil, err
	}
	f.share(e, find)
	if buildID != "" {
		if id(e) != buildID {
			return nil, nil
		}
		return f, nil
	}
	crc := crc32.NewIEEE()
	if _, err := io.Copy(crc, file); err != nil || crc.Sum32() != sum {
		return nil, err
	}
	return f, nil
}

// share reads the file that a file shares with others, if there is one: where it is named,
// from the file's own place, or by its build ID.
func (f *File) share(e *elf.File, find *debugfile.Finder) {
	name, id := supplement(small(e, ".gnu_debugaltlink"), small(e, ".debug_sup"))
	if name == "" {
		return
	}
	f.missing = name
	try := func(path string) (bool, error) {
		file, _, err := debugfile.Regular(path)
		if err != nil {
			return false, err
		}
		defer file.Close()
		other := &File{Path: path}
		e, err := other.elf(file)
		if err == nil && supplements(e, id) {
			f.shared, err = other.content(e)
		}
		return f.shared != nil, err
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(f.Path), name)
	}
	found, err := try(name)
	if !found {
		err = find.Separate(&layout.Object{Path: f.Path, BuildID: id}, "", try)
	}
	if f.shared != nil {
		f.missing = ""
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.missing = fmt.Sprintf("%s (%v)", f.missing, err)
	}
}

// supplements reports whether a file is the one that others share by that build ID, which
// stands in .debug_sup, too, in DWARF 5.
func supplements(e *elf.File, buildID string) bool {
	c := &cursor{b: small(e, ".debug_sup")}
	if c.fixed(2) == 5 && c.fixed(1) == 1 {
		c.text()
		return hex.EncodeToString(c.bytes(c.uleb())) == buildID
	}
	return id(e) == buildID
}

// read reads the sections, if there are line tables.
func (f *File) read(file *os.File) (*elf.File, error) {
	e, err := f.elf(file)
	if err != nil {
		return nil, err
	}
	if s := e.Section(".debug_line"); s == nil || s.Type == elf.SHT_NOBITS {
		return e, nil
	}
	f.sections, err = f.content(e)
	return e, err
}

// elf reads the headers. debug/elf may panic over a file that is damaged.
func (f *File) elf(file *os.File) (e *elf.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged ELF file: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Path, err)
		}
	}()
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := debugfile.Check(file, fi.Size()); err != nil {
		return nil, err
	}
	return elf.NewFile(file)
}

// content reads the sections of debug information.
func (f *File) content(e *elf.File) (sections map[string][]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged ELF file: %v", p)
		}
		if err != nil {
			sections, err = nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}()
	sections = map[string][]byte{}
	left := uint64(maxSections)
	for _, name := range []string{"line", "info", "abbrev", "str", "line_str", "ranges", "rnglists", "addr", "str_offsets"} {
		s := e.Section(".debug_" + name)
		if s == nil {
			continue
		}
		if s.Size > left {
			return nil, fmt.Errorf("more than %d MB of debug information", maxSections>>20)
		}
		left -= s.Size
		if sections[name], err = s.Data(); err != nil {
			return nil, fmt.Errorf(".debug_%s: %w", name, err)
		}
	}
	return sections, nil
}

// small is the content of a section that is; nil if there is none.
func small(e *elf.File, name string) []byte {
	const limit = 64 << 10
	s := e.Section(name)
	if s == nil || s.Size > limit {
		return nil
	}
	b, err := s.Data()
	if err != nil {
		return nil
	}
	return b
}

// link is the file of debug information that a file names, and its CRC-32, which stands behind
// the name, aligned to 4 bytes.
func link(e *elf.File) (name string, sum uint32) {
	b := small(e, ".gnu_debuglink")
	n := bytes.IndexByte(b, 0)
	if at := (n + 4) &^ 3; n > 0 && at+4 <= len(b) {
		return string(b[:n]), e.ByteOrder.Uint32(b[at:])
	}
	return "", 0
}

// id is the build ID, behind a note's header {u32 name size, size, type; "GNU\0"}.
func id(e *elf.File) string {
	b := small(e, ".note.gnu.build-id")
	const head = 16
	if len(b) < head || !strings.HasPrefix(string(b[12:]), "GNU\x00") {
		return ""
	}
	size := min(uint64(e.ByteOrder.Uint32(b[4:])), uint64(len(b)-head))
	return hex.EncodeToString(b[head : head+size])
}
