package live

import (
	"encoding/hex"
	"strconv"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// idBytes is how many bytes of a table's nonce tell it from all others of a user.
const idBytes = 6

// IDOf is what a table is known by as long as it exists, whatever its file is called. A copy
// is another than the table that it was made of.
func IDOf(h *layout.Header) string {
	id := hex.EncodeToString(h.Nonce[:idBytes])
	if !h.Snapshot.IsZero() {
		id += "-" + strconv.FormatInt(h.Snapshot.UnixMilli(), 36)
	}
	return id
}

// ID is what the table is known by.
func (p *Program) ID() string {
	p.changing.RLock()
	defer p.changing.RUnlock()
	return IDOf(&p.t.Header)
}

// Book is what the table says of program and functions; it is there before the first reading.
func (p *Program) Book() *top.Book {
	p.changing.RLock()
	defer p.changing.RUnlock()
	return p.book
}

// Path is that of the table.
func (p *Program) Path() string { return p.path }

// Called is the threads that called each of some functions, since the program began; a list
// for each function, most calls first.
func (p *Program) Called(functions []int) [][]top.Thread {
	p.changing.RLock()
	defer p.changing.RUnlock()
	all := make([][]top.Thread, len(functions))
	for i, function := range functions {
		d := &top.Detail{Function: function}
		if function >= 0 && function < len(p.t.Functions) {
			addThreads(d, p.t)
		}
		all[i] = d.Threads
	}
	return all
}
