/* victim.c's 32-bit sibling, without a library: makes the file named by its
 * first argument, writes a line, ends with status 3. */
	.globl	_start
_start:
	movl	8(%esp), %ebx
	testl	%ebx, %ebx
	jz	1f
	movl	$0600, %ecx
	movl	$8, %eax		/* creat */
	int	$0x80
1:	movl	$4, %eax		/* write */
	movl	$1, %ebx
	movl	$line, %ecx
	movl	$8, %edx
	int	$0x80
	movl	$1, %eax		/* exit */
	movl	$3, %ebx
	int	$0x80
line:	.ascii	"32 bits\n"
	.section .note.GNU-stack, "", @progbits
