// Package emit writes what runs in arenas: stubs, thunks, cold blocks, keep blocks; and
// tells of all of it where it came from. How much room that takes can be asked first.
package emit

import (
	"fmt"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Alignment of stubs, in bytes: a stub's first two bytes, which pausing
// exchanges, never cross a cache line.
const Alignment = 16

// ColdSize is the room that one function's cold block takes.
const ColdSize = 32

// redZone is what the System V ABI (3.2.2) lets a leaf function use below RSP.
const redZone = 128

// Count says what a stub counts and where its cold path is.
type Count struct {
	Counter   int32       // displacement of the counter from the GS base
	Shared    x86.RunAddr // unless 0, where the counter of all threads is, instead
	Index     int32       // number of the counter, for the cold path
	Threshold int32       // calls at which the function fires; 0 is never

	// Of the cold path, only used with a threshold.
	Cold       []byte      // ColdSize bytes to write it to
	ColdAt     x86.RunAddr // where they run
	ColdCommon x86.RunAddr // the arena's entry to the slow path

	// Of a redirectable stub (redirect.go).
	Front      []byte      // Spec.Front bytes: what lies in front of the stub
	Pointers   []byte      // PointersSize bytes: what the pointers are at first
	PointersAt x86.RunAddr // where they are in the process
}

// Stub is what Emit wrote.
type Stub struct {
	At   x86.RunAddr // its first instruction
	Body uint32      // offset of what follows the count: where loops to the entry lead
	Len  uint32      // bytes written

	// Where the copies of the instructions in the window are, by
	// their distance from its start; 0 where none starts.
	inside [stubgen.WindowSize]uint8
}

// Place is where a lead to link-time address to enters the stub of the window at
// start.
func (s *Stub) Place(start, to uint64) x86.RunAddr {
	if off := to - start; off < stubgen.WindowSize && off > 0 && s.inside[off] > 0 {
		return s.At.Add(int(s.Body) + int(s.inside[off]))
	}
	return s.At.Add(int(s.Body))
}

// Emitter writes stubs. It holds only scratch space and Origins, which tells of
// all that it wrote, if it is not nil: use one for each goroutine.
type Emitter struct {
	Origins *Origins

	asm, cold, before x86.Asm
	rel               relocator
}

// Emit writes the stub of p, for code of o. It takes p.Size bytes of dst, which will run at
// address at, a multiple of Alignment:
//
//	        inc   qword gs:[counter]          ; the count
//	        cmp   qword gs:[counter], N       ; the threshold check,
//	        jge   cold                        ;   if there is a threshold
//	resume: <displaced instructions, or the whole body>
//	        jmp   <behind the displaced instructions>
//	        <evicted instructions>    ; of neighbours, if the plan has any
//	        jmp   <behind them>
//
// Where all threads share the counters these are
//
//	lock inc qword [rip+counter]
//	cmp   qword [rip+counter], N
//
// Threshold and counter compare as signed numbers: once a row has taken the
// cold path its counter's top bit is set, and the branch is never taken again.
// Errors: x86.ErrReach, x86.ErrRoom.
func (e *Emitter) Emit(o *stubgen.Object, p *Spec, dst []byte, at x86.RunAddr, c Count) (Stub, error) {
	a := &e.asm
	a.Reset(dst, at)
	stub := Stub{At: at}
	check, resume := a.NewLabel(), a.NewLabel()
	if p.KeepsFlags {
		e.countKeepingFlags(c, check, resume)
	} else {
		e.count(c, check, resume)
	}
	stub.Body = uint32(a.Len())
	if p.Copy != nil {
		e.copied(o, p, &stub)
	} else {
		e.rel.asm, e.rel.obj = a, o
		e.rel.entry, e.rel.from = p.Entry, p.Start
		e.rel.code, e.rel.sites = o.Code(p.Start)[:p.Moved], p.Sites
		stub.inside = e.rel.move()
		e.rel.sites = nil
		e.origin(o, at.Add(-p.Front), p.Front+int(stub.Body), p.KeepsFlags, p.Front > 0)
		e.evicted(o, p, &stub)
	}
	stub.Len = uint32(a.Len())
	if err := a.Finish(); err != nil {
		return stub, err
	}
	if int(stub.Len) > p.Size || int(stub.Len) < p.Size && p.Copy == nil {
		panic(fmt.Sprintf("BUG: stub of %d bytes planned as %d", stub.Len, p.Size))
	}
	if c.Threshold == 0 {
		return stub, nil
	}
	back := a.Place(resume)
	if p.Front > 0 {
		var err error
		if back, err = e.front(p, &stub, c, a.Place(check)); err != nil {
			return stub, err
		}
	}
	return stub, e.coldBlock(c, back)
}

// copied writes a whole function.
func (e *Emitter) copied(o *stubgen.Object, p *Spec, stub *Stub) {
	runs := Runs{origins: e.Origins, obj: o}
	if e.Origins != nil {
		flags := flagsOf(o)
		if p.KeepsFlags {
			flags |= originKeepsFlags
		}
		if p.Front > 0 {
			flags |= originFront
		}
		runs.begin(stub.At.Add(-p.Front), o.Run(p.Start), p.Front+int(stub.Body), flags)
	}
	p.Copy.WriteCopy(&e.asm, &runs)
	runs.end()
}

// evicted writes the copies of what makes room for the plan's islands.
func (e *Emitter) evicted(o *stubgen.Object, p *Spec, stub *Stub) {
	for _, v := range p.Evicted {
		if e.asm.Len() != int(v.Offset) {
			panic(fmt.Sprintf("BUG: eviction at offset %d planned at %d", e.asm.Len(), v.Offset))
		}
		e.rel.entry, e.rel.from = v.Addr, v.Addr
		e.rel.code = o.Code(v.Addr)[:v.Len]
		if v.To != 0 {
			e.rel.lead = stub.Place(p.Start, v.To)
		}
		e.rel.move()
		e.rel.lead = 0
		e.origin(o, stub.At.Add(int(v.Offset)), 0, false, false)
	}
}

// origin notes what the relocator has just moved, to at.
func (e *Emitter) origin(o *stubgen.Object, at x86.RunAddr, count int, keepsFlags, front bool) {
	if e.Origins == nil {
		return
	}
	flags := flagsOf(o)
	if keepsFlags {
		flags |= originKeepsFlags
	}
	if front {
		flags |= originFront
	}
	start := len(e.Origins.Lengths)
	e.Origins.Lengths = append(e.Origins.Lengths, e.rel.lengths...)
	e.Origins.add(at, o.Run(e.rel.from), count, flags, start)
}

// CountSize is the size of the count, with the check of a threshold if there is one.
func CountSize(keepsFlags, threshold, shared bool) int {
	inc, cmp := 9, 13
	if shared {
		inc, cmp = 8, 11
	}
	size := inc
	if threshold {
		size += cmp + 6 // jge
	}
	if keepsFlags {
		size += 5 + 1 + 1 + 3 + 2 + 1 + 1 + 8
	}
	return size
}

// count is the count and the threshold check.
func (e *Emitter) count(c Count, check, resume x86.Label) {
	a := &e.asm
	if c.Shared != 0 {
		a.LockIncTo(c.Shared)
	} else {
		a.IncGS(c.Counter)
	}
	a.Bind(check)
	if c.Threshold != 0 {
		if c.Shared != 0 {
			a.CmpToImm(c.Shared, c.Threshold)
		} else {
			a.CmpGSImm(c.Counter, c.Threshold)
		}
		a.JccTo(x86.CondGE, c.ColdAt)
	}
	a.Bind(resume)
}

// countKeepingFlags is the count for code that reads flags set by its caller:
//
//	        lea   rsp, [rsp-128]
//	        push  rax
//	        lahf                       ; SF ZF AF PF CF
//	        seto  al                   ; OF
//	        <count>
//	resume: add   al, 0x7f             ; OF again
//	        sahf
//	        pop   rax
//	        lea   rsp, [rsp+128]
func (e *Emitter) countKeepingFlags(c Count, check, resume x86.Label) {
	saveFlags(&e.asm)
	e.count(c, check, resume)
	restoreFlags(&e.asm)
}

func saveFlags(a *x86.Asm) {
	saveRAX(a)
	a.Lahf()
	a.SetoAL()
}

func restoreFlags(a *x86.Asm) {
	a.AddAL(0x7f)
	a.Sahf()
	restoreRAX(a)
}

// saveRAX saves rax below the red zone.
func saveRAX(a *x86.Asm) {
	a.LeaRSP(-redZone)
	a.PushRAX()
}

func restoreRAX(a *x86.Asm) {
	a.PopRAX()
	a.LeaRSP(redZone)
}

// coldBlock hands the counter's number to the arena's common slow path, which
// keeps every register, and goes on in the stub:
//
//	cold:   lea   rsp, [rsp-128]       ; over the red zone
//	        push  index
//	        call  common
//	        lea   rsp, [rsp+136]
//	        jmp   resume
func (e *Emitter) coldBlock(c Count, resume x86.RunAddr) error {
	a := &e.cold
	a.Reset(c.Cold, c.ColdAt)
	a.LeaRSP(-redZone)
	a.PushImm(c.Index)
	a.CallTo(c.ColdCommon)
	a.LeaRSP(redZone + 8)
	a.JmpTo(resume)
	return a.Finish()
}

// CommonSize is the most room that EmitCommon takes.
const CommonSize = 16

// Where in an arena its jumps are: to the slow path, which all its cold blocks call, to
// what stands in for the dynamic linker's function, to the keeper, and to what records an
// access; and their end.
const (
	CommonSlow   = 0
	CommonHook   = CommonSize
	CommonKeeper = 2 * CommonSize
	CommonRecord = 3 * CommonSize
	CommonEnd    = 4 * CommonSize
)

// EmitCommon writes such a jump:
//
//	        jmp   *literal
//	literal: <slow>
func EmitCommon(dst []byte, at x86.RunAddr, slow uint64) error {
	var a x86.Asm
	a.Reset(dst, at)
	l := a.NewLabel()
	a.JmpMem(l)
	quad(&a, l, slow)
	return a.Finish()
}

// quad writes a literal, aligned: the program may have misaligned accesses
// trapped.
func quad(a *x86.Asm, l x86.Label, value uint64) {
	for range -a.Len() & (literalSize - 1) {
		a.Int3()
	}
	a.Bind(l)
	a.Quad(value)
}
