package audit

import (
	"os"
	"sync"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// operand is what an instruction is about to do with memory.
type operand struct {
	at          uint64
	size        uint32 // 0: not known
	load, store bool
	form        string // why such operands are not recorded; empty: they can be
}

// Forms.
const (
	formSegment  = "FS or GS"
	formRepeated = "rep"
	formMasked   = "masks and gathers"
	formOther    = "other forms"
	formUnknown  = "unknown instructions"
)

// operands are those of the instruction at the start of code, with these registers. Those whose
// addresses vectors tell, or whose size the CPU's state does, are taken to be at the address of
// the fault. Lanes says that there are several addresses.
func operands(code []byte, r *ptrace.Regs, vectors func() (ptrace.Vectors, error), fault uint64) (all []operand, lanes bool) {
	var in x86.Inst
	var ops [x86.MaxOperands]x86.Operand
	if x86.Decode(code, &in) != nil {
		return []operand{{at: fault, load: true, form: formUnknown}}, false
	}
	for _, o := range ops[:in.Operands(code, &ops)] {
		if o.Kind&(x86.OperandLoad|x86.OperandStore) == 0 || o.Flags&x86.OperandRepeated != 0 && r.Rcx == 0 {
			continue
		}
		p := operand{load: o.Kind&x86.OperandLoad != 0, store: o.Kind&x86.OperandStore != 0, size: uint32(o.Size) * uint32(o.Count), form: formOf(&in, code, &o)}
		if f, ok := in.Form(code, &o); ok && f.Way >= x86.FormMasked {
			if v, err := vectors(); err == nil {
				lanes = lanes || f.Way == x86.FormLanes
				all = append(all, accesses(&f, &in, r, &v, p)...)
				continue
			}
		}
		if o.Flags&(x86.OperandVSIB|x86.OperandVariable) != 0 || o.Size == 0 {
			p.at, p.size = fault, 0
		} else {
			p.at = address(&o, &in, r)
		}
		all = append(all, p)
	}
	return all, lanes
}

func formOf(in *x86.Inst, code []byte, o *x86.Operand) string {
	_, ok := in.Form(code, o)
	switch {
	case ok && (o.Segment == x86.SegmentNone || o.Segment == x86.SegmentFS && hasBases()):
		return ""
	case o.Segment != x86.SegmentNone:
		return formSegment
	case o.Flags&x86.OperandRepeated != 0:
		return formRepeated
	case o.Flags&(x86.OperandMasked|x86.OperandVSIB) != 0:
		return formMasked
	}
	return formOther
}

// hasBases reports whether the kernel has rdfsbase be used, by which operands by FS are recorded.
// Those by GS are where that is not ours.
var hasBases = sync.OnceValue(func() bool {
	const hwcap2, fsgsbase = 26, 1 << 1
	b, _ := os.ReadFile("/proc/self/auxv")
	return remote.ParseAuxv(b)[hwcap2]&fsgsbase != 0
})

func address(o *x86.Operand, in *x86.Inst, r *ptrace.Regs) uint64 {
	at := uint64(o.Disp)
	switch {
	case o.Base == x86.RIP:
		at += r.Rip + uint64(in.Len)
	case o.Base != x86.NoRegister:
		at += register(r, o.Base)
	}
	if o.Index != x86.NoRegister {
		n := register(r, o.Index)
		if o.Flags&x86.OperandIndexByte != 0 {
			n &= 0xff
		}
		at += n * uint64(max(o.Scale, 1))
	}
	if o.Flags&x86.OperandBitOffset != 0 {
		const bits = 3
		n := int64(register(r, in.Reg()))
		switch o.Size {
		case 2:
			n = int64(int16(n))
		case 4:
			n = int64(int32(n))
		}
		at += uint64(n >> bits &^ int64(o.Size-1))
	}
	if o.Flags&x86.OperandAddr32 != 0 {
		at &= 1<<32 - 1
	}
	switch o.Segment {
	case x86.SegmentFS:
		at += r.Fs_base
	case x86.SegmentGS:
		at += r.Gs_base
	}
	if o.Flags&x86.OperandLine != 0 {
		at &^= uint64(o.Size) - 1
	}
	return at
}

// register is a general register, by its number in instructions.
func register(r *ptrace.Regs, n byte) uint64 {
	return [...]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}[n&15]
}
