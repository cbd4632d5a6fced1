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
	if err := isOf(p, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isOf(p *plancache.Plan, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	st := fi.Sys().(*syscall.Stat_t)
	is := p.File
	is.Inode, is.Size, is.Mtime, is.Ctime = st.Ino, uint64(st.Size), uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano())
	if is == p.File && !plancache.TimesTell(is.Mtime, is.Ctime) {
		is.Content, err = plancache.ContentOf(f, is.Size)
	}
	if err == nil && is != p.File {
		err = ErrChanged
	}
	return err
}
