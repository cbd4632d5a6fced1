package harvest

import (
	"time"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// blocks are those of malloc, where they are noted.
type blocks struct {
	held  *heat.Held // nil: they are not
	told  time.Time
	next  time.Duration // behind that
	isNew bool          // the program has done something since
	err   error
}

func (b *blocks) start(shadow *heat.Shadow) {
	b.held, b.err = shadow.Held()
}

// look begins a slice.
func (b *blocks) look() {
	if b.held != nil {
		b.held.Look()
	}
}

// tell writes all of them beside the table now and then, so that they are there if this process is killed.
func (b *blocks) tell(h *Harvester, happened bool) {
	b.isNew = b.isNew || happened
	if b.held == nil || !b.isNew || !h.log.IsOpen() || time.Since(b.told) < b.next {
		return
	}
	begun := time.Now()
	b.err = b.write(h, h.table.Path(), h.table.Nonce)
	b.told, b.isNew = time.Now(), false
	b.next = max(min(max(tellOften, 2*b.next), whoSeldom), part*time.Since(begun))
}

func (b *blocks) write(h *Harvester, path string, nonce [16]byte) error {
	a, err := b.held.Allocs(h.begun)
	if err != nil {
		return err
	}
	return a.Write(path, nonce)
}

// end writes what there was, when the program has ended.
func (b *blocks) end(h *Harvester, path string, nonce [16]byte) error {
	if b.held == nil {
		return b.err
	}
	defer b.held.Leave()
	return b.write(h, path, nonce)
}
