package emit

import "github.com/dynprof/dynprof/internal/x86"

// Records. In front of an instruction stands what looks whether its operand may be in a region,
// a range of memory whose accesses are recorded: then the word of its page in the shadow
// (touch.go) is not 0. Pages in front of a region are marked, too, as far as an operand that
// begins there may reach. Only where it may be, the slow path is called, which knows all regions
// (libdynprof/resident/table/regions.c). All else is as with touches: the register, the flags.

// What Touch.Record says of the operand, beside a bit that is always set.
const (
	RecordSize   = 1<<13 - 1 // its bytes
	RecordKind   = 13        // from this bit on x86.OperandKind: load, store or both
	RecordSecond = 1 << 15   // it is the second of its instruction
	RecordAtomic = 1 << 16
	recordIs     = 1 << 17

	RecordMost = 4096 // bytes that an operand has at most
)

// Record is what Touch.Record is.
func Record(p *x86.Operand, second bool) int32 {
	r := int32(p.Size)*int32(p.Count)&RecordSize | int32(p.Kind&(x86.OperandLoad|x86.OperandStore))<<RecordKind | recordIs
	if second {
		r |= RecordSecond
	}
	if p.Flags&x86.OperandAtomic != 0 {
		r |= RecordAtomic
	}
	return r
}

// check looks whether the mark may be in a region:
//
//	      lea   r, <mark>
//	      pext  r, r, [mask]               ; or shl r, 17; shr r, 29
//	      cmp   word [shadow+r*2], 0
//	      jne   cold
//	back:
func (t *Touch) check(a *x86.Asm, r byte, use *TouchUse) {
	if t.Forms != nil {
		t.checkForms(a, use)
		return
	}
	t.granule(a, r, &t.Marks[0], use)
	a.CmpWordAtTwice(r, ShadowAt, 0)
	a.Jcc(x86.CondNE, use.Cold)
	a.Bind(use.Back)
}

// checks looks whether any of RecordMost bytes from one of the marks on may be in a region. Then it
// is `not equal` behind the Touch, for no flag changes any more:
//
//	     lea   r, <first>                  ; of each mark, as in check
//	     pext  r, r, [mask]
//	     cmp   word [shadow+r*2], 0
//	     jne   done                        ; but of the last
//	     ...
//	done:
//
// or, if it is Bounds, whether one may be within the bounds of all regions. Then it is `negative`:
//
//	     lea   r, <first>                  ; of a register itself there is no lea
//	     cmp   r, [edge]
//	     js    done
//	     ...
//	done:
//
// or, ByRCX, with its own jump where one may be, to what WriteFound writes:
//
//	     lea   rcx, <first>
//	     pext  rcx, rcx, [mask]
//	     movzx ecx, word [shadow+rcx*2]
//	     jrcxz next
//	     jmp   cold
//	next:
//	     ...
func (t *Touch) checks(a *x86.Asm, r byte, use *TouchUse) {
	if t.ByRCX {
		for i := range t.Marks {
			next := a.NewLabel()
			t.granule(a, r, &t.Marks[i], use)
			a.MovzxWordAtTwice(r, ShadowAt)
			a.JrcxzShort(next)
			a.Jmp(use.Cold)
			a.Bind(next)
		}
		return
	}
	done, may := a.NewLabel(), x86.CondNE
	if t.Bounds {
		may = x86.CondS
	}
	for i := range t.Marks {
		if t.Bounds {
			a.CmpAbsolute(t.load(a, r, &t.Marks[i]), BoundEdge)
		} else {
			t.granule(a, r, &t.Marks[i], use)
			a.CmpWordAtTwice(r, ShadowAt, 0)
		}
		if i+1 < len(t.Marks) {
			a.JccShort(may, done)
		}
	}
	a.Bind(done)
}

// FoundSize is the most that WriteFound takes.
const FoundSize = 5 + 4 + 8

