package table

import (
	"encoding/binary"
	"io"
)

var le = binary.LittleEndian

// chunk is how much is written or read at once, bytes.
const chunk = 256 << 10

// sink collects a section's bytes and writes them in large pieces.
type sink struct {
	w   io.WriterAt
	off int64
	buf []byte
	err error // the first; later writes do nothing
}

func newSink(w io.WriterAt, s Section) *sink {
	n := min(uint64(s.Count)*uint64(s.EntrySize), chunk)
	return &sink{w: w, off: int64(s.Offset), buf: make([]byte, 0, n+2*MaxString)}
}

// entry returns n zero bytes at the section's end, to be filled at once.
func (s *sink) entry(n int) []byte {
	if len(s.buf) >= chunk {
		s.flush()
	}
	old := len(s.buf)
	s.buf = append(s.buf, make([]byte, n)...)
	return s.buf[old:]
}

// last returns the last n bytes of the entry that was added last.
func (s *sink) last(n int) []byte { return s.buf[len(s.buf)-n:] }

func (s *sink) flush() {
	if s.err == nil && len(s.buf) > 0 {
		_, s.err = s.w.WriteAt(s.buf, s.off)
		s.off += int64(len(s.buf))
	}
	s.buf = s.buf[:0]
}

// stringSink writes NUL-terminated strings; the offset 0 is the empty one.
type stringSink struct {
	*sink
	next uint32
}

func (s *stringSink) add(str string) uint32 {
	if str = storable(str); str == "" {
		return 0
	}
	at := s.next
	copy(s.entry(len(str)+1), str)
	s.next += uint32(len(str) + 1)
	return at
}

// aliasSink writes lists of strings, each ended by 0; the index 0 is none.
type aliasSink struct {
	*sink
	next uint32
}

func (a *aliasSink) add(list []string, names *stringSink) uint32 {
	at := a.next
	for _, alias := range list {
		if off := names.add(alias); off != 0 {
			le.PutUint32(a.entry(4), off)
			a.next++
		}
	}
	if a.next == at {
		return 0
	}
	a.entry(4)
	a.next++
	return at
}

// writeSections writes all but the header, which it returns: the header is
// stored last.
func writeSections(w io.WriterAt, spec *Spec, g *Geometry) (header []byte, err error) {
	names := &stringSink{newSink(w, g.Strings), 1}
	names.entry(1)
	aliases := &aliasSink{newSink(w, g.Aliases), 1}
	aliases.entry(4)
	header = encodeHeader(spec, g)
	le.PutUint32(header[HdrProgram:], names.add(spec.Program))
	le.PutUint32(header[HdrCreator:], names.add(spec.Creator))
	le.PutUint32(header[HdrListen:], names.add(spec.Listen))

	return header, writeLedger(w, spec, names, aliases, g.Objects, g.Functions)
}

// writeLedger writes objects and functions into sections that start where the
// first of them shall lie.
func writeLedger(w io.WriterAt, spec *Spec, names *stringSink, aliases *aliasSink, objectsAt, functionsAt Section) error {
	objects := newSink(w, objectsAt)
	for i := range spec.Objects {
		o := &spec.Objects[i]
		encodeObject(objects.entry(ObjEntrySize), o, names.add(o.Path), names.add(o.BuildID))
	}
	functions := newSink(w, functionsAt)
	for f := range spec.functions() {
		encodeFunction(functions.entry(FnEntrySize), f, names.add(f.Name), aliases.add(f.Aliases, names))
	}
	for _, s := range []*sink{objects, functions, aliases.sink, names.sink} {
		if s.flush(); s.err != nil {
			return s.err
		}
	}
	return nil
}

func encodeObject(b []byte, o *Object, path, buildID uint32) {
	le.PutUint32(b[ObjPath:], path)
	le.PutUint32(b[ObjBuildID:], buildID)
	le.PutUint64(b[ObjBias:], o.Bias)
	le.PutUint64(b[ObjArena:], o.Arena)
	le.PutUint64(b[ObjLow:], o.Low)
	le.PutUint64(b[ObjHigh:], o.High)
	le.PutUint32(b[ObjFlags:], o.Flags)
	b[ObjReason] = uint8(o.Reason)
	le.PutUint64(b[ObjReserve:], o.Reserve)
}

func encodeFunction(b []byte, f *Function, name, aliases uint32) {
	le.PutUint64(b[FnAddress:], f.Address)
	le.PutUint32(b[FnSize:], f.Size)
	le.PutUint32(b[FnName:], name)
	le.PutUint32(b[FnAliases:], aliases)
	le.PutUint32(b[FnCounter:], f.Counter)
	le.PutUint32(b[FnStub:], f.Stub)
	le.PutUint32(b[FnThreshold:], f.Threshold)
	le.PutUint16(b[FnObject:], f.Object)
	le.PutUint16(b[FnStubSize:], f.StubSize)
	b[FnSource] = uint8(f.Source)
	b[FnTactic] = uint8(f.Tactic)
	b[FnReason] = uint8(f.Reason)
	b[FnCount] = f.Count
}

// encodeHeader fills in all but the nonce and the strings. State is
// StateBuilding.
func encodeHeader(spec *Spec, g *Geometry) []byte {
	h := make([]byte, HeaderSize)
	copy(h[HdrMagic:], Magic)
	le.PutUint32(h[HdrVersion:], Version)
	le.PutUint32(h[HdrHeaderSize:], HeaderSize)
	le.PutUint32(h[HdrFlags:], spec.Flags)
	le.PutUint32(h[HdrPid:], spec.Pid)
	le.PutUint32(h[HdrUID:], spec.UID)
	le.PutUint64(h[HdrStartTicks:], spec.StartTicks)
	copy(h[HdrBootID:], spec.BootID[:])
	le.PutUint64(h[HdrPidNS:], spec.PidNS)
	le.PutUint64(h[HdrRealtime:], uint64(spec.Realtime.UnixNano()))
	le.PutUint64(h[HdrMonotonic:], spec.Monotonic)
	copy(h[HdrRunID:], spec.RunID[:])
	le.PutUint64(h[HdrThreshold:], spec.Threshold)
	le.PutUint64(h[HdrReserve:], spec.Reserve)
	le.PutUint64(h[HdrReserveUsed:], spec.ReserveUsed)
	encodeGeometry(h, g)
	le.PutUint32(h[HdrRowsReserved:], RowsReserved)
	return h
}

func encodeGeometry(h []byte, g *Geometry) {
	le.PutUint64(h[HdrFileSize:], g.Size)
	for at, s := range map[int]Section{
		HdrObjects: g.Objects, HdrFunctions: g.Functions, HdrAliases: g.Aliases, HdrStrings: g.Strings,
		HdrEvents: g.Events, HdrFired: g.Fired, HdrRows: g.Rows,
		HdrFormers: g.Formers, HdrBaselines: g.Baselines, HdrMissed: g.Missed,
	} {
		encodeSection(h[at:], s)
	}
	le.PutUint32(h[HdrCounters:], g.Counters)
	le.PutUint32(h[HdrCountersCap:], g.CountersCap)
}

func encodeSection(b []byte, s Section) {
	le.PutUint64(b[SecOffset:], s.Offset)
	le.PutUint32(b[SecCount:], s.Count)
	le.PutUint32(b[SecCapacity:], s.Capacity)
	le.PutUint32(b[SecEntrySize:], s.EntrySize)
}
