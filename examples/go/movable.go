package main

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

var (
	errOpcode  = errors.New("an instruction is not known")
	errLeaves  = errors.New("a branch leads out of it")
	errPlace   = errors.New("an instruction depends on its place")
	errFalls   = errors.New("its end is not one")
	errUnusual = errors.New("an instruction is not one that is moved")
)

// movable returns nil if the function runs the same at any place: no instruction
// of it has its address in it, and branches stay in it.
func movable(code []byte) error {
	starts, targets := map[int]bool{}, []int{}
	ends := false
	for at := 0; at < len(code); {
		inst, err := x86asm.Decode(code[at:], 64)
		if err != nil || inst.Op == 0 || inst.Len == 0 {
			return fmt.Errorf("+%#x: %w", at, errOpcode)
		}
		if err := fixed(inst, code[at:at+inst.Len]); err != nil {
			return fmt.Errorf("+%#x: %w", at, err)
		}
		starts[at] = true
		at += inst.Len
		for _, arg := range inst.Args {
			if rel, is := arg.(x86asm.Rel); is {
				targets = append(targets, at+int(rel))
			}
		}
		ends = inst.Op == x86asm.RET || inst.Op == x86asm.JMP
	}
	for _, t := range targets {
		if !starts[t] {
			return errLeaves
		}
	}
	if !ends {
		return errFalls
	}
	return nil
}

// fixed returns an error if the instruction cannot be moved for what it is.
func fixed(inst x86asm.Inst, code []byte) error {
	// x86asm does not tell addresses relative to RIP behind VEX and EVEX.
	const prefixes = "\x26\x2e\x36\x3e\x64\x65\x67"
	if rest := bytes.TrimLeft(code, prefixes); len(rest) == 0 || rest[0] == 0xc4 || rest[0] == 0xc5 || rest[0] == 0x62 {
		return errUnusual
	}
	switch inst.Op {
	case x86asm.CALL, x86asm.LCALL, x86asm.LJMP, x86asm.SYSCALL, x86asm.INT, x86asm.INTO, x86asm.UD1, x86asm.UD2, x86asm.XBEGIN:
		return errUnusual
	case x86asm.JMP:
		if _, direct := inst.Args[0].(x86asm.Rel); !direct {
			return errUnusual // a switch's table
		}
	}
	for _, arg := range inst.Args {
		if m, is := arg.(x86asm.Mem); is && m.Base == x86asm.RIP {
			return errPlace
		}
	}
	return nil
}
