package emit

import (
	"math/bits"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// Granules of memory, pages or less, that are read and written. In front of an instruction stands
// what notes them in the shadow: two bytes each, at a place that is the same in all processes. It
// stores 0xff whatever
// was there, so how often it runs, and in which thread, does not matter. Where no flag is live it
// looks first, and what stores is elsewhere (WriteColdTouch): a CPU looks at more memory in the
// same time than it stores, and nearly all that a program touches it has touched just before. Its register is
//
//  1. one that is dead there, and that the function writes somewhere: it is saved in the
//     thread's row, and restored, for who looks at it meanwhile, or at what a debugger calls a
//     variable. Threads may share a row where a sandbox forbids more, and find what another
//     has saved: nothing of the program's depends on it;
//  2. else one that is saved on the stack below the red zone: a register that another thread
//     has got would be worse than a count that is lost.
//
// Flags that are live are kept by an instruction that changes none, if the CPU has it and is
// fast with it, else as counts keep them (which needs the stack).

// Where the shadow is, and which of the two bytes of a granule is which. Of an address so many bits
// count: so no address, however wild, leads out of it.
const (
	ShadowAt      = 0x7fff8000 // in reach of a displacement
	ShadowBits    = 47
	ShadowText    = 8 << 20 // room for each of two texts behind it: what is mapped at the start and at the end
	ShadowThreads = 256     // shadows one behind the other, if threads are told apart: by the lowest byte of what number the row has
	ShadowRead    = 0
	ShadowWritten = 1
)

// Granule is how many bits of an address are within one.
type Granule byte

// The granules that there are.
const (
	GranulePage Granule = 12
	GranuleLine Granule = 6 // of the CPU's caches
	GranuleWord Granule = 3
)

// Bytes is its size.
func (g Granule) Bytes() int64 { return 1 << g }

// mask has the bits of an address that tell granules apart.
func (g Granule) mask() uint64 { return 1<<ShadowBits - 1<<g }

// Touch notes the granules of bytes in memory.
type Touch struct {
	Marks      []Mark
	Granule    Granule
	Scratch    byte   // register that is dead there and in no Mark, not R8; NoRegister: the stack is used
	Masks      bool   // by pext: no flag changes
	Threads    bool   // pages, in a shadow of the thread's own (ShadowThreads); without Masks
	Tells      bool   // pages, and which instruction it was (touchby.go)
	KeepsFlags bool   // they are live, and Masks is false: then Scratch is NoRegister
	Looks      bool   // it looks first: flags are not live
	Record     int32  // unless 0 it is a record, of one mark (record.go)
	Forms      []Form // or of these (form.go)
	Check      bool   // of records that follow (record.go): flags are not live
	Bounds     bool   // of a Check: of the bounds of all regions, in front of one of the shadow
	ByRCX      bool   // of a Check: flags are live, and none changes; its register is RCX, which is in no Mark
}

// Mark is one of the bytes, or the first of some that mostly are in one granule.
type Mark struct {
	Memory x86.Memory  // displacements are as in front of the instruction
	At     x86.RunAddr // unless 0 it is there
	Ahead  int32       // it is so far behind that, of 32 bits
	Kind   x86.OperandKind
	More   int32    // bytes behind it, up to MostMore; the last is noted, too
	By     [2]int32 // where that is told: the instruction that reads it, and the one that writes it
}

// MostMore is the most that Mark.More may be of a Touch that looks: so few that it is rare that
// they are in two granules, or cannot be told to be in one.
func (g Granule) MostMore() int64 {
	const page, aligned = 128, 8
	if g == GranulePage {
		return page - 1
	}
	return aligned - 1
}

// TouchUse is what a Touch uses.
type TouchUse struct {
	Word int32        // displacement of the row's word for Scratch from the GS base
	Mask x86.Label    // where WriteMask has put it
	Fix  func(at int) // is called with the offset of each Word; nil if nobody asks
	By   *By          // of a Touch that tells

	Cold, Back x86.Label // of a record
}

// TouchSize is the most that Write takes, for a short jump leads over it
// (libdynprof/resident/sites/gs.c); there may be a nop in front.
const TouchSize = 1 + 127

// MostDisplacement is that of a Mark's Memory: Write adds to it.
const MostDisplacement = 1<<31 - 1<<14

// MostSize is the most that Write takes, without a look at the instructions.
func (t *Touch) MostSize() int {
	if t.Forms != nil {
		return formsSize
	}
	return min(t.atMost(), TouchSize-1)
}

// atMost is that, of what may have no room.
func (t *Touch) atMost() int {
	const first = 38
	size := first
	for i := range t.Marks {
		size += t.atMostOf(&t.Marks[i])
	}
	return size
}

func (t *Touch) atMostOf(m *Mark) (size int) {
	const looks, crosses = 33, 13
	switch more := m.More > 0; {
	case t.Looks && t.Tells:
		if size = mostStore; more {
			size += crosses
		}
	case t.Looks:
		if size = looks; more {
			size += crosses
		}
	case more:
		size = 2 * mostStore
	default:
		size = mostStore
	}
	if t.Tells {
		size += mostOfTold * (1 + min(int(m.More), 1))
	}
	if m.isFar() {
		size += mostOfFar
	}
	if t.ByRCX {
		size += JumpSize
	}
	if t.Threads {
		size += mostOfThread * (1 + min(int(m.More), 1))
	}
	return size
}

const mostMarks = 4

// HasRoom reports whether the Touch can have one more Mark.
func (t *Touch) HasRoom(m *Mark) bool {
	n := len(t.Marks)
	if n == 0 {
		return true
	}
	if n == mostMarks || t.ByRCX && m.used()>>x86.RCX&1 != 0 || t.Scratch == x86.NoRegister && unused(t.used()|m.used()) > x86.RDI {
		return false
	}
	if t.atMost()+t.atMostOf(m) < TouchSize {
		return true
	}
	more := *t
	more.Marks = append(t.Marks[:n:n], *m)
	return more.Size() < TouchSize
}

// Size is the bytes that Write takes.
func (t *Touch) Size() int {
	var a x86.Asm
	var buf [2 * TouchSize]byte
	at := x86.RunAddr(0)
	for i := range t.Marks {
		at = max(at, t.Marks[i].At) // in reach, wherever it is
	}
	a.Reset(buf[:], at)
	mask := a.NewLabel()
	t.Write(&a, &TouchUse{Mask: mask, Cold: mask, Back: a.NewLabel()})
	return a.Len()
}

// register is the one that it works with.
func (t *Touch) register() byte {
	if t.Scratch == x86.NoRegister {
		return t.victim()
	}
	return t.Scratch
}

// victim is the register that is saved on the stack: the first that no Mark has, RAX left out,
// which has the flags.
func (t *Touch) victim() byte { return unused(t.used()) }

func (t *Touch) used() (set uint32) {
	for i := range t.Marks {
		set |= t.Marks[i].used()
	}
	return set
}

func (m *Mark) used() uint32 {
	if m.At != 0 {
		return 0
	}
	return 1<<(m.Memory.Base&31) | 1<<(m.Memory.Index&31)
}

func unused(set uint32) byte {
	return byte(bits.TrailingZeros32(^(set | 1<<x86.RAX | 1<<x86.RSP)))
}

// Write writes it:
//
//	mov   gs:[word], r
//	lea   r, <first>                 ; of each mark
//	pext  r, r, [mask]               ; or, where no flag is live, shl r, 17; shr r, 29, of pages; of a register itself there is no lea
//	mov   byte [shadow+r*2], 1       ; or +1; both by one word
//	...
//	mov   r, gs:[word]
//
// or, with a victim,
//
//	lea   rsp, [rsp-128]
//	push  rcx                        ; or another
//	...
//	pop   rcx
//	lea   rsp, [rsp+128]
//
// or, where flags are live and there is no pext,
//
//	lea   rsp, [rsp-128]
//	push  rcx
//	push  rax
//	lahf
//	seto  al
//	mov   rcx, [rsp]                 ; if rax is in an address, where rcx is then
//	...
//	add   al, 0x7f
//	sahf
//	pop   rax
//	pop   rcx
//	lea   rsp, [rsp+128]
func (t *Touch) Write(a *x86.Asm, use *TouchUse) {
	if r := t.Scratch; r != x86.NoRegister {
		a.MovGSReg(use.Word, r)
		use.fix(a)
		t.marks(a, r, use)
		a.LoadGSReg(use.Word, r)
		use.fix(a)
		return
	}
	r := t.victim()
	a.LeaRSP(-redZone)
	a.Push(r)
	if t.KeepsFlags {
		a.Push(x86.RAX)
		a.Lahf()
		a.SetoAL()
	}
	t.marks(a, r, use)
	if t.KeepsFlags {
		a.AddAL(0x7f)
		a.Sahf()
		a.Pop(x86.RAX)
	}
	a.Pop(r)
	a.LeaRSP(redZone)
}

func (u *TouchUse) fix(a *x86.Asm) {
	if u.Fix != nil {
		u.Fix(a.Len() - 4)
	}
}

func (t *Touch) marks(a *x86.Asm, r byte, use *TouchUse) {
	switch {
	case t.Record != 0:
		t.check(a, r, use)
		return
	case t.Check:
		t.checks(a, r, use)
		return
	case t.Looks:
		t.looks(a, r, use)
		return
	}
	t.stores(a, r, use)
}

const (
	noted     = 0xff
	mostStore = 29 // bytes that store writes, or check and checks for a mark

	mostOfThread = 13 // bytes more where threads are told apart,
	mostOfTold   = 15 // and where it is told which instruction it was
	RowNumber    = 20 // of what the GS base points at
)

// stores notes all marks.
func (t *Touch) stores(a *x86.Asm, r byte, use *TouchUse) {
	for i := range t.Marks {
		m := t.Marks[i]
		t.store(a, r, &m, use)
		if m.More != 0 {
			t.store(a, r, m.last(), use)
		}
	}
}

// last is the mark of the last of the bytes.
func (m *Mark) last() *Mark {
	last := *m
	last.Memory.Disp += m.More
	return &last
}

func (t *Touch) store(a *x86.Asm, r byte, m *Mark, use *TouchUse) {
	t.granule(a, r, m, use)
	if t.Tells {
		m.tell(a, r, use)
		return
	}
	switch m.Kind {
	case x86.OperandLoad:
		a.MovByteAtTwice(r, ShadowAt+ShadowRead, noted)
	case x86.OperandStore:
		a.MovByteAtTwice(r, ShadowAt+ShadowWritten, noted)
	default:
		a.MovWordAtTwice(r, ShadowAt, noted<<(8*ShadowRead)|noted<<(8*ShadowWritten))
	}
}

// looks looks whether all is noted; if not, or if a mark may be in two granules, what stores is in
// the cold.
//
//	      lea   r, <last>              ; of pages, of a mark with bytes behind it:
//	      test  r, 0xf80               ;   its last byte is one of the first 128 of a page, or of the first 2, 4, ... that it can have
//	      je    cold                   ;   in front of it
//	      pext  r, r, [mask]           ; or shl r, 17; shr r, 29
//	      cmp   byte [shadow+r*2], -1  ; or +1; both by one word
//	      jne   cold
//	      ...                          ; of each, those by the same registers together
//	back:
//
// Of lines and words it is the first byte, and `test r, 7`, or fewer, for where it is aligned. What
// tells stores in place of cmp and jne (touchby.go).
func (t *Touch) looks(a *x86.Asm, r byte, use *TouchUse) {
	var all [mostMarks]Mark
	for _, m := range t.together(all[:0]) {
		from := r
		switch {
		case m.More == 0:
			from = t.load(a, r, &m)
		case t.Granule == GranulePage:
			a.Lea(r, t.memory(a, r, m.last().Memory))
			a.TestImm(r, uint32(t.Granule.Bytes())-upTo(m.More))
			a.Jcc(x86.CondE, use.Cold)
		default:
			from = t.load(a, r, &m)
			a.TestByteImm(from, byte(upTo(m.More)-1))
			a.Jcc(x86.CondNE, use.Cold)
		}
		t.number(a, r, from, use)
		if t.Tells {
			m.tell(a, r, use)
			continue
		}
		switch m.Kind {
		case x86.OperandLoad:
			a.CmpByteAtTwice(r, ShadowAt+ShadowRead, -1)
		case x86.OperandStore:
			a.CmpByteAtTwice(r, ShadowAt+ShadowWritten, -1)
		default:
			a.CmpWordAtTwice(r, ShadowAt, -1)
		}
		a.Jcc(x86.CondNE, use.Cold)
	}
	a.Bind(use.Back)
}

// together adds the marks that it looks for to a list: those by the same registers are one, if that
// looks for a page. It has been read and written if both have been noted of any of its bytes.
func (t *Touch) together(list []Mark) []Mark {
	for i := range t.Marks {
		m := &t.Marks[i]
		k := slices.IndexFunc(list, func(l Mark) bool { return t.isNear(&l, m) })
		if k < 0 {
			list = append(list, *m)
			continue
		}
		l := &list[k]
		end := max(l.end(), m.end())
		l.Memory.Disp = min(l.Memory.Disp, m.Memory.Disp)
		l.done(m)
		l.More = int32(end - int64(l.Memory.Disp) - 1)
	}
	return list
}

func (m *Mark) end() int64 { return int64(m.Memory.Disp) + int64(m.More) + 1 }

// isNear reports whether one look is for two marks.
func (t *Touch) isNear(l, m *Mark) bool {
	at := m.Memory
	at.Disp = l.Memory.Disp
	bytes := max(l.end(), m.end()) - int64(min(l.Memory.Disp, m.Memory.Disp))
	return t.Granule == GranulePage && !m.isFar() && l.At == 0 && m.At == 0 && at == l.Memory && bytes <= t.Granule.MostMore()+1
}

// upTo is the least power of two that so many bytes behind a first one, and that, fit into.
func upTo(more int32) uint32 { return 1 << bits.Len32(uint32(more)) }

// ColdTouchSize is the most that WriteColdTouch takes.
func (t *Touch) ColdTouchSize() int {
	size := 2*JumpSize + 2*mostStore*len(t.Marks) + 2*t.moreOfFar()
	if t.Threads {
		size += 2 * mostOfThread * len(t.Marks)
	}
	if t.Tells {
		size += 2 * mostOfTold * len(t.Marks)
	}
	return size
}

// WriteColdTouch writes what stores:
//
//	        call  begin              ; never runs, but says where it is, and that this is no record
//	cold:   lea   r, <mark>          ; of each, and of the last byte
//	        pext  r, r, [mask]
//	        mov   byte [shadow+r*2], 0xff
//	        ...
//	        jmp   back
func (t *Touch) WriteColdTouch(a *x86.Asm, use *TouchUse, begin x86.Label) {
	a.Call(begin)
	a.Bind(use.Cold)
	t.stores(a, t.register(), use)
	a.Jmp(use.Back)
}

// granule loads the number of that of a mark.
func (t *Touch) granule(a *x86.Asm, r byte, m *Mark, use *TouchUse) {
	t.number(a, r, t.load(a, r, m), use)
}

// load loads the address of a mark, and says which register has it.
func (t *Touch) load(a *x86.Asm, r byte, m *Mark) (from byte) {
	if m.At != 0 {
		a.LeaTo(r, m.At)
	} else if m.isFar() {
		t.far(a, r, m)
	} else if at := t.memory(a, r, m.Memory); t.Masks && at.Base != x86.NoRegister && at.Index == x86.NoRegister && at.Disp == 0 {
		return at.Base
	} else {
		a.Lea(r, at)
	}
	return r
}

// number loads the number of the granule of an address; if threads are told apart, with the lowest
// byte of the row's number above it:
//
//	shr  r, 12                       ; of pages
//	shl  r, 29                       ; without what does not count
//	mov  r8, gs:[20]
//	rol  r, 35
func (t *Touch) number(a *x86.Asm, r, from byte, use *TouchUse) {
	switch {
	case t.Threads:
		bits := ShadowBits - byte(t.Granule)
		a.Shr(r, byte(t.Granule))
		a.Shl(r, 64-bits)
		a.LoadGSByte(RowNumber, r)
		a.Rol(r, bits)
	case t.Masks:
		a.Pext(r, from, use.Mask)
	default:
		a.Shl(r, 64-ShadowBits)
		a.Shr(r, 64-ShadowBits+byte(t.Granule))
	}
}

// WriteMask writes what Touches by pext refer to.
func (t *Touch) WriteMask(a *x86.Asm) { a.Quad(t.Granule.mask()) }

// memory is that of a mark, with the stack pointer as it is by now, and rax where it is.
func (t *Touch) memory(a *x86.Asm, r byte, m x86.Memory) x86.Memory {
	if t.Scratch != x86.NoRegister {
		return m
	}
	if m.Base == x86.RSP {
		m.Disp += redZone + 8
		if t.KeepsFlags {
			m.Disp += 8
		}
	}
	if t.KeepsFlags && (m.Base == x86.RAX || m.Index == x86.RAX) {
		a.LoadTop(r)
		if m.Base == x86.RAX {
			m.Base = r
		}
		if m.Index == x86.RAX {
			m.Index = r
		}
	}
	return m
}
