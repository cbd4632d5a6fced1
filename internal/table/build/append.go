package build

import (
	"errors"
	"io"
	"iter"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Memory is a table as a process that counts into it has it mapped: what lies in
// front of its rows.
type Memory interface {
	io.ReaderAt
	io.WriterAt
}

// Appender adds objects and functions to a table that a program counts into. No
// file is opened: the process may have changed its user, its root, or its
// directory since the start.
type Appender struct {
	layout.Geometry // as it was when the table was opened

	m    Memory
	head []byte
}

// ErrFull says that a table has no spare capacity left.
var ErrFull = errors.New("the count table has no room for more functions")

// OpenAppend opens the table in m. No other process adds to it: the caller holds
// HdrAppender.
func OpenAppend(m Memory) (*Appender, error) {
	head := make([]byte, layout.HeaderSize)
	if err := layout.ReadAt(m, head, 0); err != nil {
		return nil, err
	}
	g, err := layout.DecodeGeometry(head, int64(le.Uint64(head[layout.HdrFileSize:])))
	a := &Appender{g, m, head}
	if err == nil && le.Uint32(head[layout.HdrGeneration:])%2 != 0 {
		err = a.cut()
	}
	return a, err
}

// cut leaves out ways and loops of blocks that do not count: who added them died before
// these did.
func (a *Appender) cut() error {
	cut := func(s *layout.Section, block func([]byte) uint32) error {
		b := make([]byte, s.EntrySize)
		for ; s.Count > 0; s.Count-- {
			if err := layout.ReadAt(a.m, b, int64(s.Offset+uint64(s.Count-1)*uint64(s.EntrySize))); err != nil {
				return err
			}
			if block(b) < a.Blocks.Count {
				break
			}
		}
		return nil
	}
	return errors.Join(
		cut(&a.Ways, func(b []byte) uint32 { w := layout.DecodeWay(b); return w.Block() }),
		cut(&a.Loops, func(b []byte) uint32 { return layout.DecodeLoop(b).Header }))
}

// ReserveUsed is how much of the reserve that is kept was taken when the table
// was opened, bytes.
func (a *Appender) ReserveUsed() uint64 { return le.Uint64(a.head[layout.HdrReserveUsed:]) }

// Codes is how many numbers of instructions its objects have.
func (a *Appender) Codes() (n uint32, err error) {
	b := make([]byte, a.Objects.EntrySize)
	for i := range a.Objects.Count {
		if err := layout.ReadAt(a.m, b, int64(a.Objects.Offset+uint64(i)*uint64(a.Objects.EntrySize))); err != nil {
			return 0, err
		}
		if o := layout.DecodeObject(b); o.CodeCount > 0 {
			n = max(n, o.Codes+o.CodeCount-layout.FirstCode)
		}
	}
	return n, nil
}

// Shared reports whether all threads count into one row.
func (a *Appender) Shared() bool { return le.Uint32(a.head[layout.HdrFlags:])&layout.FlagShared != 0 }

// Room is capacity of a table: entries of sections, bytes of strings, counters of
// a row.
type Room struct {
	Objects, Functions, Aliases, Strings, Counters int
	Blocks, Ways, Loops, Sites                     int
}

// Left is the capacity that is not used yet.
func (a *Appender) Left() Room {
	left := func(s layout.Section) int { return int(s.Capacity - s.Count) }
	return Room{
		min(left(a.Objects), MaxObjects-int(a.Objects.Count)), left(a.Functions), left(a.Aliases), left(a.Strings),
		int(a.CountersCap - a.Counters), left(a.Blocks), left(a.Ways), left(a.Loops), left(a.Sites),
	}
}

// Take takes what o, its functions, and its blocks or call sites need out of r. It reports
// false, and takes nothing, if that is not there.
func (r *Room) Take(o *layout.Object, functions iter.Seq[*layout.Function], blocks Room) bool {
	n := *r
	n.Objects--
	n.Blocks, n.Ways, n.Loops, n.Counters = n.Blocks-blocks.Blocks, n.Ways-blocks.Ways, n.Loops-blocks.Loops, n.Counters-blocks.Counters
	n.Sites -= blocks.Sites
	n.Strings -= stored(o.Path) + stored(o.BuildID)
	for f := range functions {
		strings, aliases := lengths(f)
		n.Functions--
		n.Strings, n.Aliases = n.Strings-strings, n.Aliases-aliases
		if f.Counter != layout.NoCounter {
			n.Counters--
		}
	}
	if min(n.Objects, n.Functions, n.Aliases, n.Strings, n.Counters, n.Blocks, n.Ways, n.Loops, n.Sites) < 0 {
		return false
	}
	*r = n
	return true
}

// Add writes the objects and functions of spec, and their blocks or call sites, behind those
// that are there: the functions' objects, counters, and all numbers of blocks and sites, are
// those of the whole table. Room for the new counters in the rows is the program's business.
//
//  1. The generation becomes odd.
//  2. The entries are stored behind the counts.
//  3. The counts are stored, what is referred to before what refers to it: if we
//     die here, and the generation stays odd, the table is sound all the same.
//     Blocks come last, of which loops and ways are, or sites.
//  4. The generation becomes even again.
//
// A reader that saw an odd one, or two different ones, reads again.
func (a *Appender) Add(spec *Spec) error {
	nStrings, nAliases, functions, counters := measure(spec)
	g := a.Geometry
	grown := g
	grown.Objects.Count += uint32(len(spec.Objects))
	grown.Functions.Count += uint32(functions)
	grown.Aliases.Count += uint32(nAliases)
	grown.Strings.Count += uint32(nStrings)
	grown.Counters = max(g.Counters, uint32(counters))
	grown.Fired.Count = grown.Counters
	if b := spec.Blocks; b != nil {
		grown.Blocks.Count += uint32(length(b.Each))
		grown.Ways.Count += uint32(length(b.Ways))
		grown.Loops.Count += uint32(length(b.Loops))
	}
	if s := spec.Sites; s != nil {
		grown.Sites.Count += uint32(length(s.Each))
	}
	for _, s := range []layout.Section{grown.Objects, grown.Functions, grown.Aliases, grown.Strings, grown.Blocks, grown.Ways, grown.Loops, grown.Sites} {
		if s.Count > s.Capacity {
			return ErrFull
		}
	}
	if grown.Counters > g.CountersCap {
		return ErrFull
	}
	if err := a.reserve(&grown); err != nil {
		return err
	}
	generation := le.Uint32(a.head[layout.HdrGeneration:]) | 1
	if err := a.store32(layout.HdrGeneration, generation); err != nil {
		return err
	}
	if version := laterVersion(&g, &grown); version != 0 {
		if err := a.store32(layout.HdrVersion, version); err != nil {
			return err
		}
	}
	if err := a.write(spec); err != nil {
		return err
	}
	for _, s := range []struct {
		at    int64
		count uint32
	}{
		{layout.HdrCounters, grown.Counters},
		{layout.HdrFired + layout.SecCount, grown.Fired.Count},
		{layout.HdrStrings + layout.SecCount, grown.Strings.Count},
		{layout.HdrAliases + layout.SecCount, grown.Aliases.Count},
		{layout.HdrObjects + layout.SecCount, grown.Objects.Count},
		{layout.HdrFunctions + layout.SecCount, grown.Functions.Count},
		{layout.HdrLoops + layout.SecCount, grown.Loops.Count},
		{layout.HdrWays + layout.SecCount, grown.Ways.Count},
		{layout.HdrBlocks + layout.SecCount, grown.Blocks.Count},
		{layout.HdrSites + layout.SecCount, grown.Sites.Count},
	} {
		if err := a.store32(s.at, s.count); err != nil {
			return err
		}
	}
	if spec.Reserve != 0 {
		if _, err := a.m.WriteAt(le.AppendUint64(nil, spec.ReserveUsed), layout.HdrReserveUsed); err != nil {
			return err
		}
	}
	return a.store32(layout.HdrGeneration, generation+1)
}

// laterVersion is what a table says that grows; 0: as before.
func laterVersion(g, grown *layout.Geometry) uint32 {
	switch {
	case grown.Sites.Count > g.Sites.Count:
		return layout.VersionLateSites
	case grown.Blocks.Count > g.Blocks.Count:
		return layout.VersionLate
	}
	return 0
}

func (a *Appender) store32(at int64, v uint32) error {
	_, err := a.m.WriteAt(le.AppendUint32(nil, v), at)
	return err
}

// write stores the entries behind those that count.
func (a *Appender) write(spec *Spec) error {
	behind := func(s layout.Section) layout.Section {
		s.Offset += uint64(s.Count) * uint64(s.EntrySize)
		return s
	}
	names := &stringSink{layout.NewSink(a.m, behind(a.Strings)), a.Strings.Count}
	aliases := &aliasSink{layout.NewSink(a.m, behind(a.Aliases)), a.Aliases.Count}
	err := writeLedger(a.m, spec, names, aliases, behind(a.Objects), behind(a.Functions))
	if spec.Blocks != nil && err == nil {
		err = writeBlocks(a.m, spec.Blocks, &layout.Geometry{Blocks: behind(a.Blocks), Ways: behind(a.Ways), Loops: behind(a.Loops)})
	}
	if spec.Sites != nil && err == nil {
		err = writeSites(a.m, spec.Sites, behind(a.Sites))
	}
	return err
}

// reserve takes room for the fired words of the counters that are new.
func (a *Appender) reserve(g *layout.Geometry) error {
	if le.Uint32(a.head[layout.HdrFlags:])&layout.FlagThreshold == 0 {
		return nil
	}
	_, err := a.m.WriteAt(make([]byte, 4*(g.Counters-a.Counters)), int64(a.Fired.Offset)+4*int64(a.Counters))
	return err
}