// WriteFound writes what restores the register of a check ByRCX that has found something:
//
//	      call  begin              ; never runs, but says where it is, and that this is no record
//	cold: mov   rcx, gs:[word]
//
// or
//
//	cold: mov   rcx, [rsp]
//	      lea   rsp, [rsp+136]
func (t *Touch) WriteFound(a *x86.Asm, use *TouchUse, begin x86.Label) {
	a.Call(begin)
	a.Bind(use.Cold)
	if t.Scratch != x86.NoRegister {
		a.LoadGSReg(use.Word, x86.RCX)
		use.fix(a)
		return
	}
	a.LoadTop(x86.RCX)
	a.LeaRSP(redZone + 8)
}

// Where it says between which addresses regions are, in front of the shadow: checks from a
// register on, or up to RecordMost in front of that, are of none if it is outside.
const (
	BoundsAt  = ShadowAt - 1<<12
	BoundLow  = BoundsAt + 0xc0
	BoundHigh = BoundsAt + 0xc8
	BoundEdge = BoundsAt + 0xe8 // less this an address within them is negative, and as few others as may be
)

// HasBounds reports whether a mark of a check may be left out by them.
func (m *Mark) HasBounds() bool {
	return m.At == 0 && !m.isFar() && m.Memory.Base != x86.NoRegister && m.Memory.Index == x86.NoRegister && m.Memory.Disp <= 0 && m.Memory.Disp >= -RecordMost
}

// address loads that of the mark.
func (t *Touch) address(a *x86.Asm, r byte) {
	if m := &t.Marks[0]; m.At != 0 {
		a.LeaTo(r, m.At)
	} else if m.isFar() {
		t.far(a, r, m)
	} else {
		a.Lea(r, t.memory(a, r, m.Memory))
	}
}

// The words that the slow path gets, from the stack pointer on, and their bytes with those of
// the red zone.
const (
	recordWhat = 0  // Touch.Record
	recordHome = 8  // where the instruction always was
	recordAt   = 16 // the operand's address
	recordRSP  = 24 // the stack pointer in front of the instruction
	recordRoom = redZone + 32
)

// RecordColdSize is the most that WriteCold takes.
const RecordColdSize = 5 + 4 + 8 + 64 + mostOfFar

// WriteCold writes what calls the slow path, which keeps every register but flags:
//
//	        jmp   begin              ; never runs, but says where it is
//	cold:   lea   r, <mark>
//	        lea   rsp, [rsp-160]
//	        mov   [rsp+16], r
//	        lea   r, [rsp+160]       ; or more, as it was in front
//	        mov   [rsp+24], r
//	        lea   r, [home]
//	        mov   [rsp+8], r
//	        mov   qword [rsp], record
//	        call  common
//	        lea   rsp, [rsp+160]
//	        jmp   back
func (t *Touch) WriteCold(a *x86.Asm, use *TouchUse, begin x86.Label, home, common x86.RunAddr) {
	r, pushed := t.register(), int32(0)
	if t.Scratch == x86.NoRegister {
		pushed = redZone + 8
		if t.KeepsFlags {
			pushed += 8
		}
	}
	a.Jmp(begin)
	forms := t.writeForms(a, use)
	a.Bind(use.Cold)
	if t.Forms != nil {
		a.LeaTo(r, forms)
	} else {
		t.address(a, r)
	}
	a.LeaRSP(-recordRoom)
	a.StoreAboveRSP(recordAt, r)
	a.Lea(r, x86.Memory{Base: x86.RSP, Index: x86.NoRegister, Scale: 1, Disp: recordRoom + pushed})
	a.StoreAboveRSP(recordRSP, r)
	a.LeaTo(r, home)
	a.StoreAboveRSP(recordHome, r)
	a.StoreImmAtRSP(t.Record)
	a.CallTo(common)
	a.LeaRSP(recordRoom)
	a.Jmp(use.Back)
}
