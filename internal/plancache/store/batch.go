package store

import "errors"

// Batch is the plans that one start writes. None of them goes for another of these: together they
// have no more bytes than all plans may.
type Batch struct {
	store *Store
	most  int64 // bytes of all plans
	size  int64 // of those that are written
	names []string
	looks bool // whether End does
}

// Begin begins a batch, where plans may have so many bytes at most.
func (s *Store) Begin(most int64) *Batch { return &Batch{store: s, most: most} }

// ErrTooLarge is why a plan is not kept: nobody would read it, or it would take the place of
// others of the same start.
var ErrTooLarge = errors.New("it is too large")

// Write is that of a Store, but for what is too large.
func (b *Batch) Write(name string, pieces ...[]byte) error {
	size := int64(0)
	for _, p := range pieces {
		size += int64(len(p))
	}
	if size > Largest || b.size+size > b.most {
		return ErrTooLarge
	}
	if err := b.store.Write(name, pieces...); err != nil {
		return err
	}
	b.size, b.names = b.size+size, append(b.names, name)
	b.looks = b.looks || isOneOfMany(name) || b.size > b.most/many
	return nil
}

// End has others go, the oldest first, if all are too many.
func (b *Batch) End() error {
	if !b.looks {
		return nil
	}
	return b.store.Trim(b.most, b.names...)
}

// many is of how many plans one, by its name, sees whether they are too many: to look at all of
// them takes longer than a small program's start. Large ones always do.
const many = 16

func isOneOfMany(name string) bool { return name[0] == '0' }
