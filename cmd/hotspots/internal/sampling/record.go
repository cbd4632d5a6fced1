package sampling

import (
	"bytes"
	"encoding/binary"
)

var le = binary.LittleEndian

// Kind is what a record tells.
type Kind uint8

// Kinds.
const (
	Sample    Kind = iota // where a thread is
	Mapped                // memory that can be executed was mapped
	Named                 // a thread has a name, or a process has executed a program
	Forked                // a thread or a process was made
	Exited                // a thread has ended
	Lost                  // records found no room
	Throttled             // the kernel has stopped the samples for a while
)

// Record is what the kernel tells. What a kind does not tell is not set.
type Record struct {
	Kind     Kind
	Pid, Tid uint32 // as hotspots sees them
	Time     uint64 // CLOCK_MONOTONIC, ns

	IP     uint64 // of Sample
	Kernel bool   // it is the kernel's

	Parent uint32 // process, of Forked

	Name     string // of Named; path of Mapped
	Executed bool   // of Named: a program was executed

	Start, Size, Offset uint64 // of Mapped
	Inode               uint64

	Count uint64 // of Lost
}

// HeaderSize is the size of a record's header; the record's is in its last two bytes.
const HeaderSize = 8

// trailerSize is that of what stands at the end of all but samples: process, thread, time.
const trailerSize = 16

// What a record's header says (linux/perf_event.h).
const (
	recordLost     = 2
	recordComm     = 3
	recordExit     = 4
	recordThrottle = 5
	recordFork     = 7
	recordSample   = 9
	recordMmap2    = 10

	miscMode = 7 // a mask
	miscUser = 2
	miscExec = 1 << 13
)

// SizeOf is a record's size, as its header says.
func SizeOf(header []byte) int { return int(le.Uint16(header[6:])) }

// Decode reads a record, of HeaderSize bytes or more. It reports whether it is of a kind that
// is known.
func (r *Record) Decode(b []byte) bool {
	kind, misc := le.Uint32(b), le.Uint16(b[4:])
	b = b[HeaderSize:]
	if kind == recordSample {
		return r.sample(b, misc)
	}
	if len(b) < trailerSize {
		return false
	}
	trailer := b[len(b)-trailerSize:]
	b = b[:len(b)-trailerSize]
	*r = Record{Pid: le.Uint32(trailer), Tid: le.Uint32(trailer[4:]), Time: le.Uint64(trailer[8:])}
	switch kind {
	case recordMmap2:
		return r.mapped(b)
	case recordComm:
		return r.named(b, misc)
	case recordFork, recordExit:
		return r.forked(b, kind)
	case recordLost:
		if len(b) < 16 {
			return false
		}
		r.Kind, r.Count = Lost, le.Uint64(b[8:])
		return true
	case recordThrottle:
		r.Kind = Throttled
		return true
	}
	return false
}

// sample reads address, process, thread, time.
func (r *Record) sample(b []byte, misc uint16) bool {
	if len(b) < 24 {
		return false
	}
	*r = Record{Kind: Sample, IP: le.Uint64(b), Pid: le.Uint32(b[8:]), Tid: le.Uint32(b[12:]), Time: le.Uint64(b[16:])}
	r.Kernel = misc&miscMode != miscUser
	return true
}

// mapped reads process, thread, address, length, offset, device, inode, its generation,
// protection, flags, path.
func (r *Record) mapped(b []byte) bool {
	const path = 64
	if len(b) < path {
		return false
	}
	r.Kind, r.Pid, r.Tid = Mapped, le.Uint32(b), le.Uint32(b[4:])
	r.Start, r.Size, r.Offset, r.Inode = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[40:])
	r.Name = text(b[path:])
	return true
}

func (r *Record) named(b []byte, misc uint16) bool {
	if len(b) < 8 {
		return false
	}
	r.Kind, r.Pid, r.Tid, r.Name = Named, le.Uint32(b), le.Uint32(b[4:]), text(b[8:])
	r.Executed = misc&miscExec != 0
	return true
}

// forked reads process, its parent, thread, its parent, time.
func (r *Record) forked(b []byte, kind uint32) bool {
	if len(b) < 24 {
		return false
	}
	r.Kind = Forked
	if kind == recordExit {
		r.Kind = Exited
	}
	r.Pid, r.Parent, r.Tid, r.Time = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint64(b[16:])
	return true
}

func text(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
