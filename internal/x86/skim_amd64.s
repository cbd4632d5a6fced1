#include "go_asm.h"
#include "textflag.h"

// func skimChain(s *Skim, opcodes *[512]skimEntry, modRMs *[256]skimEntry, code *byte, at, room, n int) (end, count int)
//
//	DI code  SI at  R15 room  DX marked  BX s  CX s.End
//	R8 the bytes at hand  R9 those behind the next  R10 entry  R11 whether REX
TEXT ·skimChain(SB), NOSPLIT, $0-72
	MOVQ s+0(FP), BX
	MOVQ opcodes+8(FP), R12
	MOVQ modRMs+16(FP), R13
	MOVQ code+24(FP), DI
	MOVQ at+32(FP), SI
	MOVQ room+40(FP), R15
	MOVQ n+48(FP), DX
	MOVQ Skim_End(BX), CX

next:
	CMPQ DX, $const_skimmed
	JGE  done
	CMPQ SI, R15
	JGT  done
	MOVQ (DI)(SI*1), R8
	MOVQ R8, R9
	SHRQ $8, R9

	// REX
	MOVL R8, R10
	ANDL $0xf0, R10
	XORL R11, R11
	CMPL R10, $0x40
	SETEQ R11
	CMOVQEQ R9, R8
	MOVQ R8, R9
	SHRQ $8, R9

	// 0F
	MOVBLZX R8, R10
	MOVBLZX R9, AX
	ORL  $0x100, AX
	CMPL R10, $0x0f
	CMOVLEQ AX, R10
	CMOVQEQ R9, R8
	SETEQ AX
	MOVBLZX AX, AX
	ADDQ SI, AX
	ADDQ R11, AX // where the opcode is, behind 0F its second byte

	// opcode and ModRM
	MOVL (R12)(R10*4), R10
	MOVQ R8, R9
	SHRQ $8, R9
	MOVBLZX R9, R9
	MOVL (R13)(R9*4), R9
	MOVL R10, R14
	SARL $31, R14
	ANDL R14, R9
	ADDL R9, R10
	ANDL $0x07c700, R8
	CMPL R8, $0x050400
	JEQ  base

length:
	MOVBLZX R10, R9
	ADDQ AX, R9
	TESTL $(const_skimOther|const_skimWide), R10
	JNE  other

common:
	CMPQ R9, CX
	JGT  done
	MOVQ SI, Skim_begins(BX)(DX*8)
	MOVQ R9, Skim_ends(BX)(DX*8)
	MOVL R10, Skim_entries(BX)(DX*4)
	MOVQ R9, SI
	XORL R9, R9
	TESTL Skim_marked(BX), R10
	SETNE R9
	ADDQ R9, DX
	JMP  next

base: // SIB without base: disp32
	ANDL $4, R14
	ADDL R14, R10
	JMP  length

other:
	TESTL $const_skimOther, R10
	JNE  done
	TESTL R11, R11
	JEQ  common
	TESTB $8, (DI)(SI*1) // REX.W
	JEQ  common

done:
	MOVQ SI, end+56(FP)
	MOVQ DX, count+64(FP)
	RET
