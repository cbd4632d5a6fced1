package system

import (
	"cmp"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/dynprof/dynprof/internal/parallel"
)

// Found is an ELF file to plan.
type Found struct {
	Path string
	Size int64 // bytes
}

// Find lists the executables and shared libraries for x86-64 below dirs, the
// largest first. Symbolic links below them are not followed, so that each file
// comes once; directories that cannot be read are left out. Errors are of dirs
// themselves.
func Find(dirs []string) ([]Found, error) {
	var all []Found
	seen := map[[2]uint64]bool{}
	for _, dir := range dirs {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				if path == dir {
					return err
				}
				return nil
			}
			if !d.Type().IsRegular() || !IsELF(path) {
				return nil
			}
			fi, err := d.Info()
			if err != nil {
				return nil
			}
			st := fi.Sys().(*syscall.Stat_t)
			if id := [2]uint64{st.Dev, st.Ino}; !seen[id] {
				seen[id] = true
				all = append(all, Found{path, fi.Size()})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b Found) int { return cmp.Compare(b.Size, a.Size) })
	return all, nil
}

// IsELF reports whether the file starts like a 64-bit little-endian x86-64
// executable or shared object (gABI, "ELF Header").
func IsELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const etExec, etDyn, emX8664 = 2, 3, 62
	var head [20]byte
	if n, _ := f.Read(head[:]); n < len(head) || string(head[:6]) != "\x7fELF\x02\x01" {
		return false
	}
	kind, machine := binary.LittleEndian.Uint16(head[16:]), binary.LittleEndian.Uint16(head[18:])
	return (kind == etExec || kind == etDyn) && machine == emX8664
}

// PlanAll plans the files as Plan does, several at a time, and calls done after
// each, from any goroutine. The results are in the order of the files; a file that cannot
// be read or is broken has an error instead.
func PlanAll(files []Found, want Options, done func(Found)) ([]*File, []error) {
	plans, errs := make([]*File, len(files)), make([]error, len(files))
	parallel.Ranges(len(files), 1, 0, func(_, first, end int) {
		for i := first; i < end; i++ {
			plans[i], errs[i] = Plan(files[i].Path, want)
			done(files[i])
		}
	})
	return plans, errs
}
