/* What the jump in place of the dynamic linker's function leads to. Signals are
 * blocked while objects are planned: a program that steps through itself would be
 * killed by a step, so that the flags are clean.
 */
#include "base/saved.h"

	.text
	.hidden	dp_objects_changed, dp_new_objects

	.globl	dp_objects_changed
	.type	dp_objects_changed, @function
dp_objects_changed:
	.cfi_startproc
	SAVE_FLAGS
	SAVE	%rbp
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_new_objects
	mov	%rbp, %rsp
	.cfi_def_cfa_register rsp
	LOAD	%rbp
	.cfi_restore rbp
	LOAD_FLAGS
	ret
	.cfi_endproc
	.size	dp_objects_changed, . - dp_objects_changed

	.section .note.GNU-stack, "", @progbits
