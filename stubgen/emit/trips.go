package emit

import "github.com/dynprof/dynprof/internal/x86"

// Trips of loops: how often the header ran in one execution of a loop, from where it is
// entered to where it is left. Each loop has words of a row (internal/table/layout): the
// stack pointer of the execution that is counted, which no other has that goes on at the same
// time, its trips so far, and what the executions that have ended had. An execution is
//
//  1. begun on the ways to the header from outside of the loop (WriteStart),
//  2. counted in the header, if it is the one that was begun last: else, in a recursion behind
//     the inner execution, none is counted any more (WriteRound),
//  3. ended at the beginning of the blocks that the loop is left to, if it is still that one
//     (WriteEnd, WriteColdEnd). It does not matter how often, and by which other ways, control
//     comes there.
//
// A row is its thread's own, so nothing is locked. A signal's handler that comes in between
// and runs the same loop leaves another stack pointer, or 0, and then the thread's execution
// is not counted. So is one of a thread that does not go on where the handler struck
// (libdynprof/resident/signals/trips.c), and one that comes to the header in the copy without
// counters (WriteForget). No status flag may be live where rounds and ends are.

// Trip is the trips of one loop.
type Trip struct {
	Word   int32 // displacement of its first word from the GS base
	Number int32 // of the row's number, -1 in rows that are added to others: no execution ends in these
}

// Words of a loop, as displacements from the first, and how many there are.
const (
	TripStack   = 0  // stack pointer of the execution that is counted; 0: none is
	TripRounds  = 8  // of that
	TripMost    = 16 // of those that have ended
	TripLeast   = 24 // the complement of the least; 0: none has ended
	TripBuckets = 32 // executions of 1, of 2 and 3, of 4 to 7, ... trips, and in the last one all others
	TripWords   = 32

	TripLastBucket = TripWords - TripBuckets/8 - 1
)

// Sizes of the parts, in bytes. There may be a nop in front of all but the last.
const (
	TripStartSize   = 9 + 13
	TripRoundSize   = 9 + 2 + 13 + 9
	TripEndSize     = 9 + 6
	TripForgetSize  = 13
	TripColdEndSize = 164
)

// WriteStart writes the start of an execution:
//
//	mov   gs:[stack], rsp
//	mov   qword gs:[rounds], 0
//
// word is called with the offset of each word of the code that has a displacement of one of
// the loop's.
func (t *Trip) WriteStart(a *x86.Asm, word func(at int)) {
	a.MovGSRSP(t.Word + TripStack)
	word(a.Len() - 4)
	a.MovGSImm(t.Word+TripRounds, 0)
	word(a.Len() - 8)
}

// WriteRound writes one more trip of the execution:
//
//	      cmp   rsp, gs:[stack]
//	      je    1f
//	      mov   qword gs:[stack], 0
//	1:    inc   qword gs:[rounds]
func (t *Trip) WriteRound(a *x86.Asm, word func(at int)) {
	same := a.NewLabel()
	a.CmpGSReg(t.Word+TripStack, x86.RSP)
	word(a.Len() - 4)
	a.JccShort(x86.CondE, same)
	a.MovGSImm(t.Word+TripStack, 0)
	word(a.Len() - 8)
	a.Bind(same)
	a.IncGS(t.Word + TripRounds)
	word(a.Len() - 4)
}

// WriteForget writes what has no execution counted that goes on:
//
//	mov   qword gs:[stack], 0
func (t *Trip) WriteForget(a *x86.Asm, word func(at int)) {
	a.MovGSImm(t.Word+TripStack, 0)
	word(a.Len() - 8)
}

// WriteEnd writes what is at a place that the loop is left to:
//
//	begin:  cmp   rsp, gs:[stack]
//	        je    cold
//	back:
func (t *Trip) WriteEnd(a *x86.Asm, cold x86.Label, word func(at int)) {
	a.CmpGSReg(t.Word+TripStack, x86.RSP)
	word(a.Len() - 4)
	a.Jcc(x86.CondE, cold)
}

// WriteColdEnd writes the end of an execution. The trips are read before it is looked again
// whether the execution is that one; both sums are changed only if they are as they were
// read.
//
//	        jmp   begin                     ; never runs, but says where it is
//	cold:   lea   rsp, [rsp-128]
//	        push  rax
//	        push  rcx
//	        mov   rcx, gs:[rounds]
//	        lea   rax, [rsp+144]            ; as it was
//	        cmp   rax, gs:[stack]
//	        jne   done
//	        mov   qword gs:[stack], 0
//	        cmp   dword gs:[number], -1
//	        je    done
//	        mov   rax, gs:[most]
//	1:      cmp   rcx, rax
//	        jbe   2f
//	        cmpxchg gs:[most], rcx
//	        jne   1b
//	2:      not   rcx
//	        mov   rax, gs:[least]
//	3:      cmp   rcx, rax
//	        jbe   4f
//	        cmpxchg gs:[least], rcx
//	        jne   3b
//	4:      not   rcx
//	        or    rcx, 1
//	        bsr   rcx, rcx
//	        cmp   ecx, 27
//	        jbe   5f
//	        mov   ecx, 27
//	5:      inc   qword gs:[buckets+rcx*8]
//	done:   pop   rcx
//	        pop   rax
//	        lea   rsp, [rsp+128]
//	        jmp   back
func (t *Trip) WriteColdEnd(a *x86.Asm, begin, cold, back x86.Label, word func(at int)) {
	last, done := a.NewLabel(), a.NewLabel()
	a.Jmp(begin)
	a.Bind(cold)
	saveRAX(a)
	a.PushRCX()
	a.LoadGSRCX(t.Word + TripRounds)
	word(a.Len() - 4)
	a.LeaRAXAboveRSP(redZone + 2*8)
	a.CmpGSReg(t.Word+TripStack, x86.RAX)
	word(a.Len() - 4)
	a.JccShort(x86.CondNE, done)
	a.MovGSImm(t.Word+TripStack, 0)
	word(a.Len() - 8)
	a.CmpGSByte(t.Number, -1)
	a.JccShort(x86.CondE, done)
	raise(a, t.Word+TripMost, word)
	a.NotRCX()
	raise(a, t.Word+TripLeast, word)
	a.NotRCX()
	a.OrRCX(1)
	a.BsrRCX()
	a.CmpECX(TripLastBucket)
	a.JccShort(x86.CondBE, last)
	a.MovECX(TripLastBucket)
	a.Bind(last)
	a.IncGSRCX8(t.Word + TripBuckets)
	word(a.Len() - 4)
	a.Bind(done)
	a.PopRCX()
	restoreRAX(a)
	a.Jmp(back)
}

// raise makes a word of the row RCX, if that is more, as an unsigned number.
func raise(a *x86.Asm, at int32, word func(at int)) {
	again, on := a.NewLabel(), a.NewLabel()
	a.LoadGSRAX(at)
	word(a.Len() - 4)
	a.Bind(again)
	a.CmpRCXRAX()
	a.JccShort(x86.CondBE, on)
	a.CmpxchgGSRCX(at)
	word(a.Len() - 4)
	a.JccShort(x86.CondNE, again)
	a.Bind(on)
}
