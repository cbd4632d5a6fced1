# Functions of which the first conditional jump is taken as the name's end says, by guess: more
# often than not, less often, evenly, rarely, or hardly ever not (stubgen/flow/frequency.go).
	.text
	.globl	_start
	.type	_start, @function
_start:	ret
	.size	_start, . - _start

	.macro	fn name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	end name
	.size	\name, . - \name
	.endm

	fn	plain_even
	cmp	%rsi, %rdi
	jb	1f
	inc	%eax
1:	mov	%eax, (%rdi)
	ret
	end	plain_even

	fn	apart_less			# nothing else goes on at what it leads to
	cmp	%rsi, %rdi
	jb	3f
1:	mov	%eax, (%rdi)
	cmp	%rdx, %rdi
	jb	2f
	inc	%eax
2:	ret
3:	inc	%eax
	jmp	1b
	end	apart_less

	fn	far_less			# it leads over more than four blocks
	cmp	%rsi, %rdi
	jb	1f
	.rept	3
	cmp	%rdx, %rdi
	jb	2f
	inc	%eax
2:	dec	%ecx
	.endr
1:	mov	%eax, (%rdi)
	ret
	end	far_less

	fn	many_less			# others lead there, too
	cmp	%rsi, %rdi
	jb	1f
	cmp	%rdx, %rdi
	jb	1f
	cmp	%rcx, %rdi
	jb	1f
	inc	%eax
1:	mov	%eax, (%rdi)
	ret
	end	many_less

	fn	back_less
	jmp	2f
1:	mov	%eax, (%rdi)
	ret
2:	cmp	%rsi, %rdi
	jb	1b
	inc	%eax
	jmp	1b
	end	back_less

	fn	calls_less			# it leads to a call, and there is none behind it
	cmp	%rsi, %rdi
	jb	1f
	inc	%eax
	cmp	%rdx, %rdi
	jb	2f
1:	call	_start
2:	mov	%eax, (%rdi)
	ret
	end	calls_less

	fn	avoids_more			# it leads around a call
	cmp	%rsi, %rdi
	jb	1f
	call	_start
1:	mov	%eax, (%rdi)
	ret
	end	avoids_more

	fn	returns_less			# it leads around a return
	cmp	%rsi, %rdi
	jb	2f
	ret
1:	inc	%eax
2:	mov	%eax, (%rdi)
	cmp	%rdx, %rdi
	jb	1b
	ret
	end	returns_less

	.macro	after name, jump, compare:vararg
	fn	\name
	\compare
	\jump	1f
	inc	%eax
1:	mov	%eax, (%rdi)
	ret
	end	\name
	.endm
	after	nil_less, je, test %rdi, %rdi
	after	nil_not_more, jne, test %rdi, %rdi
	after	zero_more, je, test %edi, %edi
	after	zero_not_less, jne, test %edi, %edi
	after	byte_more, je, test %dil, %dil
	after	bit_more, je, testb $4, (%rdi)
	after	memory_more, je, cmpl $0, (%rdi)
	after	number_less, je, cmpl $7, (%rdi)
	after	number_wide_less, je, cmp $0x12345, %eax
	after	number_not_even, jne, cmpl $7, (%rdi)
	after	negative_less, js, test %edi, %edi
	after	negative_not_more, jns, test %edi, %edi
	after	positive_more, jg, test %edi, %edi
	after	positive_not_less, jle, test %edi, %edi
	after	above_less, ja, cmp $9, %edi
	after	below_more, jbe, cmp $9, %edi
	after	other_even, je, cmp %rsi, %rdi

	fn	round_more			# a loop
1:	inc	%eax
	cmp	%rsi, %rdi
	jb	1b
	mov	%eax, (%rdi)
	ret
	end	round_more

	fn	leaves_less			# it leads out of a loop
1:	cmp	%rsi, %rdi
	jb	2f
	inc	%eax
	jmp	1b
2:	mov	%eax, (%rdi)
	ret
	end	leaves_less

	fn	ends_rarely			# what it leads to does not come back,
	cmp	%rsi, %rdi
	jb	1f
	mov	%eax, (%rdi)
	ret
1:	ud2
	end	ends_rarely

	fn	later_rarely			# nor what that leads to, by either way
	cmp	%rsi, %rdi
	jb	1f
	mov	%eax, (%rdi)
	ret
1:	inc	%eax
	cmp	%rdx, %rdi
	jb	2f
	ud2
2:	ud2
	end	later_rarely

	fn	lives_always
	cmp	%rsi, %rdi
	jb	1f
	ud2
1:	mov	%eax, (%rdi)
	ret
	end	lives_always

	fn	cold_rarely			# it leads to a cold part
	cmp	%rsi, %rdi
	jb	aside.cold
	inc	%eax
back:	mov	%eax, (%rdi)
	ret
	end	cold_rarely

	fn	colder_rarely			# or to what only that follows
	cmp	%rsi, %rdi
	jb	1f
	mov	%eax, (%rdi)
	ret
1:	inc	%eax
	jmp	beside.cold
	end	colder_rarely

	.section .text.unlikely, "ax", @progbits
	.type	aside.cold, @function
aside.cold:
	dec	%eax
	jmp	back
	.size	aside.cold, . - aside.cold
	.type	beside.cold, @function
beside.cold:
	dec	%eax
	ret
	.size	beside.cold, . - beside.cold
