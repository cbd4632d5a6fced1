package x86

import (
	"bytes"
	"strings"
)

// objdumpKind reads the Kind, and for direct branches the target, from
// objdump's text (AT&T syntax).
func objdumpKind(text []byte) (Kind, uint64) {
	op, operands := splitPrefixes(string(text))
	indirect := strings.HasPrefix(operands, "*")
	direct := func(k Kind) (Kind, uint64) {
		target, _, _ := strings.Cut(operands, " ")
		return k, hexNumber([]byte(target))
	}
	if strings.HasPrefix(op, "loop") {
		return direct(Loop)
	}
	switch strings.TrimRight(op, "wlq") { // an operand size suffix, and the end of call
	case "ca":
		if indirect {
			return CallInd, 0
		}
		return direct(Call)
	case "lca":
		return CallInd, 0
	case "jmp":
		if indirect {
			return JmpInd, 0
		}
		return direct(Jmp)
	case "ljmp":
		return JmpInd, 0
	case "jrcxz", "jecxz":
		return direct(Loop)
	case "xbegin":
		return direct(Xbegin)
	case "ret", "lret", "iret", "sysret", "sysexit":
		return Ret, 0
	case "sysca", "sysenter":
		return Syscall, 0
	case "int":
		if operands == "$0x80" {
			return Syscall, 0
		}
		return Trap, 0
	case "ud0", "ud1", "ud2", "hlt", "int3", "int1", "rsm":
		return Trap, 0
	case "nop":
		return Nop, 0
	case "xchg":
		if operands == "%ax,%ax" || operands == "%rax,%rax" {
			return Nop, 0
		}
	case "endbr64", "endbr32":
		return Endbr, 0
	}
	if op[0] == 'j' {
		return direct(Jcc)
	}
	return Plain, 0
}

// splitPrefixes cuts off prefixes, branch hints and the comment.
func splitPrefixes(text string) (op, operands string) {
	text, _, _ = strings.Cut(text, " # ")
	for {
		op, operands, _ = strings.Cut(text, " ")
		op, _, _ = strings.Cut(op, ",")
		operands = strings.TrimSpace(operands)
		if operands == "" || !isPrefixText(op) {
			return op, operands
		}
		text = operands
	}
}

func isPrefixText(s string) bool {
	switch s {
	case "cs", "ds", "es", "ss", "fs", "gs", "data16", "addr32", "rep", "repz", "repnz",
		"lock", "bnd", "notrack", "xacquire", "xrelease":
		return true
	}
	return strings.HasPrefix(s, "rex")
}

// objdumpRIPTarget reads the address of a RIP-relative operand from the comment.
func objdumpRIPTarget(text []byte) (target uint64, ok bool) {
	_, comment, ok := bytes.Cut(text, []byte("# "))
	if !ok {
		return 0, false
	}
	address, _, _ := bytes.Cut(comment, []byte(" "))
	return hexNumber(address), true
}
