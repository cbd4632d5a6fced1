/* Functions that leave the status flags of their callers alone, which read them behind the
   call. The ABI has no place for that, but assembly by hand may do it. */
	.text
	.globl direct, jumped, last, own, branched, twice

	.macro function name
	.p2align 4
	.type \name, @function
\name:
	.endm
	.macro done name
	.size \name, . - \name
	.endm

function copies
	movl	%edi, %eax
	ret
done copies

function larger		/* not moved whole, and its copy has blocks */
	movl	%edi, %eax
	leal	1(%rax), %ecx
	jrcxz	1f
	.rept	20
	leaq	1(%rcx), %rcx
	.endr
	jmp	2f
1:	leaq	7(%rcx), %rcx
2:	.rept	20
	leaq	1(%rcx), %rcx
	.endr
	ret
done larger

function jumps
	movl	%edi, %edx
	jmp	copies
done jumps

function calls
	call	larger
	ret
done calls

function sets		/* its own flags are left alone by who it jumps to */
	cmpl	$7, %edi
	jmp	copies
done sets

function branches
	jp	copies
	movl	%edi, %eax
	ret
done branches

	.macro caller name, callee
function \name
	cmpl	$5, %edi
	call	\callee
	setp	%al
	sets	%cl
	leal	(%rax,%rcx,2), %eax
	andl	$3, %eax
	ret
done \name
	.endm

caller direct, copies
caller jumped, jumps
caller last, calls
caller own, sets
caller branched, branches

function twice
	cmpl	$9, %edi
	call	larger
	jb	1f
	call	copies
	setz	%al
	movzbl	%al, %eax
	ret
1:	movl	$2, %eax
	ret
done twice
	.section .note.GNU-stack,"",@progbits
