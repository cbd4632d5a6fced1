package edit

import (
	"errors"
	"hash/maphash"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// foldAtATime is how many tables are held while their counts are added up: each is an
// open file.
const foldAtATime = 64

// foldCounters is how many counters a table may have to be folded: they are added up in
// memory. Programs of so many functions are not short.
const foldCounters = 1 << 20

// Fold makes one table of many that hold the same functions: those of short programs, of
// which a run may execute thousands. Of each program that has at least so many among paths,
// or into whose table others were folded before, one gets the counts of all, and the calls of
// each process by its number; the others are gone. A table stays that somebody has open,
// whose process lives, or that says more of it than counts (see onlyCounts). It returns how
// many are gone.
//
//  1. A write lease on each keeps others from opening it.
//  2. The sums are written aside, with the nonces of all, and take the place of one of them.
//  3. The others are removed. Who is killed before that leaves tables whose nonces another
//     lists: who finds both leaves them out (package find).
func Fold(paths []string, least int) (gone int, err error) {
	groups, listed := map[foldKey]*foldGroup{}, map[[16]byte]bool{}
	for _, path := range paths {
		key, m, err := lookAt(path)
		if err != nil {
			continue // it stays
		}
		g := groups[key]
		if g == nil {
			g = &foldGroup{}
			groups[key] = g
		}
		g.add(m)
		for i := range m.folded {
			if n := m.folded[i].Nonce; n != m.nonce {
				listed[n] = true
			}
		}
	}
	var failed error
	for _, g := range groups {
		if len(g.members) < least && len(g.members[0].folded) == 0 {
			continue
		}
		n, err := g.fold(listed)
		gone, failed = gone+n, errors.Join(failed, err)
	}
	return gone, failed
}

// foldKey is the same for tables that can be folded: two hashes of what they say of their
// functions, and where they are.
type foldKey struct {
	dir  string
	hash [2]uint64
}

// foldMember is a table as it was when it was looked at.
type foldMember struct {
	path       string
	nonce      [16]byte
	generation uint32
	folded     []layout.Folded
}

// foldGroup is tables that can be folded. The first gets the counts.
type foldGroup struct{ members []foldMember }

func (g *foldGroup) add(m foldMember) {
	g.members = append(g.members, m)
	if last := len(g.members) - 1; len(m.folded) > 0 && len(g.members[0].folded) == 0 {
		g.members[0], g.members[last] = g.members[last], g.members[0]
	}
}

// fold folds the group, some at a time. Those that are listed were folded before (step 3).
func (g *foldGroup) fold(listed map[[16]byte]bool) (gone int, err error) {
	into := g.members[0]
	var rest []foldMember
	for _, m := range g.members[1:] {
		if !listed[m.nonce] {
			rest = append(rest, m)
		} else if h, err := hold(m); err == nil {
			if os.Remove(m.path) == nil {
				gone++
			}
			h.Close()
		}
	}
	for len(rest) > 0 {
		some := rest[:min(len(rest), foldAtATime)]
		n, err := foldInto(into, some)
		if gone += n; err == ErrInUse && len(into.folded) == 0 {
			into, rest = rest[0], rest[1:]
			continue
		}
		if err == ErrInUse {
			break // another time
		}
		if err != nil {
			return gone, err
		}
		rest = rest[len(some):]
	}
	return gone, nil
}

var errNotFolded = errors.New("it says more of its process than counts")

// lookAt says with which others a table can be folded.
func lookAt(path string) (key foldKey, m foldMember, err error) {
	f, err := file.Open(path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return key, m, err
	}
	defer f.Close()
	head, err := readHead(f)
	if err != nil {
		return key, m, err
	}
	if !hasEnded(f) {
		return key, m, ErrInUse
	}
	if !onlyCounts(&f.Geometry, head) {
		return key, m, errNotFolded
	}
	m = foldMember{path: path, nonce: f.Nonce, generation: f.Generation}
	if m.folded, err = f.Folded(); err != nil {
		return key, m, err
	}
	key.dir = filepath.Dir(path)
	key.hash, err = hashLedger(f, head)
	return key, m, err
}

// hasEnded reports whether the process that the table was made for has ended. Before a process
// has mapped its table nobody may have that open.
func hasEnded(f *file.File) bool {
	return alive.SameKernel(&f.Identity) && alive.SamePidNS(&f.Identity) && alive.Start(f.Pid) != f.StartTicks
}

// onlyCounts reports whether all that a table says of its process beside its calls is in the
// list of processes too: nothing was lost or refused, there are no events, it was not reset,
// its command line was not kept, and it is no copy.
func onlyCounts(g *layout.Geometry, head []byte) bool {
	for _, at := range []int{
		layout.HdrThreadsDiscarded, layout.HdrObjectsMissed, layout.HdrPatchesRefused, layout.HdrMissedHead, layout.HdrStopped,
		layout.HdrLoose, layout.HdrDispatched, layout.HdrListen, layout.HdrEnded, layout.HdrArguments,
	} {
		if le.Uint32(head[at:]) != 0 {
			return false
		}
	}
	for _, at := range []int{
		layout.HdrEventsHead, layout.HdrEventsLost, layout.HdrDropped, layout.HdrTranslatorFailures,
		layout.HdrBaseline, layout.HdrSnapshot, layout.HdrCodeAnonymous, layout.HdrCodeInFiles,
	} {
		if le.Uint64(head[at:]) != 0 {
			return false
		}
	}
	if le.Uint32(head[layout.HdrFlags:])&layout.FlagTrips != 0 {
		return false // the least and the most of two rows are no sums
	}
	return g.Counters <= foldCounters && le.Uint32(head[layout.HdrGeneration:])%2 == 0 // odd: its adder died halfway
}

var foldSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// hashLedger hashes all that makes counts of one table mean the same in another. Where objects
// and their code were in memory is not of that, nor whether there was a plan of them.
func hashLedger(f *file.File, head []byte) (hash [2]uint64, err error) {
	var h [2]maphash.Hash
	for i := range h {
		h[i].SetSeed(foldSeeds[i])
	}
	add := func(b []byte) {
		h[0].Write(b)
		h[1].Write(b)
	}
	word := func(n uint32) { add(le.AppendUint32(nil, n)) }
	word(le.Uint32(head[layout.HdrVersion:]))
	word(f.Flags &^ layout.FlagWarm)
	for _, at := range []int{layout.HdrUID, layout.HdrThreshold, layout.HdrThreshold + 4, layout.HdrProgram, layout.HdrCreator, layout.HdrCounters, layout.HdrBlocksFirst, layout.HdrBlocksCount} {
		word(le.Uint32(head[at:]))
	}
	add(f.RunID[:])
	for _, s := range []struct {
		layout.Section
		clean func([]byte) error
	}{
		{f.Geometry.Objects, cleanObject}, {f.Geometry.Functions, cleanFunction}, {f.Geometry.Aliases, nil}, {f.Geometry.Strings, nil},
		{f.Geometry.Blocks, cleanBlock}, {f.Geometry.Ways, nil}, {f.Geometry.Loops, nil},
		{f.Geometry.Sites, cleanSite},
	} {
		word(s.Count)
		word(s.EntrySize)
		err := f.EachChunk(s.Section, func(b []byte) error {
			for rest := b; s.clean != nil && len(rest) > 0; rest = rest[s.EntrySize:] {
				if err := s.clean(rest[:s.EntrySize]); err != nil {
					return err
				}
			}
			add(b)
			return nil
		})
		if err != nil {
			return hash, err
		}
	}
	return [2]uint64{h[0].Sum64(), h[1].Sum64()}, nil
}

func cleanObject(b []byte) error {
	if o := layout.DecodeObject(b); o.Sets > 0 {
		return errNotFolded // callees are noted by where they were in memory
	}
	clear(b[layout.ObjBias:layout.ObjFlags])
	le.PutUint32(b[layout.ObjFlags:], le.Uint32(b[layout.ObjFlags:])&^layout.ObjCached)
	if len(b) >= layout.ObjReserve+8 {
		clear(b[layout.ObjReserve : layout.ObjReserve+8])
	}
	return nil
}

func cleanFunction(b []byte) error {
	clear(b[layout.FnStub : layout.FnStub+4])
	clear(b[layout.FnStubSize : layout.FnStubSize+2])
	b[layout.FnCount] = 0
	return nil
}

func cleanSite(b []byte) error {
	clear(b[layout.StStub : layout.StStub+4])
	clear(b[layout.StCount : layout.StCount+4])
	return nil
}

func cleanBlock(b []byte) error {
	if le.Uint32(b[layout.BkFlags:])&layout.BlockNote != 0 {
		return errNotFolded
	}
	return nil
}

// held is a table that nobody else can open.
type held struct {
	*file.File
	head []byte
}

// hold opens a table and takes its lease, if it is still as it was.
func hold(m foldMember) (*held, error) {
	f, err := file.Open(m.path, os.O_RDWR|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	h := &held{File: f}
	if err = lease(f); err == nil {
		h.head, err = readHead(f)
	}
	if err == nil && (f.Nonce != m.nonce || f.Generation != m.generation || !onlyCounts(&f.Geometry, h.head)) {
		err = ErrInUse
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return h, nil
}

// foldInto adds the counts of tables to one's. It is ErrInUse if that is not free any more; one
// of the others stays then.
func foldInto(m foldMember, others []foldMember) (gone int, err error) {
	into, err := hold(m)
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrInUse
	}
	if err != nil {
		return 0, err
	}
	defer into.Close()
	var all foldSum
	if err := all.add(into); err != nil {
		return 0, err
	}
	var rest []*held
	for _, other := range others {
		h, err := hold(other)
		if err != nil {
			continue
		}
		defer h.Close()
		if all.add(h) == nil {
			rest = append(rest, h)
		}
	}
	if len(rest) == 0 {
		return 0, nil
	}
	err = replace(m.path, func(to *os.File) error {
		if err := likeIt(into.File, to); err != nil {
			return err
		}
		return all.write(into, to)
	})
	for i := 0; i < len(rest) && err == nil; i++ {
		if err = os.Remove(rest[i].Path()); err == nil {
			gone++
		}
	}
	return gone, err
}

// foldWords are words of the header of which there is one sum.
var foldWords = [...]int{layout.HdrProcesses, layout.HdrExecuted, layout.HdrWentOn}

// foldSum is what tables hold together.
type foldSum struct {
	calls     []uint64 // by counter
	processes []layout.Folded
	words     [len(foldWords)]uint32
}

// add adds a table, or nothing.
func (s *foldSum) add(h *held) error {
	calls, err := (&table.Table{File: h.File}).SumCounters(0, h.Counters)
	if err != nil {
		return err
	}
	processes, err := h.Folded()
	if err == nil && len(processes) == 0 {
		processes, err = process(h.File, calls)
	}
	if err != nil {
		return err
	}
	if s.calls == nil {
		s.calls = make([]uint64, len(calls))
	}
	for i, n := range calls {
		s.calls[i] += n
	}
	s.processes = append(s.processes, processes...)
	for i, at := range foldWords {
		s.words[i] += le.Uint32(h.head[at:])
	}
	return nil
}

// process is the one that has counted so much into a table, by counter, and its children.
func process(f *file.File, calls []uint64) ([]layout.Folded, error) {
	p := layout.Folded{Nonce: f.Nonce, Time: f.Realtime, Pid: f.Pid}
	var err error
	if p.Calls, err = table.Calls(f, calls); err != nil {
		return nil, err
	}
	err = f.EachRow(func(r layout.Row) {
		if r.Held() {
			p.Threads++
		}
	})
	return []layout.Folded{p}, err
}

// write writes a compact table with what into says of the functions, and one row.
func (s *foldSum) write(into *held, to *os.File) error {
	head := into.head
	clear(head[layout.HdrPauseLock:layout.HdrReserveUsed])
	clear(head[layout.HdrStockHead:layout.HdrDropped]) // lists of rows
	for i, at := range foldWords {
		le.PutUint32(head[at:], s.words[i])
	}
	le.PutUint32(head[layout.HdrRowsUsed:], 1)
	le.PutUint32(head[layout.HdrRowsReserved:], 1)
	le.PutUint64(head[layout.HdrFormersHead:], 0)

	g := into.Geometry
	g.Folded = layout.Section{Offset: layout.HeaderSize, Count: uint32(len(s.processes)), Capacity: uint32(len(s.processes)), EntrySize: layout.FdEntrySize}
	p := tight(&g, head)
	ledger := p
	ledger.Folded = layout.Section{} // it is not moved, but written
	if err := moveLedger(into.File, to, &ledger); err != nil {
		return err
	}
	if err := moveBaseline(into.File, to, head, &p); err != nil {
		return err
	}
	processes := layout.NewSink(to, p.Folded)
	for i := range s.processes {
		s.processes[i].Encode(processes.Entry(layout.FdEntrySize))
	}
	row := layout.NewSink(to, p.Rows)
	b := row.Entry(layout.RowCounters)
	le.PutUint32(b[layout.RowState:], layout.RowFree)
	le.PutUint64(b[layout.RowBase:], layout.ManyOwners)
	for _, n := range s.calls {
		le.PutUint64(row.Entry(8), n)
	}
	if err := errors.Join(processes.Flush(), row.Flush()); err != nil {
		return err
	}
	layout.EncodeGeometry(head, &p)
	return writeAt(to, head, 0)
}
