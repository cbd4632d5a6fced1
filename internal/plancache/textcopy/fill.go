package textcopy

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/plancache/store"
)

// Fill makes the copies that plans written or used since a time have not yet, where they
// make starts shorter, and returns how many. What has been written in this moment waits for
// another time. Errors of single ones do not end it. What is too much then is trimmed.
func Fill(s *store.Store, since time.Time) (made int, err error) {
	plans, _, err := s.List()
	for _, f := range plans {
		const smallest = 8 << 10 // a plan that changes pages enough is longer
		if f.Copy > 0 || f.Size < smallest || f.Time.Before(since) {
			continue
		}
		switch failed := makeOf(s, f.Name); {
		case failed == nil:
			made++
		case !errors.Is(failed, errNotWanted):
			err = errors.Join(err, failed)
		}
	}
	if made > 0 {
		err = errors.Join(err, s.Trim(store.Most))
	}
	return made, err
}

var errNotWanted = errors.New("no start would be shorter")

func makeOf(s *store.Store, name string) error {
	p, err := read(s, name)
	if err != nil {
		return err
	}
	if !Wanted(p) {
		return errNotWanted
	}
	object, err := Open(p)
	if err == nil {
		defer object.Close()
		err = s.WriteCopy(name, p.File.Mtime, func(f *os.File) error { return Write(f, p, object) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	return nil
}

func read(s *store.Store, name string) (*plancache.Plan, error) {
	b, err := s.Read(name)
	if err != nil {
		return nil, err
	}
	return plancache.Decode(b)
}

// Open opens the object of a plan. Errors: ErrChanged, what opening says.
func Open(p *plancache.Plan) (*os.File, error) {
	f, err := os.OpenFile(string(p.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		st := fi.Sys().(*syscall.Stat_t)
		is := plancache.File{Inode: st.Ino, Size: uint64(st.Size), Mtime: uint64(st.Mtim.Nano()), Ctime: uint64(st.Ctim.Nano()), Head: p.File.Head}
		if is == p.File {
			return f, nil
		}
		err = ErrChanged
	}
	f.Close()
	return nil, err
}
