// Package store keeps cached plans in a directory. Who can write there decides what code
// later programs run, so nothing of others is taken: not their directories, nor their
// files, nor what a link leads to.
package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Ext is the extension of plans, copyExt that of copies of their objects; temporary is the
// prefix of files that are being written.
const (
	Ext       = ".plan"
	copyExt   = ".text"
	temporary = ".new-"

	// System is where root keeps plans for all users: they are read there, too.
	System = "/var/cache/dynprof/plans"

	// Most is how many bytes the plans of a user, and the copies of their objects, may have.
	Most = 2 << 30

	// Largest is the size of a plan that is read, bytes.
	Largest = 1 << 30
)

// Beat is told that writing goes on, unless it is nil: who waits for it takes one that does not
// for stuck (libdynprof/session.c).
var Beat func()

// ErrNotOurs is why a directory or a file is not used.
var ErrNotOurs = errors.New("it is not ours alone")

// Dir is where the user's plans are: dynprof/plans in $XDG_CACHE_HOME or in ~/.cache.
// Empty: nowhere.
func Dir(cacheHome, home string) string {
	switch {
	case filepath.IsAbs(cacheHome):
		return filepath.Join(cacheHome, "dynprof", "plans")
	case filepath.IsAbs(home):
		return filepath.Join(home, ".cache", "dynprof", "plans")
	}
	return ""
}

// Name is the file of a plan.
func Name(inode uint64, key []byte) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d\n%s", inode, key)
	return fmt.Sprintf("%016x%s", sum.Sum64(), Ext)
}

// Store is an open directory.
type Store struct {
	dir  int
	mode os.FileMode // of new files
}

// Open opens the directory, which has to be the effective user's, and nobody else's to
// look into; or System, which has to be root's, and for nobody else to write to.
func Open(dir string) (*Store, error) {
	const flags = syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := syscall.Open(dir, flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	var st syscall.Stat_t
	owner, without, mode := os.Geteuid(), uint32(0o077), os.FileMode(0o400)
	if dir == System {
		owner, without, mode = 0, 0o022, 0o444
	}
	if err = syscall.Fstat(fd, &st); err == nil && (int(st.Uid) != owner || st.Mode&without != 0) {
		err = ErrNotOurs
	}
	if err != nil {
		syscall.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return &Store{fd, mode}, nil
}

// Make makes the directory, and the two above it, in one of the effective user's:
// another's home stays as it is, though HOME may say that it is ours.
func Make(dir string) error {
	mode := os.FileMode(0o700)
	if dir == System {
		mode = 0o755
	}
	return makeIn(dir, mode, 2)
}

func makeIn(dir string, mode os.FileMode, above int) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if above > 0 {
		if err := makeIn(parent, mode, above-1); err != nil {
			return err
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(parent, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.Join(err, ErrNotOurs)}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return os.Chmod(dir, mode) // whatever the umask
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Close closes it.
func (s *Store) Close() error { return syscall.Close(s.dir) }

// Read reads a file: a regular one, of the effective user or root, that no others can
// write to.
func (s *Store) Read(name string) ([]byte, error) {
	f, err := s.open(name, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	uid := fi.Sys().(*syscall.Stat_t).Uid
	if !fi.Mode().IsRegular() || int(uid) != os.Geteuid() && uid != 0 || fi.Mode().Perm()&0o022 != 0 || fi.Size() > Largest {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrNotOurs}
	}
	b := make([]byte, fi.Size())
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if now := time.Now(); now.Sub(fi.ModTime()) > day {
		tv := syscall.NsecToTimeval(now.UnixNano())
		syscall.Futimes(int(f.Fd()), []syscall.Timeval{tv, tv}) // Trim takes it for new; root's stays as it is
	}
	return b, nil
}

// day is how exactly Trim knows when a plan was used.
const day = 24 * time.Hour

func (s *Store) open(name string, flags int, mode uint32) (*os.File, error) {
	fd, err := syscall.Openat(s.dir, name, flags|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Write makes a file, or takes an old one's place, at once: nobody reads half of it, nor
// is anything written to that somebody may have mapped. It does not wait for the disk:
// what a crash of the machine tears has another sum. A copy of the object, which has an old
// plan's changes, goes.
func (s *Store) Write(name string, pieces ...[]byte) error {
	s.RemoveCopy(name)
	return s.write(name, func(f *os.File) error {
		for _, b := range pieces {
			for part := range slices.Chunk(b, atOnce) {
				if Beat != nil {
					Beat()
				}
				if _, err := f.Write(part); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// atOnce is how much is written between two beats: the kernel may be slow.
const atOnce = 1 << 20

func (s *Store) write(name string, fill func(f *os.File) error) error {
	new := temporary + strconv.Itoa(os.Getpid()) + "-" + name
	s.remove(new) // of a process that had this number
	f, err := s.open(new, syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	f.Chmod(s.mode) // whatever the umask
	err = fill(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = syscall.Renameat(s.dir, new, s.dir, name)
	}
	if err != nil {
		s.remove(new)
	}
	return err
}

// CopyName is the file of the copy of an object whose plan has that name.
func CopyName(plan string) string { return strings.TrimSuffix(plan, Ext) + copyExt }

// IsCopy reports whether a file has the name of such a copy.
func IsCopy(name string) bool {
	_, ext, unfinished := parse(name)
	return ext == copyExt && !unfinished
}

// WriteCopy makes the copy of the object of a plan: fill writes it. It is executed without
// being read before, so that it waits for the disk, and its mtime, ns, is the object's, in
// whole microseconds: whoever writes to it later changes that.
func (s *Store) WriteCopy(plan string, mtime uint64, fill func(f *os.File) error) error {
	return s.write(CopyName(plan), func(f *os.File) error {
		if err := errors.Join(fill(f), f.Sync()); err != nil {
			return err
		}
		time := syscall.NsecToTimeval(int64(mtime / 1000 * 1000)) // which rounds up
		return syscall.Futimes(int(f.Fd()), []syscall.Timeval{time, time})
	})
}

// OpenCopy opens the copy of the object of a plan.
func (s *Store) OpenCopy(plan string) (*os.File, error) {
	return s.open(CopyName(plan), syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Remove removes a plan, and the copy of its object.
func (s *Store) Remove(plan string) error { return errors.Join(s.remove(plan), s.RemoveCopy(plan)) }

// RemoveCopy removes the copy of the object of a plan, if there is one.
func (s *Store) RemoveCopy(plan string) error {
	if err := s.remove(CopyName(plan)); err != syscall.ENOENT {
		return err
	}
	return nil
}

func (s *Store) remove(name string) error { return syscall.Unlinkat(s.dir, name) }

// Changed is when a file was made in the directory, or removed.
func (s *Store) Changed() time.Time {
	var st syscall.Stat_t
	if syscall.Fstat(s.dir, &st) != nil {
		return time.Now()
	}
	return time.Unix(st.Mtim.Unix())
}
