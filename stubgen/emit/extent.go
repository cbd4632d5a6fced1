package emit

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Sizes of the parts of a stub, in bytes.
const (
	JumpSize    = 5
	literalSize = 8
)

const opInt3 = 0xcc

// Movable reports whether in means the same when it runs elsewhere, once
// relocated.
func Movable(in *x86.Inst, code []byte) bool {
	switch {
	case in.Kind == x86.Xbegin, in.OpSizeBranch(), in.Far():
		return false
	case code[0] == opInt3:
		return false // a debugger's breakpoint, most likely
	case in.RIPRel() && in.Prefix&x86.PrefixAddrSize != 0:
		return false // a 32-bit address, only right below 4 GiB
	case in.Kind == x86.CallInd && basedOnRSP(in, code):
		return false // the pushed return address would move the operand
	}
	return true
}

// basedOnRSP reports a memory operand whose base register is RSP: ModRM r/m 4
// with SIB base 4 and no REX.B (SDM volume 2, table 2-3).
func basedOnRSP(in *x86.Inst, code []byte) bool {
	return in.ModRM < 0xc0 && in.ModRM&7 == 4 && code[in.ModRMOff+1]&7 == 4 && in.Rex&x86.RexB == 0
}

func isCall(in *x86.Inst) bool { return in.Kind == x86.Call || in.Kind == x86.CallInd }

// isSyscall reports a syscall, which leaves the address behind it in rcx. Other ways into
// the kernel do not.
func isSyscall(in *x86.Inst) bool {
	const opSyscall = 0x05
	return in.Kind == x86.Syscall && in.Map == x86.Map0F && in.Op == opSyscall
}

// EndsFlow reports whether nothing runs behind in where it stands: a call goes
// on at the original return address, not behind its copy.
func EndsFlow(in *x86.Inst, code []byte) bool {
	switch in.Kind {
	case x86.Ret, x86.Jmp, x86.JmpInd, x86.Call, x86.CallInd:
		return true
	case x86.Trap:
		return code[0] != 0xcd // int n comes back
	}
	return false
}

// Extent is how much room the copy of a range takes. It grows instruction by
// instruction.
type Extent struct {
	code     int
	open     bool // the last one goes on behind it
	Literals int  // that follow the code
}

// Add adds an instruction of o, which is movable and stands at pc.
func (x *Extent) Add(o *stubgen.Object, in *x86.Inst, code []byte, pc uint64) {
	if isCall(in) && needsLiteral(o, pc+uint64(in.Len)) {
		x.Literals++
	}
	x.code += movedSize(o, in, pc)
	x.open = !EndsFlow(in, code)
}

// Open reports whether the last instruction goes on behind it.
func (x *Extent) Open() bool { return x.open }

// Code is the bytes of the copy, with the jump at its end, but for literals.
func (x *Extent) Code() int {
	if x.open {
		return x.code + JumpSize
	}
	return x.code
}

// WithLiterals is how long code of so many bytes is with literals behind it.
func WithLiterals(code, literals int) int {
	if literals == 0 {
		return code
	}
	return (code+literalSize-1)/literalSize*literalSize + literals*literalSize
}

// movedSize is the size of the relocated form of in, which stands at pc.
func movedSize(o *stubgen.Object, in *x86.Inst, pc uint64) int {
	switch in.Kind {
	case x86.Jcc:
		return 6
	case x86.Jmp:
		return JumpSize
	case x86.Loop:
		return int(in.Len) + 2 + JumpSize
	case x86.Call:
		return pushSize(o, pc+uint64(in.Len)) + JumpSize
	case x86.CallInd:
		return pushSize(o, pc+uint64(in.Len)) + int(in.Len)
	}
	if isSyscall(in) {
		return int(in.Len) + thunkLea
	}
	return int(in.Len)
}

// pushSize is the size of what pushReturn writes.
func pushSize(o *stubgen.Object, ret uint64) int {
	const balance = 5 + 1 + 5 // call, int3, lea
	if needsLiteral(o, ret) {
		return balance + 6
	}
	return balance + 5
}

// needsLiteral reports whether no immediate can hold the return address ret.
func needsLiteral(o *stubgen.Object, ret uint64) bool { return o.Run(ret) >= maxPushImm }

// maxPushImm bounds the addresses that a sign-extended 32-bit immediate can
// hold.
const maxPushImm = 1 << 31
