/* Functions without padding that only a trap serves: nothing gives way nearby,
 * since all that their neighbours do is call. */
	.text
	.macro	FN name
	.globl	\name
	.type	\name, @function
\name:	.cfi_startproc
	.endm
	.macro	END name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.p2align 4
	FN wall_before
	.rept	60
	call	leaf
	.endr
	jmp	leaf
	END wall_before

/* one byte */
	FN trap_ret
	ret
	END trap_ret

/* somebody may arrive behind its first byte */
	FN trap_arrival
	push	%rbx
	.cfi_def_cfa_offset 16
.Larrival:
	call	*leaf_pointer(%rip)
	pop	%rbx
	.cfi_def_cfa_offset 8
	jmp	leaf
	END trap_arrival

/* edi times round, by a short branch to the entry */
	FN trap_loop
1:	call	leaf
	call	leaf
	dec	%edi
	jnz	1b
	jmp	leaf
	END trap_loop

	FN wall_behind
	call	.Larrival
	.rept	60
	call	leaf
	.endr
	jmp	leaf
	END wall_behind

/* a jump will do */
	.p2align 4
	FN leaf
	ret
	END leaf
	.p2align 4

/* the program's own */
	.globl	own_trap, behind_own_trap
	.type	own_trap, @function
own_trap:
	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	nop
	nop
	nop
	nop
	nop
	int3
behind_own_trap:
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	own_trap, . - own_trap

	.section .data.rel, "aw"
leaf_pointer:
	.quad	leaf
	.section .note.GNU-stack, "", @progbits
