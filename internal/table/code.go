package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// Unlisted is executable memory of a process that is of no object in its table,
// bytes: what compilers and interpreters have made while it ran, or have loaded
// by themselves. Nobody tells where functions are there.
type Unlisted struct {
	Anonymous uint64 // memory of no file
	Files     uint64 // of files that the dynamic linker has not loaded
}

// Code is executable memory by the path of the file that is mapped there, bytes;
// "" is memory of no file.
type Code map[string]uint64

// See looks at the executable memory of process pid, and keeps what is more than
// was seen before. It reports whether the process could be looked at.
func (c Code) See(pid int) bool {
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil || len(maps) == 0 {
		return false
	}
	now := Code{}
	for i := range maps {
		if m := &maps[i]; m.Prot&procmaps.ProtExec != 0 {
			now[strings.TrimSuffix(m.Path, " (deleted)")] += m.End - m.Start
		}
	}
	for path, n := range now {
		c[path] = max(c[path], n)
	}
	return true
}

// Unlisted is what is of none of the objects, but for the kernel's code and ours:
// a library, and shared memory.
func (c Code) Unlisted(objects []Object) Unlisted {
	known := map[string]bool{"/dev/zero": true}
	for i := range objects {
		known[objects[i].Path] = true
	}
	var u Unlisted
	for path, n := range c {
		switch {
		case path == "" || strings.HasPrefix(path, "[anon") || path == "[heap]": // not a stack: all are executable in some programs
			u.Anonymous += n
		case path[0] == '/' && !known[path] && !strings.HasPrefix(filepath.Base(path), "libdynprof"):
			u.Files += n
		}
	}
	return u
}

// NoteCode notes in the table what was seen of its program's memory. It reads no more
// of the ledger than it needs: hotspots run is small beside a large program.
func NoteCode(path string, c Code) error {
	f, size, err := openRegular(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	t := &Table{r: f, size: size}
	if err := errors.Join(t.readHead(), t.readPaths()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	u := c.Unlisted(t.Objects)
	_, err = f.WriteAt(le.AppendUint64(le.AppendUint64(nil, u.Anonymous), u.Files), HdrCodeAnonymous)
	return err
}

// readPaths fills in the paths of the objects, and nothing else.
func (t *Table) readPaths() error {
	return t.eachEntry(t.Geometry.Objects, func(b []byte) error {
		off := le.Uint32(b[ObjPath:])
		n, err := longest(off, t.Geometry.Strings.Count)
		if err != nil {
			return err
		}
		text := make([]byte, n)
		if _, err := readAt(t.r, text, int64(t.Geometry.Strings.Offset)+int64(off)); err != nil {
			return err
		}
		path, err := ended(string(text), off)
		t.Objects = append(t.Objects, Object{Path: path})
		return err
	})
}
