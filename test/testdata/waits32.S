/* waits.c of 32 bits, without a library. */
	.globl	_start
_start:
	movl	$4, %eax		/* write */
	movl	$1, %ebx
	movl	$line, %ecx
	movl	$6, %edx
	int	$0x80
1:	movl	$3, %eax		/* read */
	xorl	%ebx, %ebx
	leal	-4(%esp), %ecx
	movl	$1, %edx
	int	$0x80
	testl	%eax, %eax
	jg	1b
	movl	$1, %eax		/* exit */
	xorl	%ebx, %ebx
	int	$0x80
line:	.ascii	"ready\n"
	.section .note.GNU-stack, "", @progbits
