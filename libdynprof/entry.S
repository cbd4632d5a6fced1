/* The executable's entry, when there is a plug-in (plugin.c). */
	.text
	.hidden	dp_entry_hook, dp_entered, dp_entry

/* In place of the executable's entry, once: rdx and the stack are as the kernel
 * and the dynamic linker left them. */
	.globl	dp_entry_hook
	.type	dp_entry_hook, @function
dp_entry_hook:
	.cfi_startproc
	.cfi_undefined rip
	push	%rdx
	.cfi_adjust_cfa_offset 8
	mov	%rsp, %rbp
	and	$-16, %rsp
	call	dp_entered
	mov	%rbp, %rsp
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	xor	%ebp, %ebp
	jmp	*dp_entry(%rip)
	.cfi_endproc
	.size	dp_entry_hook, . - dp_entry_hook

/* Relocations that the dynamic linker does not make, an array of Elf64_Rela: the address
 * of the first, as in the file, and how many. internal/lazyrela fills it in. */
	.section .dp_lazy, "a", @progbits
	.globl	dp_lazy
	.hidden	dp_lazy
	.type	dp_lazy, @object
	.size	dp_lazy, 16
	.balign	8
dp_lazy:
	.quad	0, 0

	.section .note.GNU-stack, "", @progbits
