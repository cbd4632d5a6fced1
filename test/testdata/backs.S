/* Functions that loop back between their first bytes, where a jump to the stub lies, or to their entry.
 * unsigned name(unsigned rounds, unsigned x): rounds is at least 1. */
	.text

/* What the loop does: 3, 2, 4 bytes, with 3 blocks. */
	.macro step
	imul $3, %esi, %esi
	add %edi, %esi
	test $4, %sil
	jz 5f
	xor $0x55, %esi
5:
	.endm

	.macro begin name
	.p2align 4
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro finish name
	mov %esi, %eax
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

/* The first bytes in front of the loop. */
	.macro bytes0
	.endm
	.macro bytes1
	cld
	.endm
	.macro bytes2
	xor %eax, %eax
	.endm
	.macro bytes3
	add $7, %esi
	.endm
	.macro bytes4
	lea 7(%rsi), %rsi
	.endm
	.macro bytes5
	mov $1, %eax
	.endm

	.macro near
	.endm
	.macro far
	.rept 100
	lea 0x11(%rsi), %rsi
	.endr
	.endm

/* By a conditional jump, by one that is not, by both, and by a loop instruction. */
	.macro shapes n, how
	begin jcc\n\how
	bytes\n
1:	step
	\how
	dec %edi
	jnz 1b
	finish jcc\n\how

	begin jmp\n\how
	bytes\n
1:	step
	\how
	dec %edi
	jz 2f
	jmp 1b
2:	finish jmp\n\how

	begin both\n\how
	bytes\n
1:	step
	\how
	dec %edi
	jz 2f
	test $8, %sil
	jnz 1b
	add $3, %esi
	jmp 1b
2:	finish both\n\how
	.endm

	.irp n, 0, 1, 2, 3, 4, 5
	shapes \n, near
	shapes \n, far
	.endr

	.irp n, 2, 3, 4
	begin loops\n
	.if \n == 2
	mov %edi, %ecx
	.elseif \n == 3
	mov %rdi, %rcx
	.else
	lea 0(%edi), %ecx
	.endif
1:	step
	loop 1b
	finish loops\n
	.endr

/* The loop ends in the first bytes, too: all of it runs where they are overwritten. */
	begin tight
	cld
1:	dec %edi
	jnz 1b
	finish tight

/* A call in the loop, behind the first bytes, and among them; what it calls keeps all but esi. */
	.macro calls name, call
	begin \name
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
1:	mov %edi, %ebx
	\call
	mov %ebx, %edi
	dec %edi
	jnz 1b
	pop %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	finish \name
	.endm
	calls callsbehind, "step; call added"
	calls callsamong, "call added"
	calls callstwice, "call added; call added"
	calls callslast, "xor $9, %esi; call added; cld; call added"

	begin throws
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
1:	mov %edi, %ebx
	push %rsi
	.cfi_adjust_cfa_offset 8
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	mov %esi, %edi
	call thrown
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	add %ebx, %esi
	mov %ebx, %edi
	dec %edi
	jnz 1b
	pop %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	finish throws

/* A part of it jumps back, too. */
	begin parted
	bytes3
1:	step
	dec %edi
	jz 2f
	test $16, %sil
	jnz parted.cold
	jmp 1b
2:	finish parted

/* As in malloc a jump leads behind a lock prefix, in some of the rounds. */
	begin behindlock
	push %rsi
	.cfi_adjust_cfa_offset 8
1:	test $1, %edi
	jz 2f
	lock
2:	xaddl %esi, (%rsp)
	add $5, %esi
	dec %edi
	jnz 1b
	pop %rsi
	.cfi_adjust_cfa_offset -8
	finish behindlock

/* Another function comes to the first bytes, behind those of a hop; or a pointer of its own. */
	begin enteredjumped
	bytes3
1:	step
	far
	dec %edi
	jnz 1b
	finish enteredjumped

	begin entersjumped
	add $29, %esi
	jmp enteredjumped + 3
	.cfi_endproc
	.size entersjumped, . - entersjumped

	begin enteredpointed
	bytes3
1:	step
	far
	dec %edi
	jz 2f
	lea 1b(%rip), %rax
	jmp *%rax
2:	finish enteredpointed

	begin added
	add $13, %esi
	test $1, %sil
	jz 1f
	add $2, %esi
1:	ret
	.cfi_endproc
	.size added, . - added

	.section .text.unlikely, "ax", @progbits
	.type parted.cold, @function
parted.cold:
	.cfi_startproc
	add $5, %esi
	jmp parted + 3
	.cfi_endproc
	.size parted.cold, . - parted.cold

	.section .note.GNU-stack, "", @progbits
