/* The last page of code of a static program is full: the end of .fini, 5 bytes, comes behind. */
	.section .fini, "ax", @progbits
	.balign	4096, 0x90
	.fill	4096 - 5, 1, 0x90
	.section .note.GNU-stack, "", @progbits
