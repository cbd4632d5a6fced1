// Package code looks at the executable memory of a process for what is of no object
// in its count table, and notes in the table how much that is.
package code

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// Memory is executable memory by the path of the file that is mapped there, bytes;
// "" is memory of no file.
type Memory map[string]uint64

// See looks at the executable memory of process pid, and keeps what is more than
// was seen before. It reports whether the process could be looked at.
func (c Memory) See(pid int) bool {
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil || len(maps) == 0 {
		return false
	}
	now := Memory{}
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

// copied is the name of an object's copy with its text changed (internal/plancache/store).
var copied = regexp.MustCompile(`/[0-9a-f]{16}\.text$`)

// ours is the library, or what hotspots attach brings in its place (memfd_create(2)).
var ours = regexp.MustCompile(`/(libdynprof|memfd:dynprof-)[^/]*$`)

// Unlisted is what is of none of the objects, but for the kernel's code and ours:
// a library, shared memory, and copies of objects.
func (c Memory) Unlisted(objects []layout.Object) layout.Unlisted {
	known := map[string]bool{"/dev/zero": true}
	for i := range objects {
		known[objects[i].Path] = true
	}
	var u layout.Unlisted
	for path, n := range c {
		switch {
		case path == "" || strings.HasPrefix(path, "[anon") || path == "[heap]": // not a stack: all are executable in some programs
			u.Anonymous += n
		case path[0] == '/' && !known[path] && !ours.MatchString(path) && !copied.MatchString(path):
			u.Files += n
		}
	}
	return u
}

// Note notes in the table what was seen of its program's memory, and which libraries a static
// program has loaded that are not counted. It reads no more
// of the ledger than it needs: hotspots run is small beside a large program.
func Note(path string, c Memory) error {
	f, err := file.OpenHead(path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	objects, err := paths(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	u := c.Unlisted(objects)
	if _, err = f.OS().WriteAt(le.AppendUint64(le.AppendUint64(nil, u.Anonymous), u.Files), layout.HdrCodeAnonymous); err != nil {
		return err
	}
	return c.noteMissed(f, objects)
}

// paths are the objects in the table with their paths, and nothing else.
func paths(f *file.File) (objects []layout.Object, err error) {
	err = f.EachEntry(f.Geometry.Objects, func(b []byte) error {
		path, err := f.String(le.Uint32(b[layout.ObjPath:]))
		objects = append(objects, layout.Object{Path: path})
		return err
	})
	return objects, err
}
