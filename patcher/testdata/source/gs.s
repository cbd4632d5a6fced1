# A library that uses the GS segment.
	.globl	takes_gs
	.type	takes_gs, @function
takes_gs:
	mov	%gs:0x10, %rax
	add	$1, %rax
	ret
	.size	takes_gs, . - takes_gs
	.section .note.GNU-stack, "", @progbits
