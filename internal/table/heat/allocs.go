package heat

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Allocs is the blocks of malloc that a program has and had, as hotspots run --allocs notes them, in a file
// beside its table.
type Allocs struct {
	Callers  []Caller `json:"-"`                  // who has asked, by return address
	Blocks   []Block  `json:"-"`                  // by address, then as they came
	Untold   uint64   `json:"untold,omitempty"`   // blocks that were given back, of which nothing is known but sums: there were too many at a time,
	Short    uint64   `json:"short,omitempty"`    // or they came and went between two looks, where there were more of these,
	Dropped  uint64   `json:"dropped,omitempty"`  // or there were too many later
	Unled    uint64   `json:"unled,omitempty"`    // libraries that came later of which a function was not seen
	Children uint64   `json:"children,omitempty"` // blocks that children asked for, of which nothing else is known

	table   string
	largest uint64 // bytes of a block; 0: it is not known yet
}

// Caller is who asks for blocks, by the address that this returns to; 0: others, for whom there was no room.
type Caller struct {
	Back   uint64
	Blocks uint64 // so far, and
	Bytes  uint64 // their bytes
	Freed  uint64 // blocks that were given back, and
	Gone   uint64 // their bytes
	Peak   uint64 // the most bytes at a time
	Unheld uint64 // blocks of which nothing is known but these sums
}

// Block is one, from when it was handed out until it was given back: in slices that end then or later, up to
// and with the first that does so.
type Block struct {
	Address uint64
	Bytes   uint64
	Caller  uint32 // in Callers
	Born    uint64 // nanoseconds since the program's start: not before
	Died    uint64 // not after; if it is not
	Live    bool
}

const (
	allocsVersion = 1
	allocsHead    = `{"dynprof_allocs":`

	recordCallers = 'c'
	recordBlocks  = 'b'
)

// ErrNoAllocs says that there is no such file, or of another table.
var (
	ErrNoAllocs      = errors.New("blocks of malloc were not noted")
	errDamagedAllocs = errors.New("a damaged file of blocks of malloc")
)

// AllocsPath is where the blocks of the table at a path are.
func AllocsPath(table string) string { return table + ".allocs" }

// ReadAllocs reads the blocks of a table, whose nonce is given. Without any the error is ErrNoAllocs.
func ReadAllocs(table string, nonce [16]byte) (*Allocs, error) {
	return beside.Read(AllocsPath(table), nonce, ErrNoAllocs, ParseAllocs, func(a *Allocs) string { return a.table })
}

type allocsLine struct {
	Version int    `json:"dynprof_allocs"`
	Table   string `json:"table"`
	*Allocs
}

func (a *Allocs) sort() {
	slices.SortFunc(a.Blocks, func(x, y Block) int {
		return cmp.Or(cmp.Compare(x.Address, y.Address), cmp.Compare(x.Born, y.Born), cmp.Compare(x.end(), y.end()))
	})
}

// end is when it was given back, for comparisons.
func (b *Block) end() uint64 {
	if b.Live {
		return 1<<64 - 1
	}
	return b.Died
}

// Write puts the file beside the table at a path.
func (a *Allocs) Write(table string, nonce [16]byte) error {
	line, err := json.Marshal(allocsLine{allocsVersion, beside.Nonce(nonce), a})
	if err != nil {
		return err
	}
	var callers, blocks []byte
	for _, c := range a.Callers {
		for _, n := range []uint64{c.Back, c.Blocks, c.Bytes, c.Freed, c.Gone, c.Peak, c.Unheld} {
			callers = binary.AppendUvarint(callers, n)
		}
	}
	at := uint64(0)
	for _, b := range a.Blocks {
		lived := uint64(0)
		if !b.Live {
			lived = b.Died - b.Born + 1
		}
		for _, n := range []uint64{(b.Address - at) >> layout.HeldUnit, b.Bytes, uint64(b.Caller), b.Born, lived} {
			blocks = binary.AppendUvarint(blocks, n)
		}
		at = b.Address
	}
	text := beside.AppendPart(append(line, '\n'), recordCallers, callers)
	return beside.Write(AllocsPath(table), allocsHead, "blocks of malloc", string(beside.AppendPart(text, recordBlocks, blocks)))
}

// ParseAllocs reads the format: blocks are by address.
func ParseAllocs(b []byte) (*Allocs, error) {
	line, records, _ := bytes.Cut(b, []byte("\n"))
	a := &Allocs{}
	h := allocsLine{Allocs: a}
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamagedAllocs, err)
	}
	if h.Version != allocsVersion {
		return nil, fmt.Errorf("a file of blocks of malloc of version %d: this hotspots knows %d", h.Version, allocsVersion)
	}
	a.table = h.Table
	for _, want := range []byte{recordCallers, recordBlocks} {
		if len(records) == 0 {
			return nil, errDamagedAllocs
		}
		kind, body, rest, err := cut(records)
		if err != nil || rest == nil || kind != want {
			return nil, errDamagedAllocs
		}
		n := numbers{body: body}
		if kind == recordCallers {
			a.readCallers(&n)
		} else {
			a.readBlocks(&n)
		}
		if n.short {
			return nil, errDamagedAllocs
		}
		records = rest
	}
	if len(records) > 0 {
		return nil, errDamagedAllocs
	}
	return a, nil
}

func (a *Allocs) readCallers(n *numbers) {
	for len(n.body) > 0 && !n.short {
		a.Callers = append(a.Callers, Caller{n.take(), n.take(), n.take(), n.take(), n.take(), n.take(), n.take()})
	}
}

func (a *Allocs) readBlocks(n *numbers) {
	for at := uint64(0); len(n.body) > 0 && !n.short; {
		gap, size, caller, born, lived := n.take(), n.take(), n.take(), n.take(), n.take()
		const end = 1 << layout.ShBits
		if gap >= end>>layout.HeldUnit || caller >= uint64(len(a.Callers)) || size > 1<<layout.HeldLook || at+gap<<layout.HeldUnit+size > end || lived > 0 && born+lived-1 < born {
			n.short = true
			return
		}
		at += gap << layout.HeldUnit
		one := Block{Address: at, Bytes: size, Caller: uint32(caller), Born: born, Live: lived == 0}
		if !one.Live {
			one.Died = born + lived - 1
		}
		a.Blocks = append(a.Blocks, one)
	}
}

// In calls use with each block that has a byte in some addresses, by address.
func (a *Allocs) In(from, to uint64, use func(*Block)) {
	// Blocks at a time do not lie upon each other, but those of other times may: the largest says from where.
	if a.largest == 0 {
		for i := range a.Blocks {
			a.largest = max(a.largest, a.Blocks[i].Bytes)
		}
	}
	low := from - min(from, a.largest)
	i := sort.Search(len(a.Blocks), func(i int) bool { return a.Blocks[i].Address >= low })
	for ; i < len(a.Blocks) && a.Blocks[i].Address < to; i++ {
		if b := &a.Blocks[i]; b.Address+b.Bytes > from {
			use(b)
		}
	}
}

// CopyAllocs copies the blocks of one table to the place of another's, a copy of it, if there are any.
func CopyAllocs(from, to string, nonce [16]byte) error {
	a, err := ReadAllocs(from, nonce)
	if errors.Is(err, ErrNoAllocs) {
		RemoveAllocs(to) // of a table that was there before
		return nil
	}
	if err != nil {
		return err
	}
	return a.Write(to, nonce)
}

// RemoveAllocs removes the blocks of a table that is removed.
func RemoveAllocs(table string) { beside.Remove(AllocsPath(table), allocsHead) }
