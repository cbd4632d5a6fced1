/* Functions that read the status flags of their callers, which the ABI has no place for, but
   assembly by hand may do. Between the comparison and the call, or jump, a block begins. */
	.text
	.globl called, jumped, branched

	.type reads, @function
reads:			/* the parity flag of who calls */
	setp	%al
	movzbl	%al, %eax
	ret
	.size reads, . - reads

	.type called, @function
called:
	cmpl	$5, %edi
	jae	1f
	call	reads
	ret
1:	call	reads
	addl	$2, %eax
	ret
	.size called, . - called

	.type jumped, @function
jumped:
	cmpl	$5, %edi
	jae	1f
	jmp	reads
1:	jmp	reads
	.size jumped, . - jumped

	.type branched, @function
branched:
	cmpl	$5, %edi
	jae	1f
	js	reads
	xorl	%eax, %eax
	ret
1:	jns	reads
	movl	$7, %eax
	ret
	.size branched, . - branched
	.section .note.GNU-stack,"",@progbits
