package emit

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// relocator moves a range of instructions. Branches inside the range stay
// inside the copy; all others keep their targets.
type relocator struct {
	asm      *x86.Asm
	obj      *stubgen.Object
	entry    uint64      // link-time address of the function
	from     uint64      // link-time address of the range
	code     []byte      // its bytes
	marks    []x86.Label // by offset: a branch of the range leads there
	literals []literal
	lengths  []byte      // of what it moved, as in Origins
	lead     x86.RunAddr // unless 0, where branches out of the range lead
	sites    []Site      // where these of them lead
}

// literal is a quad that follows the code.
type literal struct {
	label x86.Label
	value uint64
}

// move writes the copy of the range; all its instructions are movable. It
// returns how far behind the copy's start those of the window are.
func (r *relocator) move() (inside [stubgen.WindowSize]uint8) {
	start := r.asm.Len()
	r.literals, r.lengths = r.literals[:0], r.lengths[:0]
	r.mark()
	var in x86.Inst
	flowing := true
	for at := 0; at < len(r.code); at += int(in.Len) {
		code := r.code[at:]
		x86.DecodeAgain(code, &in)
		if at < stubgen.WindowSize {
			inside[at] = uint8(r.asm.Len() - start)
		}
		if l := r.marks[at]; l > 0 {
			r.asm.Bind(l)
		}
		before := r.asm.Len()
		r.one(&in, code[:in.Len], r.from+uint64(at))
		r.lengths = appendMoved(r.lengths, &in, r.asm.Len()-before)
		flowing = !EndsFlow(&in, code)
	}
	if flowing {
		r.asm.JmpTo(r.obj.Run(r.from + uint64(len(r.code))))
	}
	for _, l := range r.literals {
		quad(r.asm, l.label, l.value)
	}
	return inside
}

// notATarget marks the offset of an instruction that no branch leads to yet.
const notATarget x86.Label = -1

// mark makes a label for every instruction of the range that one of its
// branches leads to, and for the first.
func (r *relocator) mark() {
	r.marks = slices.Grow(r.marks[:0], len(r.code))[:len(r.code)]
	clear(r.marks)
	var in x86.Inst
	branches := false
	for at := 0; at < len(r.code); at += int(in.Len) {
		x86.DecodeAgain(r.code[at:], &in)
		r.marks[at] = notATarget
		branches = branches || in.Kind == x86.Jmp || in.Kind == x86.Jcc || in.Kind == x86.Loop
	}
	r.marks[0] = r.asm.NewLabel()
	for at := 0; branches && at < len(r.code); at += int(in.Len) {
		x86.DecodeAgain(r.code[at:], &in)
		switch in.Kind {
		case x86.Jmp, x86.Jcc, x86.Loop:
			if off := r.offset(in.BranchTarget(r.code[at:], r.from+uint64(at))); off >= 0 && r.marks[off] == notATarget {
				r.marks[off] = r.asm.NewLabel()
			}
		}
	}
}

// offset is the place of target in the range, -1 if it lies outside. The entry
// before an endbr64 counts as the range's first instruction, so that a loop
// to it stays behind the count.
func (r *relocator) offset(target uint64) int {
	if target == r.entry {
		return 0
	}
	if off := target - r.from; off < uint64(len(r.code)) {
		return int(off)
	}
	return -1
}

// one writes the relocated form of in, which stood at pc.
func (r *relocator) one(in *x86.Inst, code []byte, pc uint64) {
	switch in.Kind {
	case x86.Call:
		r.pushReturn(pc + uint64(in.Len))
		r.asm.JmpTo(r.callee(in, code, pc))
	case x86.CallInd:
		r.pushReturn(pc + uint64(in.Len))
		r.copy(in, code, pc, in.ModRM&^0x38|4<<3)
	case x86.Jmp, x86.Jcc, x86.Loop:
		if l := r.inside(in, code, pc); l != 0 {
			r.branch(in, code, l, 0)
		} else {
			r.branch(in, code, 0, r.target(in, code, pc))
		}
	default:
		r.copy(in, code, pc, in.ModRM)
	}
	if isSyscall(in) {
		r.asm.LeaRCXTo(r.obj.Run(pc + uint64(in.Len))) // what it leaves there
	}
}

