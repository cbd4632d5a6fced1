/* TIMES calls of cool, behind it (overwrites.c). */
	.text
	.type calls_often, @function
calls_often:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.rept TIMES
	call cool
	.endr
	pop %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size calls_often, . - calls_often
	.section .note.GNU-stack, "", @progbits
