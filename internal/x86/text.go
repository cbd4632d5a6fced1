package x86

import (
	"fmt"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// Text is the instruction at the start of code, running at pc, in AT&T syntax
// with the target of a RIP-relative operand as a comment. It is for people
// only: what the decodeNamer does not know, or cannot be trusted with, is
// ".byte 0x.., ..", of which Decode knows the length (one byte if none).
func Text(code []byte, pc uint64) string {
	var in Inst
	if Decode(code, &in) != nil {
		return byteText(code[:min(len(code), 1)])
	}
	code = code[:in.Len]
	inst, ok := decodeName(code)
	switch {
	case in.Kind == Endbr && in.ModRM == 0xfa:
		return "endbr64"
	case !ok || inst.Op == 0 || inst.Len != len(code):
		return byteText(code)
	}
	correctMemory(&inst, &in)
	text := x86asm.GNUSyntax(inst, pc, nil)
	if in.Prefix&(PrefixFS|PrefixGS) == 0 { // it takes bits of EVEX for a segment
		text = strings.NewReplacer("%fs:", "", "%gs:", "").Replace(text)
	}
	if in.RIPRel() {
		text += fmt.Sprintf(" # %#x", in.RIPTarget(code, pc))
	}
	return text
}

// decodeName is x86asm behind a guard: it may panic on some bytes.
func decodeName(code []byte) (inst x86asm.Inst, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	inst, err := x86asm.Decode(code, 64)
	return inst, err == nil
}

// correctMemory sign-extends disp32, which x86asm v0.32 does not in legacy
// encodings, and restores the base RIP, which it loses in VEX ones.
func correctMemory(inst *x86asm.Inst, in *Inst) {
	for i, arg := range inst.Args {
		m, ok := arg.(x86asm.Mem)
		if !ok {
			continue
		}
		if in.DispSize == 4 {
			m.Disp = int64(int32(m.Disp))
		}
		if in.RIPRel() {
			m.Base = x86asm.RIP
		}
		inst.Args[i] = m
	}
}

func byteText(code []byte) string {
	var b strings.Builder
	for i, c := range code {
		b.WriteString([]string{".byte ", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%#02x", c)
	}
	return b.String()
}