// branch writes the direct jump in, to the label or, if that is 0, to an address.
func (r *relocator) branch(in *x86.Inst, code []byte, l x86.Label, to x86.RunAddr) {
	a := r.asm
	switch {
	case in.Kind == x86.Loop:
		r.loop(in, code, l, to)
	case in.Kind == x86.Jcc && l != 0:
		a.Jcc(x86.Cond(in.Cond()), l)
	case in.Kind == x86.Jcc:
		a.JccTo(x86.Cond(in.Cond()), to)
	case l != 0:
		a.Jmp(l)
	default:
		a.JmpTo(to)
	}
}

// inside returns the label of the branch's target if the range holds it. A
// target between two instructions of the range stays where it is.
func (r *relocator) inside(in *x86.Inst, code []byte, pc uint64) x86.Label {
	if off := r.offset(in.BranchTarget(code, pc)); off >= 0 {
		return max(r.marks[off], 0)
	}
	return 0
}

// target is where the branch leads that leaves the range.
func (r *relocator) target(in *x86.Inst, code []byte, pc uint64) x86.RunAddr {
	if r.lead != 0 {
		return r.lead
	}
	return r.callee(in, code, pc)
}

// callee is where a direct call, or a branch out of the range, leads: to the stub of its
// site, if it has one.
func (r *relocator) callee(in *x86.Inst, code []byte, pc uint64) x86.RunAddr {
	for i := range r.sites {
		if r.sites[i].Addr == pc {
			return r.sites[i].To
		}
	}
	return r.obj.Run(in.BranchTarget(code, pc))
}

// loop expands loop, loope, loopne, jrcxz and jecxz, which have only a short
// form:
//
//	     loop  taken
//	     jmp   next
//	taken:
//	     jmp   target
//	next:
func (r *relocator) loop(in *x86.Inst, code []byte, l x86.Label, to x86.RunAddr) {
	a := r.asm
	taken, next := a.NewLabel(), a.NewLabel()
	a.Copy(code[:in.ImmOff])
	a.Rel8(taken)
	a.JmpShort(next)
	a.Bind(taken)
	if l != 0 {
		a.Jmp(l)
	} else {
		a.JmpTo(to)
	}
	a.Bind(next)
}

// pushReturn pushes the address that the original call would push, so that
// unwinders, dlsym(RTLD_NEXT) and debuggers see what they always see; a jump to
// the callee follows. The call that comes first keeps the CPU's stack of
// return addresses in step: without it not only the callee's return would be
// mispredicted but that of every caller above (5 + 31 ns for three of them, 5 +
// 11 with it, on Zen 5).
//
//	        call  over
//	        int3                       ; only ever predicted
//	over:   lea   rsp, [rsp+8]
//	        push  <original return address>
func (r *relocator) pushReturn(addr uint64) {
	a := r.asm
	over := a.NewLabel()
	a.Call(over)
	a.Int3()
	a.Bind(over)
	a.LeaRSP(8)
	run := r.obj.Run(addr)
	if run < maxPushImm {
		a.PushImm(int32(run))
		return
	}
	l := a.NewLabel()
	r.literals = append(r.literals, literal{l, uint64(run)})
	a.PushMem(l)
}

// copy writes code with another ModRM byte and, if its operand is relative to
// RIP, with the displacement that leads to the same address from here.
func (r *relocator) copy(in *x86.Inst, code []byte, pc uint64, modrm byte) {
	a := r.asm
	if !in.HasModRM {
		a.Copy(code)
		return
	}
	a.Copy(code[:in.ModRMOff])
	a.Raw(modrm)
	if !in.RIPRel() {
		a.Copy(code[in.ModRMOff+1:])
		return
	}
	a.Disp32To(r.obj.Run(in.RIPTarget(code, pc)), int(in.Len-in.DispOff)-4)
	a.Copy(code[in.DispOff+4:])
}
