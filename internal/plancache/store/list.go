package store

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// File is a file of a store.
type File struct {
	Name string
	Size int64
	Copy int64     // bytes of the copy of the plan's object on disk; 0: there is none
	Time time.Time // when it was written, or used on a later day
}

// List lists the plans, the oldest first, and the files of writers that have come to no
// end, as far as they are not of now, and copies without a plan.
func (s *Store) List() (plans, left []File, err error) {
	fd, err := syscall.Openat(s.dir, ".", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	dir := os.NewFile(uintptr(fd), "cache")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	copies := map[string]File{} // by the plan's name
	for _, name := range names {
		f, err := s.stat(name)
		if err != nil {
			continue // it is gone by now, or none of ours
		}
		stem, ext, unfinished := parse(f.Name)
		switch {
		case stem == "": // a user may have named a directory with files of his own
		case unfinished && time.Since(f.Time) > time.Minute:
			left = append(left, f)
		case unfinished:
		case ext == Ext:
			plans = append(plans, f)
		default:
			copies[stem+Ext] = f
		}
	}
	for i := range plans {
		plans[i].Copy = copies[plans[i].Name].Copy
		delete(copies, plans[i].Name)
	}
	left = slices.AppendSeq(left, maps.Values(copies))
	slices.SortFunc(plans, func(a, b File) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Name, b.Name)) })
	return plans, left, err
}

// parse takes a name of a plan, of a copy, or of one that is being written apart; earlier
// versions wrote without an extension. The stem of others is empty.
func parse(name string) (stem, ext string, unfinished bool) {
	if of, ok := strings.CutPrefix(name, temporary); ok {
		pid, of, _ := strings.Cut(of, "-")
		if strings.Trim(pid, "0123456789") != "" {
			return "", "", true
		}
		name, unfinished = of, true
	}
	ext = filepath.Ext(name)
	stem = strings.TrimSuffix(name, ext)
	if len(stem) != 16 || strings.Trim(stem, "0123456789abcdef") != "" || ext != Ext && ext != copyExt && !(unfinished && ext == "") {
		return "", "", unfinished
	}
	return stem, ext, unfinished
}

// stat tells of a regular file.
func (s *Store) stat(name string) (File, error) {
	const path = 0x200000 // O_PATH: not to read it
	f, err := s.open(name, path, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = ErrNotOurs
	}
	if err != nil {
		return File{}, err
	}
	onDisk := fi.Sys().(*syscall.Stat_t).Blocks * 512
	return File{name, fi.Size(), onDisk, fi.ModTime()}, nil
}

// Trim removes what was left by writers that came to no end, and the oldest plans, until
// all have so many bytes at most; but not those of certain names.
func (s *Store) Trim(most int64, but ...string) error {
	plans, left, err := s.List()
	if err != nil {
		return err
	}
	for _, f := range left {
		s.remove(f.Name)
	}
	size := int64(0)
	for _, f := range plans {
		size += f.Size + f.Copy
	}
	for _, f := range plans {
		if size <= most {
			break
		}
		if slices.Contains(but, f.Name) {
			continue
		}
		if err := s.Remove(f.Name); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
		size -= f.Size + f.Copy
	}
	return nil
}
