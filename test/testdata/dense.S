/* Code that does little but touch memory: 2,200 functions of 400 loads each, in 4 MB; with STRINGS
 * of 2,000 loads of a byte of code each. */
	.altmacro
	.macro one n
	.p2align 4
	.type f\n, @function
f\n\():
#ifdef STRINGS
	.rept 2000
	lodsb
	.endr
#else
	.rept 200
	add (%rdi), %eax
	inc %rdi
	add (%rsi), %eax
	inc %rsi
	.endr
#endif
	ret
	.size f\n, .-f\n
	.endm

	.text
	.set i, 0
	.rept 2200
	one %i
	.set i, i + 1
	.endr

	.globl main
	.type main, @function
main:	push %rbx
	lea pages(%rip), %rbx
	xor %eax, %eax
	mov %rbx, %rdi
	lea 4096(%rbx), %rsi
	call f0
	lea 8192(%rbx), %rdi
	mov %rdi, %rsi
	call f1000
	lea 16384(%rbx), %rdi
	mov %rdi, %rsi
	call f2199
	pop %rbx
	ret
	.size main, .-main

	.bss
	.balign 4096
	.globl pages
pages:	.skip 8 * 4096
	.section .note.GNU-stack, "", @progbits
