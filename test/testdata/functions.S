/* FUNCTIONS functions of random lengths, which call those in front of them: uint64_t (*)(uint64_t, int),
 * where the second argument is how deep. Every 97th can be reached from C. */
	.altmacro
	.macro one n, callee, length
	.p2align 4
	.type function\n, @function
function\n:
	.cfi_startproc
	push %rbx
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	mov %rdi, %rbx
	mov $\n, %eax
	test %esi, %esi
	jle 1f
	dec %esi
	call function\callee
	xor %rax, %rbx
	imul $2*\n+1, %rbx, %rbx
	.rept \length
	mov %rbx, %rcx
	shr $7, %rcx
	xor %rcx, %rbx
	.endr
	mov %rbx, %rax
1:	pop %rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size function\n, . - function\n
	.endm
	.macro pointer n
	.quad function\n
	.endm

	.text
	.set i, 0
	.set random, 1
	.rept FUNCTIONS
	.set random, (random * 1664525 + 1013904223) & 0xffffffff
	one %i, %((random >> 8) % (i + 1)), %((random >> 4) % 12)
	.set i, i + 1
	.endr

	.section .data.rel.ro, "aw"
	.globl functions
functions:
	.set i, 0
	.rept (FUNCTIONS + 96) / 97
	pointer %i
	.set i, i + 97
	.endr
	.section .rodata
	.globl functions_count
functions_count:
	.long (FUNCTIONS + 96) / 97
	.section .note.GNU-stack, "", @progbits
