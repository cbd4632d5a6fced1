package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Runs notes what the instructions of a whole function's copy stand for, as who lays it
// out writes them: runs of instructions that follow each other in the original, too, each
// behind a count or none. It notes nothing where nobody asks for origins.
type Runs struct {
	origins *Origins
	obj     *stubgen.Object
	at      x86.RunAddr // of the run that is open
	from    x86.RunAddr
	count   int
	flags   byte
	lengths int
	plain   bool // what follows is of the copy without counters
}

// Begin ends a run, and begins the next: at the end of what a has written there will be a
// count of so many bytes, 0 for none, and then what stood at link-time address from. The
// first two bytes of a count, which the end of all counting exchanges, never cross a cache
// line: there may be a nop in front of it.
func (r *Runs) Begin(a *x86.Asm, from uint64, count int, keepsFlags bool) {
	r.start(a, from, count, keepsFlags, 0)
}

// BeginWay begins a run without instructions: what is counted is a way to the one at from,
// which has another copy, with its own count or none.
func (r *Runs) BeginWay(a *x86.Asm, from uint64, count int, keepsFlags bool) {
	r.start(a, from, count, keepsFlags, originWay)
}

// BeginNote begins a run whose count is a note, in front of the call that stood at from.
func (r *Runs) BeginNote(a *x86.Asm, from uint64, n *Note) {
	r.start(a, from, n.Size(), n.Pointer.inMemory(), originNote)
}

// ColdNote is a run of the rest of a note, which begins at the end of what a has written.
func (r *Runs) ColdNote(a *x86.Asm, from uint64, n *Note) {
	r.start(a, from, 0, n.Pointer.inMemory(), originNote|originWay)
}

// Noted says how many bytes of a cold note, or record, there are.
func (r *Runs) Noted(size int) { r.note(0, size) }

// BeginTrip begins a run without instructions: a part of so many bytes of a loop's trips, in
// front of what stood at from.
func (r *Runs) BeginTrip(a *x86.Asm, from uint64, size int) {
	r.start(a, from, size, false, originTrip|originWay)
}

// ColdEnd is a run of what ends an execution of a loop, which begins at the end of what a has
// written.
func (r *Runs) ColdEnd(a *x86.Asm, from uint64) {
	r.start(a, from, 0, false, originTrip|originWay)
}

// BeginTouch begins a run whose count notes pages that are touched, in front of what stood at
// from: Touched says how long it is. Alone says that this has another run, which follows.
func (r *Runs) BeginTouch(a *x86.Asm, from uint64, t *Touch, alone bool) {
	flags := byte(originTouch)
	if alone {
		flags |= originWay
	}
	const some = 1 // byte
	r.start(a, from, some, t.KeepsFlags, flags)
}

// Touched says that the count of the run ends where a has written to.
func (r *Runs) Touched(a *x86.Asm) { r.count = int(a.PC() - r.at) }

// ColdTouch is a run of what calls the slow path for a record, which begins at the end of what a
// has written.
func (r *Runs) ColdTouch(a *x86.Asm, from uint64, t *Touch) {
	r.start(a, from, 0, t.KeepsFlags, originTouch|originWay)
}

func (r *Runs) start(a *x86.Asm, from uint64, count int, keepsFlags bool, flags byte) {
	if count > 0 && a.PC()%FetchLine == FetchLine-1 {
		r.start(a, from, 0, false, originWay)
		a.Nop()
		r.note(0, 1)
	}
	if r.origins == nil {
		return
	}
	r.end()
	flags |= flagsOf(r.obj) | originCopy
	if r.plain {
		flags |= originWay
	}
	if keepsFlags {
		flags |= originKeepsFlags
	}
	r.begin(a.PC(), r.obj.Run(from), count, flags)
}

// Moved notes the next instruction, and how many bytes its copy takes. A call's moves the
// stack pointer in between.
func (r *Runs) Moved(in *x86.Inst, copied int) {
	if r.origins != nil {
		r.origins.Lengths = appendMoved(r.origins.Lengths, in, copied)
	}
}

// Aimed says of the last instruction that a register has what a jump table of the copy's own has.
func (r *Runs) Aimed() {
	if r.origins != nil {
		r.origins.Lengths[len(r.origins.Lengths)-2] |= originAimed
	}
}

// Led notes a jump to where the next instruction has always been, and runs.
func (r *Runs) Led(in *x86.Inst) { r.note(in.Len, JumpSize) }

// Left notes a jump of so many bytes to what follows the last instruction.
func (r *Runs) Left(size int) { r.note(0, size) }

func (r *Runs) note(original uint8, copied int) {
	if r.origins != nil {
		r.origins.Lengths = append(r.origins.Lengths, original, byte(copied))
	}
}

func (r *Runs) begin(at, from x86.RunAddr, count int, flags byte) {
	r.at, r.from, r.count, r.flags, r.lengths = at, from, count, flags, len(r.origins.Lengths)
}

func (r *Runs) end() {
	if r.origins != nil {
		r.origins.add(r.at, r.from, r.count, r.flags, r.lengths)
	}
}
