/* Makes an object one that uses the GS segment: its run is counted with lock. */
	.text
	.globl	uses_gs
	.type	uses_gs, @function
uses_gs:
	.cfi_startproc
	mov	%gs:0, %rax
	ret
	.cfi_endproc
	.size	uses_gs, . - uses_gs
	.section .note.GNU-stack, "", @progbits
