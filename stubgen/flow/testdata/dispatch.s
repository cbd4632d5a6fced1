# Jumps by tables: name_N may take N entries; of name_none it is not known,
# of name_undecodable not where they lead, either.
	.text
	.globl outside
	.type outside, @function
outside:
	ret
	.size outside, .-outside

	.macro function name
	.type \name, @function
\name:
	.endm

	# where they lead to; the table may be read by the jump itself
	.macro targets name
1:	mov $1, %eax
	ret
2:	mov $2, %eax
9:	ret
	.size \name, .-\name
	.section .rodata
\name\()_pic:
	.long 1b-\name\()_pic, 2b-\name\()_pic, 1b-\name\()_pic, 2b-\name\()_pic
	.rept 252
	.long 2b-\name\()_pic
	.endr
\name\()_abs:
	.rept 128
	.quad 1b, 2b
	.endr
	.text
	.endm

function above_4
	cmp $3, %edi
	ja 9f
	lea above_4_pic(%rip), %rdx
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	notrack jmp *%rax
targets above_4

function not_below_3
	mov %edi, %eax
	cmp $3, %edi
	jae 9f
	jmp *not_below_3_abs(,%rax,8)
targets not_below_3

function below_equal_taken_4
	cmp $3, %edi
	jbe 5f
	ret
5:	mov below_equal_taken_4_abs(,%rdi,8), %rcx
	jmp *%rcx
targets below_equal_taken_4

function mask_8
	and $7, %edi
	jmp *mask_8_abs(,%rdi,8)
targets mask_8

function byte_256
	movzbl (%rsi), %eax
	jmp *byte_256_abs(,%rax,8)
targets byte_256

function byte_compared_4
	cmp $3, %al
	ja 9f
	lea byte_compared_4_abs(%rip), %rcx
	movzbl %al, %eax
	jmp *(%rcx,%rax,8)
targets byte_compared_4

function high_256
	cmp $3, %ah
	ja 9f
	movzbl %ah, %eax
	jmp *high_256_abs(,%rax,8)
targets high_256

function hoisted_4
	push %rbx
	push %rbp
	lea hoisted_4_pic(%rip), %rbx
3:	call outside
	cmp $3, %eax
	ja 8f
	movslq (%rbx,%rax,4), %rax
	add %rbx, %rax
	jmp *%rax
8:	dec %ebp
	jne 3b
	pop %rbp
	pop %rbx
	ret
targets hoisted_4

function caller_saved_none
	lea caller_saved_none_pic(%rip), %rdx
3:	call outside
	cmp $3, %eax
	ja 3b
	movslq (%rdx,%rax,4), %rax
	add %rdx, %rax
	jmp *%rax
targets caller_saved_none

function two_tables_none
	lea two_tables_none_pic(%rip), %rdx
	test %esi, %esi
	je 3f
	lea above_4_pic(%rip), %rdx
3:	cmp $3, %edi
	ja 9f
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	jmp *%rax
targets two_tables_none

function as_argument_undecodable
	cmp $3, %edi
	ja 9f
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	jmp *%rax
targets as_argument_undecodable

function by_return_undecodable
	lea by_return_undecodable_pic(%rip), %rdx
	and $3, %edi
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	push %rax
	ret
targets by_return_undecodable

function byte_changed_256		# what was compared is not what is taken, but it is a byte
	cmp $3, %dil
	ja 9f
	inc %edi
	movzbl %dil, %edi
	jmp *byte_changed_256_abs(,%rdi,8)
targets byte_changed_256

function unbounded_none
	jmp *unbounded_none_abs(,%rdi,8)
targets unbounded_none

function signed_none
	cmp $3, %edi
	jg 9f
	jmp *signed_none_abs(,%rdi,8)
targets signed_none

function other_flags_none
	cmp $3, %edi
	test %esi, %esi
	ja 9f
	jmp *other_flags_none_abs(,%rdi,8)
targets other_flags_none

function low_byte_none
	cmp $3, %dil
	ja 9f
	jmp *low_byte_none_abs(,%rdi,8)
targets low_byte_none

function changed_none
	cmp $3, %edi
	ja 9f
	inc %edi
	jmp *changed_none_abs(,%rdi,8)
targets changed_none

function two_ways_none
	cmp $3, %edi
	ja 3f
	mov $2, %edi
	jmp 4f
3:	mov $9, %edi
4:	jmp *two_ways_none_abs(,%rdi,8)
targets two_ways_none

function kept_none			# a target returns what was loaded into rbx
	cmp $3, %edi
	ja 9f
	mov kept_none_abs(,%rdi,8), %rbx
	jmp *%rbx
targets kept_none

function read_later_none
	cmp $1, %edi
	ja 4f
	mov read_later_none_abs(,%rdi,8), %rcx
	jmp *%rcx
3:	mov %rcx, %rax
4:	ret
	.section .rodata
read_later_none_abs:
	.quad 3b, 4b
	.text
	.size read_later_none, .-read_later_none

function stored_none
	cmp $3, %edi
	ja 9f
	mov stored_none_abs(,%rdi,8), %rcx
	mov %rcx, (%rsi)
	jmp *%rcx
targets stored_none

function writable_none			# the program may write its table
	cmp $1, %edi
	ja 4f
	jmp *writable_none_abs(,%rdi,8)
3:	mov $1, %eax
4:	ret
	.size writable_none, .-writable_none
	.data
writable_none_abs:
	.quad 3b, 4b
