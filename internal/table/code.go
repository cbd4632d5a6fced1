package table

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || len(maps) == 0 {
		return false
	}
	now := Code{}
	for line := range bytes.Lines(maps) {
		// address perms offset dev inode path
		fields := strings.SplitN(strings.Join(strings.Fields(string(line)), " "), " ", 6)
		if len(fields) < 5 || len(fields[1]) < 4 || fields[1][2] != 'x' {
			continue
		}
		path := ""
		if len(fields) == 6 {
			path = strings.TrimSuffix(fields[5], " (deleted)")
		}
		var from, to uint64
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err == nil {
			now[path] += to - from
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
		from := uint64(le.Uint32(b[ObjPath:]))
		count := uint64(t.Geometry.Strings.Count)
		if from >= count {
			return corrupt("string at %d of %d", from, count)
		}
		text := make([]byte, min(count-from, MaxString+1))
		if _, err := readAt(t.r, text, int64(t.Geometry.Strings.Offset+from)); err != nil {
			return err
		}
		path, _, ended := bytes.Cut(text, []byte{0})
		if !ended {
			return corrupt("string at %d has no end", from)
		}
		t.Objects = append(t.Objects, Object{Path: string(path)})
		return nil
	})
}
