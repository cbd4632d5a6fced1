/* SITES instructions, which are a multiple of 100, that each add 1 to counter, once: in functions of
 * 100. main returns 0 if that is what they did. */
	.bss
	.globl counter
	.type counter, @object
	.size counter, 4
	.p2align 2
counter: .skip 4

	.altmacro
	.macro one n
	.p2align 4
	.type adds\n, @function
adds\n:
	.cfi_startproc
	.rept 100
	incl counter(%rip)
	.endr
	ret
	.cfi_endproc
	.size adds\n, . - adds\n
	.endm
	.macro calls n
	call adds\n
	.endm

	.text
	.set i, 0
	.rept SITES / 100
	one %i
	.set i, i + 1
	.endr

	.globl main
	.type main, @function
main:
	.cfi_startproc
	.set i, 0
	.rept SITES / 100
	calls %i
	.set i, i + 1
	.endr
	xor %eax, %eax
	cmpl $SITES, counter(%rip)
	setne %al
	ret
	.cfi_endproc
	.size main, . - main
	.section .note.GNU-stack, "", @progbits
