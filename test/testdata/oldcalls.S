# System calls of 32-bit programs whose numbers are those of kernel sites in 64-bit
# ones: time is rt_sigaction's, umask exit's, unlink mprotect's. Status 0 if all do
# what they do.
	.text
	.globl	main
	.type	main, @function
main:
	mov	$13, %eax	# time(NULL)
	xor	%ebx, %ebx
	int	$0x80
	cmp	$1000000, %eax
	jbe	1f
	mov	$60, %eax	# umask(022)
	mov	$022, %ebx
	int	$0x80
	mov	$60, %eax
	mov	$027, %ebx
	int	$0x80
	sub	$022, %eax
	jne	1f
	mov	$10, %eax	# unlink(NULL)
	xor	%ebx, %ebx
	int	$0x80
	add	$14, %eax	# EFAULT
	jne	1f
	ret
1:	mov	$1, %eax
	ret
	.size	main, .-main
	.section .note.GNU-stack, "", @progbits
