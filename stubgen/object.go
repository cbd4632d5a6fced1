// Package stubgen is the code of an object as those see it who plan how each of its
// function entries is patched, and generate the stubs. They are the packages below,
// each of which needs at most those in front of it:
//
//	emit       stubs and thunks: what is moved, how much room that takes, where it came from
//	survey     what the code does: one decoding of all functions
//	keep       what a function's callers rely on
//	entry      the tactic for each entry, or the reason why there is none
//	flow       whole functions in blocks, and where control goes
//	translate  whole functions as copies, with counters
//
// All are pure: they read code as bytes, make no system call and touch no memory but
// the buffers that they are given. Ask first, generate second: a survey decodes the
// object once, a plan says the tactic or the reason, the emitter writes the stub of a
// plan that was accepted.
package stubgen

import (
	"cmp"
	"debug/elf"
	"math"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
)

// Segment is a run of an object's bytes at a link-time address.
type Segment struct {
	Addr uint64
	Code []byte
	Tail bool // what is mapped behind a segment: the rest of its last page
}

// End is the first address behind the segment.
func (s Segment) End() uint64 { return s.Addr + uint64(len(s.Code)) }

// Object is what planning needs of one ELF object. All addresses are
// link-time addresses (those of the ELF file).
type Object struct {
	Bias         uint64             // run address minus link-time address
	Absolute     bool               // not position independent: code pointers have no relocations
	Go           bool               // it holds a Go runtime
	Given        bool               // and no libc: its own system calls, by numbers that are given, are kernel sites
	NoteCalls    bool               // a survey tells the direct calls
	Functions    []elfscan.Function // sorted, one for each address, exclusions included
	Text         []Segment          // executable, sorted by address
	Ranges       []elfscan.Range    // of it, where functions may lie
	DataInText   []elfscan.Range    // of it, what surely is data
	Data         []Segment          // readable, not executable: where jump tables lie
	Closed       []elfscan.Range    // of it, what is read-only, when the dynamic linker has filled it in
	CodePointers []uint64           // code addresses stored in data
	LandingPads  []uint64           // where the unwinder enters functions
	Restartable  []elfscan.Restartable
	SignalSites  []SignalSite    // patched with their own jumps, if traps are allowed
	Fixed        []Fixed         // what else must stay as it is
	Held         []elfscan.Range // where goroutines may be that go on there later: they run already; sorted
	Lines        []uint64        // where source lines start, if a debugger watches; sorted
}

// FromFile is an object as its file would lie in memory at link-time
// addresses plus bias.
func FromFile(scan *elfscan.Object, content []byte, bias uint64) *Object {
	o := &Object{
		Bias:         bias,
		Absolute:     scan.Type == elf.ET_EXEC,
		Go:           scan.Go,
		Functions:    scan.Functions,
		Ranges:       scan.Code,
		DataInText:   scan.DataInText,
		CodePointers: scan.CodePointers,
		LandingPads:  scan.LandingPads,
		Restartable:  scan.Restartable,
	}
	for _, s := range scan.Segments {
		if s.FileSize == 0 {
			continue
		}
		seg := Segment{Addr: s.Addr, Code: content[s.Offset : s.Offset+s.FileSize]}
		if s.Flags&elf.PF_X != 0 {
			o.Text = append(o.Text, seg)
			continue
		}
		if o.Data = append(o.Data, seg); s.Flags&elf.PF_W == 0 {
			o.Closed = append(o.Closed, elfscan.Range{Low: seg.Addr, High: seg.End()})
		}
	}
	o.AddTails(scan, func(s elfscan.Segment, n uint64) []byte {
		tail := make([]byte, n) // behind the end of the file there are zeros
		copy(tail, content[s.Offset+s.FileSize:])
		return tail
	})
	return o
}

// AddTails adds the rest of the last page of every segment of text. It is
// mapped, too, and where it is padding there is room for islands. read returns
// the n bytes behind s as they are mapped, or nil.
func (o *Object) AddTails(scan *elfscan.Object, read func(s elfscan.Segment, n uint64) []byte) {
	for _, s := range scan.Segments {
		end := s.Addr + s.FileSize
		n := -end % pageSize
		if s.Flags&elf.PF_X == 0 || s.Flags&elf.PF_W != 0 || s.FileSize != s.MemSize || n == 0 || o.Code(end-1) == nil {
			continue
		}
		if slices.ContainsFunc(scan.Segments, func(t elfscan.Segment) bool { return t.Addr >= end && t.Addr < end+n }) {
			continue
		}
		if code := read(s, n); code != nil {
			o.Text = append(o.Text, Segment{end, code, true})
		}
	}
	slices.SortFunc(o.Text, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
}

const pageSize = 4096

// Run turns a link-time address into the address where it runs.
func (o *Object) Run(addr uint64) x86.RunAddr { return x86.RunAddr(addr + o.Bias) }

// Code returns the bytes from addr to the end of its executable segment, nil
// if it lies in none.
func (o *Object) Code(addr uint64) []byte { return bytesAt(o.Text, addr) }

// Bytes returns the bytes from addr to the end of its segment of any kind.
func (o *Object) Bytes(addr uint64) []byte {
	if b := bytesAt(o.Data, addr); b != nil {
		return b
	}
	return bytesAt(o.Text, addr)
}

// Constant returns n bytes of data from addr on that nobody writes, nil if they are no such.
func (o *Object) Constant(addr uint64, n int) []byte {
	b := o.Bytes(addr)
	if n < 0 || len(b) < n {
		return nil
	}
	isIn := func(r elfscan.Range) bool { return r.Low <= addr && addr+uint64(n) <= r.High }
	if !slices.ContainsFunc(o.Closed, isIn) {
		return nil
	}
	return b[:n]
}

func bytesAt(segments []Segment, addr uint64) []byte {
	for i := range segments {
		if s := &segments[i]; addr >= s.Addr && addr-s.Addr < uint64(len(s.Code)) {
			return s.Code[addr-s.Addr:]
		}
	}
	return nil
}

// FunctionAt returns the index of the last function that starts at or before
// addr, -1 if none does.
func (o *Object) FunctionAt(addr uint64) int {
	return sort.Search(len(o.Functions), func(i int) bool { return o.Functions[i].Addr > addr }) - 1
}

// MayBeHeld reports whether a goroutine may go on in [low, high).
func (o *Object) MayBeHeld(low, high uint64) bool {
	i := sort.Search(len(o.Held), func(i int) bool { return o.Held[i].High > low })
	return i < len(o.Held) && o.Held[i].Low < high
}

// Body returns the bytes of function i, cut at the end of its segment.
func (o *Object) Body(i int) []byte {
	f := &o.Functions[i]
	code := o.Code(f.Addr)
	if uint64(len(code)) > f.Size {
		code = code[:f.Size]
	}
	return code
}

// CodeSize is how many bytes of the object may be in functions.
func (o *Object) CodeSize() uint32 {
	n := uint64(0)
	for _, r := range o.Ranges {
		n += r.High - r.Low
	}
	return uint32(min(n, math.MaxUint32))
}
