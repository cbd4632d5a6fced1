# The recorded program: the functions of stubgen/testdata/entries.s. It stops where
# it is recorded.
	.globl	_start
	.type	_start, @function
_start:	mov	$39, %eax		# getpid
	syscall
	mov	%eax, %edi
	mov	$19, %esi		# SIGSTOP
	mov	$62, %eax		# kill
	syscall
	mov	$60, %eax		# exit
	xor	%edi, %edi
	syscall
	.size	_start, . - _start
	.section .note.GNU-stack, "", @progbits
