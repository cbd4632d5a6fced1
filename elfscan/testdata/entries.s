# Entries as assembly writes them.
	.text
	.globl	_start
	.type	_start, @function
_start:	.cfi_startproc
	xorl	%ebp, %ebp
	ret
	.cfi_endproc
	.size	_start, .-_start

# One address, four names and a label without a type.
	.p2align 4
	.globl	longer_global, short_global, _a
	.weak	w
	.type	longer_global, @function
	.type	short_global, @function
	.type	_a, @function
	.type	w, @function
	.type	l, @function
longer_global:
short_global:
_a:
w:
l:
untyped:
	.cfi_startproc
	movl	$1, %eax
	ret
	.cfi_endproc
	.size	short_global, .-short_global
	.size	longer_global, .-longer_global

# A second entry, without a size, into what one FDE describes.
	.p2align 4
	.globl	outer, inner
	.type	outer, @function
	.type	inner, @function
outer:	.cfi_startproc
	incl	%eax
inner:	incl	%eax
	ret
	.cfi_endproc
	.size	outer, .-outer

# One symbol, described by two FDEs.
	.p2align 4
	.globl	split
	.type	split, @function
split:	.cfi_startproc
	decl	%eax
	.cfi_endproc
second_half:
	.cfi_startproc
	decl	%eax
	ret
	.cfi_endproc
	.size	split, .-split

# No FDE, no size: up to the next.
	.p2align 4
	.globl	bare
	.type	bare, @function
bare:	nop
	ret

# A signal frame, as glibc writes it: the FDE starts a byte earlier.
	.p2align 4
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa %rsp, 160
	nop
	.type	__restore_rt, @function
__restore_rt:
	movl	$15, %eax
	syscall
	.cfi_endproc

	.p2align 4
	.type	_dl_runtime_resolve_fxsave, @function
_dl_runtime_resolve_fxsave:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	ret
	.cfi_endproc
	.size	_dl_runtime_resolve_fxsave, .-_dl_runtime_resolve_fxsave

# Only an FDE knows this one.
	.p2align 4
.Lunnamed:
	.cfi_startproc
	movl	$7, %eax
	ret
	.cfi_endproc

# What --gc-sections discards.
	.section .text.unused, "ax", @progbits
	.type	unused, @function
unused:	.cfi_startproc
	ret
	.cfi_endproc
	.size	unused, .-unused

	.section .note.GNU-stack, "", @progbits
