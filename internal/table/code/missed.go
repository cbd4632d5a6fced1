package code

import (
	"bytes"
	"debug/elf"
	"os"
	"slices"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// In a static program that was stripped nobody tells that it loads a library, as glibc does for
// names of users: it is known by its mappings alone, when somebody looks at them.

// noteMissed names those libraries in the table of a static program that are none of its objects,
// as the resident part names what it cannot have planned elsewhere (libdynprof/resident/plans).
func (c Memory) noteMissed(f *file.File, objects []layout.Object) error {
	if len(objects) == 0 || !isStatic(objects[0].Path) {
		return nil
	}
	var missed []string
	for path := range c {
		if isLibrary(path) && !slices.ContainsFunc(objects, func(o layout.Object) bool { return o.Path == path }) {
			missed = append(missed, path)
		}
	}
	slices.Sort(missed)
	s := f.Geometry.Missed
	head, err := f.U32(layout.HdrMissedHead)
	if err != nil {
		return err
	}
	count := head
	for _, path := range missed {
		e := make([]byte, layout.MsEntrySize)
		le.PutUint32(e[layout.MsReason:], layout.MissedNoPlanner)
		le.PutUint32(e[layout.MsTimes:], 1)
		copy(e[layout.MsPath:layout.MsPath+layout.MsPathSize-1], path[max(0, len(path)-layout.MsPathSize+1):])
		if named, err := isNamed(f, s, count, e); err != nil || named {
			continue
		}
		if count < s.Capacity {
			if _, err := f.OS().WriteAt(e, int64(s.Offset)+int64(count)*layout.MsEntrySize); err != nil {
				return err
			}
		}
		count++
	}
	if count == head {
		return nil
	}
	if _, err := f.OS().WriteAt(le.AppendUint32(nil, count), layout.HdrMissedHead); err != nil {
		return err
	}
	times, err := f.U32(layout.HdrObjectsMissed)
	if err != nil {
		return err
	}
	_, err = f.OS().WriteAt(le.AppendUint32(nil, times+count-head), layout.HdrObjectsMissed)
	return err
}

// isNamed reports whether one of the entries has the path of another.
func isNamed(f *file.File, s layout.Section, count uint32, e []byte) (bool, error) {
	b := make([]byte, layout.MsEntrySize)
	for i := range min(count, s.Capacity) {
		if err := f.ReadAt(b, int64(s.Offset)+int64(i)*layout.MsEntrySize); err != nil {
			return false, err
		}
		if bytes.Equal(b[layout.MsPath:], e[layout.MsPath:]) {
			return true, nil
		}
	}
	return false, nil
}

func isStatic(path string) bool {
	is := false
	look(path, func(f *elf.File) { is = !has(f, elf.PT_INTERP) })
	return is
}

func isLibrary(path string) bool {
	is := false
	if path != "" && path[0] == '/' && !ours.MatchString(path) {
		look(path, func(f *elf.File) { is = f.Type == elf.ET_DYN && has(f, elf.PT_DYNAMIC) })
	}
	return is
}

// look opens a file, if it is one yet.
func look(path string, see func(*elf.File)) {
	opened, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer opened.Close()
	if f, err := elf.NewFile(opened); err == nil {
		see(f)
	}
}

func has(f *elf.File, kind elf.ProgType) bool {
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == kind })
}
