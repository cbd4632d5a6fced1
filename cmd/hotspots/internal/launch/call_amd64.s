#include "textflag.h"

// func call(nr, a, b, c, d int) (ret int)
TEXT ·call(SB), NOSPLIT, $0-48
	MOVQ	nr+0(FP), AX
	MOVQ	a+8(FP), DI
	MOVQ	b+16(FP), SI
	MOVQ	c+24(FP), DX
	MOVQ	d+32(FP), R10
	SYSCALL
	MOVQ	AX, ret+40(FP)
	RET

// The same for arguments that are pointers.

// func callAt(nr, a int, b *byte, c, d int) (ret int)
TEXT ·callAt(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callOn(nr int, a *byte, b, c, d int) (ret int)
TEXT ·callOn(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callTwo(nr int, a, b *byte, c, d int) (ret int)
TEXT ·callTwo(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callStat(nr, a int, b *byte, c *syscall.Stat_t, d int) (ret int)
TEXT ·callStat(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callFs(nr int, a *byte, b *syscall.Statfs_t, c, d int) (ret int)
TEXT ·callFs(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callLimit(nr, pid, resource int, to, was *[2]uint64) (ret int)
TEXT ·callLimit(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callWait(nr, a int, b *[2]uint32, c, d int) (ret int)
TEXT ·callWait(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func callInfo(nr int, a *uint64, b *[32]int32, c, d int) (ret int)
TEXT ·callInfo(SB), NOSPLIT, $0-48
	JMP	·call(SB)

// func behind(p *byte, n int) *byte
TEXT ·behind(SB), NOSPLIT, $0-24
	MOVQ	p+0(FP), AX
	ADDQ	n+8(FP), AX
	MOVQ	AX, ret+16(FP)
	RET
