package build

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/dynprof/dynprof/internal/table/layout"
)

var le = binary.LittleEndian

// stringSink writes NUL-terminated strings; the offset 0 is the empty one.
type stringSink struct {
	*layout.Sink
	next uint32
}

func (s *stringSink) add(str string) uint32 {
	if str = storable(str); str == "" {
		return 0
	}
	at := s.next
	copy(s.Entry(len(str)+1), str)
	s.next += uint32(len(str) + 1)
	return at
}

// aliasSink writes lists of strings, each ended by 0; the index 0 is none.
type aliasSink struct {
	*layout.Sink
	next uint32
}

func (a *aliasSink) add(list []string, names *stringSink) uint32 {
	at := a.next
	for _, alias := range list {
		if off := names.add(alias); off != 0 {
			le.PutUint32(a.Entry(4), off)
			a.next++
		}
	}
	if a.next == at {
		return 0
	}
	a.Entry(4)
	a.next++
	return at
}

// writeSections writes all but the header, which it returns: the header is
// stored last.
func writeSections(w io.WriterAt, spec *Spec, g *layout.Geometry) (header []byte, err error) {
	names := &stringSink{layout.NewSink(w, g.Strings), 1}
	names.Entry(1)
	aliases := &aliasSink{layout.NewSink(w, g.Aliases), 1}
	aliases.Entry(4)
	header = encodeHeader(spec, g)
	le.PutUint32(header[layout.HdrProgram:], names.add(spec.Program))
	le.PutUint32(header[layout.HdrCreator:], names.add(spec.Creator))
	le.PutUint32(header[layout.HdrListen:], names.add(spec.Listen))
	le.PutUint32(header[layout.HdrArguments:], names.add(spec.Arguments))

	if err := writeLedger(w, spec, names, aliases, g.Objects, g.Functions); err != nil {
		return header, err
	}
	if spec.Blocks != nil {
		err = writeBlocks(w, spec.Blocks, g)
	}
	if spec.Sites != nil {
		err = errors.Join(err, writeSites(w, spec.Sites, g.Sites))
	}
	return header, err
}

func writeSites(w io.WriterAt, list *Sites, at layout.Section) error {
	sites := layout.NewSink(w, at)
	for s := range list.Each {
		s.Encode(sites.Entry(layout.StEntrySize))
	}
	return sites.Flush()
}

func writeBlocks(w io.WriterAt, list *Blocks, g *layout.Geometry) error {
	blocks, ways, loops := layout.NewSink(w, g.Blocks), layout.NewSink(w, g.Ways), layout.NewSink(w, g.Loops)
	for b := range list.Each {
		b.Encode(blocks.Entry(layout.BkEntrySize))
	}
	for v := range list.Ways {
		v.Encode(ways.Entry(layout.WyEntrySize))
	}
	for l := range list.Loops {
		l.Encode(loops.Entry(layout.LpEntrySize))
	}
	for _, s := range []*layout.Sink{blocks, ways, loops} {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// writeLedger writes objects and functions into sections that start where the
// first of them shall lie.
func writeLedger(w io.WriterAt, spec *Spec, names *stringSink, aliases *aliasSink, objectsAt, functionsAt layout.Section) error {
	objects := layout.NewSink(w, objectsAt)
	for i := range spec.Objects {
		o := &spec.Objects[i]
		o.Encode(objects.Entry(layout.ObjEntrySize), names.add(o.Path), names.add(o.BuildID))
	}
	functions := layout.NewSink(w, functionsAt)
	for f := range spec.functions() {
		f.Encode(functions.Entry(layout.FnEntrySize), names.add(f.Name), aliases.add(f.Aliases, names))
	}
	for _, s := range []*layout.Sink{objects, functions, aliases.Sink, names.Sink} {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// version is the least that a reader has to know.
func version(spec *Spec) uint32 {
	switch {
	case spec.Flags&layout.FlagSwitched != 0:
		return layout.VersionSwitched
	case spec.Flags&layout.FlagTrips != 0:
		return layout.VersionTrips
	case spec.Sites != nil:
		return layout.VersionSites
	case spec.Blocks != nil:
		return layout.VersionBlocks
	}
	return layout.Version
}

// encodeHeader fills in all but the nonce and the strings. State is
// StateBuilding.
func encodeHeader(spec *Spec, g *layout.Geometry) []byte {
	h := make([]byte, layout.HeaderSize)
	copy(h[layout.HdrMagic:], layout.Magic)
	le.PutUint32(h[layout.HdrVersion:], version(spec))
	le.PutUint32(h[layout.HdrHeaderSize:], layout.HeaderSize)
	le.PutUint32(h[layout.HdrFlags:], spec.Flags)
	le.PutUint32(h[layout.HdrPid:], spec.Pid)
	le.PutUint32(h[layout.HdrUID:], spec.UID)
	le.PutUint64(h[layout.HdrStartTicks:], spec.StartTicks)
	copy(h[layout.HdrBootID:], spec.BootID[:])
	le.PutUint64(h[layout.HdrPidNS:], spec.PidNS)
	le.PutUint64(h[layout.HdrRealtime:], uint64(spec.Realtime.UnixNano()))
	le.PutUint64(h[layout.HdrMonotonic:], spec.Monotonic)
	copy(h[layout.HdrRunID:], spec.RunID[:])
	le.PutUint64(h[layout.HdrThreshold:], spec.Threshold)
	le.PutUint64(h[layout.HdrReserve:], spec.Reserve)
	le.PutUint32(h[layout.HdrOverhead:], spec.Overhead)
	le.PutUint64(h[layout.HdrReserveUsed:], spec.ReserveUsed)
	layout.EncodeGeometry(h, g)
	le.PutUint32(h[layout.HdrRowsReserved:], RowsReserved)
	return h
}
