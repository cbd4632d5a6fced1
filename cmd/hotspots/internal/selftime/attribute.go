package selftime

import (
	"cmp"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Names of what is no object.
const (
	anonymous = "[anonymous]" // memory that the program fills with code itself
	unknown   = "[unknown]"
	heap      = "//anon" // as the kernel tells of anonymous memory
	reserve   = "/dev/zero"
	ownPrefix = "libdynprof"
)

// writeTable writes the times of a table.
func (s *Sampler) writeTable(e *find.Entry, of *images, ended bool) error {
	t, err := table.Open(e.Path)
	if err != nil {
		return err
	}
	defer t.Close()
	a := newAttributor(t, s.files)
	for at, spot := range of.counted.Spots {
		a.add(at, spot)
	}
	f := &cputime.File{
		Period: uint64(s.events.Period), Kernel: s.events.Kernel, Ended: ended, InKernel: of.counted.Kernel, Own: a.own, Guessed: a.guessed, Planner: of.counted.Planner,
		Lost: s.collector.Lost, Throttled: s.collector.Throttled, NewCPUs: s.newCPUs, Functions: a.list(),
	}
	for _, i := range of.others {
		f.Elsewhere += i.Kernel
		for _, spot := range i.Spots {
			f.Elsewhere += spot.Samples
		}
	}
	return f.Write(e.Path, t.Nonce)
}

// attributor adds samples up by function.
type attributor struct {
	t     *table.Table
	files files

	functions [][]int // by object: indices of functions, by address
	stubs     []int   // indices of functions that have one, by where that is
	rows      map[row]uint64
	own       uint64
	guessed   uint64 // found by stubs alone
}

// row is a function, in the ledger or not, or code in none.
type row struct {
	number          int // in the ledger, or -1
	object, buildID string
	address         uint64
	size            uint32
	name            string
}

func newAttributor(t *table.Table, files files) *attributor {
	a := &attributor{t: t, files: files, functions: make([][]int, len(t.Objects)), rows: map[row]uint64{}}
	for i := range t.Functions {
		f := &t.Functions[i]
		a.functions[f.Object] = append(a.functions[f.Object], i)
		if f.Counted() && f.StubSize > 0 {
			a.stubs = append(a.stubs, i)
		}
	}
	for _, list := range a.functions {
		slices.SortFunc(list, func(i, j int) int { return cmp.Compare(t.Functions[i].Address, t.Functions[j].Address) })
	}
	slices.SortFunc(a.stubs, func(i, j int) int { return cmp.Compare(a.stub(i), a.stub(j)) })
	return a
}

// stub is where the stub of function i is.
func (a *attributor) stub(i int) uint64 {
	f := &a.t.Functions[i]
	return a.t.Objects[f.Object].Arena + uint64(f.Stub)
}

// add adds the samples of a spot.
func (a *attributor) add(at sampling.Place, s *sampling.Spot) {
	if s.Origin != nil {
		at = *s.Origin
	}
	r, own := row{}, s.Own
	if !own {
		r, own = a.find(at)
	}
	if own {
		a.own += s.Samples
		return
	}
	a.rows[r] += s.Samples
	if !s.Looked && r.number >= 0 && a.isMoved(r.number, at.Address) {
		a.guessed += s.Samples
	}
}

// isMoved reports whether an address that was found to be of a function is not in its old
// body, or that does not run any more: only the process could tell what it is.
func (a *attributor) isMoved(i int, at uint64) bool {
	f := &a.t.Functions[i]
	entry := a.t.Objects[f.Object].Bias + f.Address
	return at-entry >= uint64(max(f.Size, 1)) || f.Tactic == ledger.TacticWholeBody && at != entry
}

// find tells what is at a place: a function, or code in none, or code of dynprof's own.
func (a *attributor) find(at sampling.Place) (r row, own bool) {
	if o := a.object(at); o >= 0 {
		return a.inObject(o, at.Address)
	}
	if at.In == nil || strings.HasPrefix(at.In.Path, reserve) {
		if i, ok := a.inArena(at.Address); ok {
			return a.ledger(i), false
		}
		if a.isArena(at.Address) || at.In != nil {
			return row{}, true
		}
		return row{number: -1, object: unknown}, false
	}
	if isOwn(at.In.Path) {
		return row{}, true
	}
	if !at.In.IsFile() {
		name := at.In.Path
		if name == heap {
			name = anonymous
		}
		return row{number: -1, object: name}, false
	}
	return a.inFile(at.In.Path, at.In.Inode, at.Address-at.In.Start+at.In.Offset), false
}

func isOwn(path string) bool { return strings.HasPrefix(filepath.Base(path), ownPrefix) }

// object is the one of the table that a place is in; -1 if there is none. What was closed may
// have left its addresses to others.
func (a *attributor) object(at sampling.Place) int {
	found := -1
	for i := range a.t.Objects {
		o := &a.t.Objects[i]
		if at.Address < o.Low || at.Address >= o.High {
			continue
		}
		if at.In == nil || base(at.In.Path) == base(o.Path) {
			return i
		}
		if o.Flags&layout.ObjLate == 0 && at.In.IsFile() || strings.HasPrefix(o.Path, "/proc/") {
			found = i // by another name
		}
	}
	return found
}

func base(path string) string { return strings.TrimSuffix(filepath.Base(path), " (deleted)") }

// inObject tells what is in an object of the table.
func (a *attributor) inObject(object int, at uint64) (r row, own bool) {
	o := &a.t.Objects[object]
	if isOwn(o.Path) {
		return row{}, true
	}
	addr := at - o.Bias
	list := a.functions[object]
	if len(list) == 0 { // it is not selected
		return a.named(o.Path, o.BuildID, a.files.read(o.Path, 0), addr), false
	}
	k := sort.Search(len(list), func(k int) bool { return a.t.Functions[list[k]].Address > addr }) - 1
	if k >= 0 && addr-a.t.Functions[list[k]].Address < uint64(max(a.t.Functions[list[k]].Size, 1)) {
		return a.ledger(list[k]), false
	}
	return row{number: -1, object: o.Path, buildID: o.BuildID}, false
}

// ledger is function i of the table.
func (a *attributor) ledger(i int) row {
	f := &a.t.Functions[i]
	return row{number: i, object: a.t.Objects[f.Object].Path, address: f.Address}
}

// inFile tells what is at an offset of a file that is no object of the table.
func (a *attributor) inFile(path string, inode, offset uint64) row {
	o := a.files.read(path, inode)
	if o == nil {
		return row{number: -1, object: path}
	}
	addr, ok := o.address(offset)
	if !ok {
		return row{number: -1, object: path, buildID: o.buildID}
	}
	return a.named(path, o.buildID, o, addr)
}

// named is the function at an address, as its file tells.
func (a *attributor) named(path, buildID string, o *object, addr uint64) row {
	r := row{number: -1, object: path, buildID: buildID}
	if o == nil {
		return r
	}
	if f := o.function(addr); f != nil {
		r.address, r.size, r.name = f.Addr, uint32(min(f.Size, 1<<32-1)), f.Name
	}
	return r
}

// inArena is the function whose stub an address is in: of a process that had ended before its
// own memory could tell. Code of a neighbour's that made room for a hop is taken for the
// function's that hops.
func (a *attributor) inArena(at uint64) (function int, ok bool) {
	k := sort.Search(len(a.stubs), func(k int) bool { return a.stub(a.stubs[k]) > at }) - 1
	if k < 0 {
		return 0, false
	}
	i := a.stubs[k]
	size := uint64(a.t.Functions[i].StubSize)
	const more = 1<<16 - 1 // it may be larger
	if size == more {
		size = 1 << 31
	}
	return i, at-a.stub(i) < size
}

// isArena reports whether an address is between the stubs of an arena, or in front of them.
func (a *attributor) isArena(at uint64) bool {
	k := sort.Search(len(a.stubs), func(k int) bool { return a.stub(a.stubs[k]) > at })
	return k < len(a.stubs) && at >= a.t.Objects[a.t.Functions[a.stubs[k]].Object].Arena
}

// list is what was found, those with most samples first.
func (a *attributor) list() []cputime.Function {
	all := make([]cputime.Function, 0, len(a.rows))
	for r, n := range a.rows {
		all = append(all, cputime.Function{Number: r.number, Object: r.object, BuildID: r.buildID, Address: r.address, Size: r.size, Name: r.name, Samples: n})
	}
	slices.SortFunc(all, func(a, b cputime.Function) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
	return all
}
