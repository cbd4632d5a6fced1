# Shapes of control flow. Names tell what each is.
	.text
	.globl outside
	.type outside, @function
outside:
	ret
	.size outside, .-outside

	.type straight, @function
straight:
	mov %edi, %eax
	add %esi, %eax
	ret
	.size straight, .-straight

	.type diamond, @function
diamond:
	test %edi, %edi
	je 1f
	mov $1, %eax
	jmp 2f
1:	mov $2, %eax
2:	add $3, %eax
	ret
	.size diamond, .-diamond

	.type nested_loops, @function
nested_loops:
	xor %eax, %eax
1:	mov %esi, %ecx
2:	add %ecx, %eax
	dec %ecx
	jne 2b
	dec %edi
	jne 1b
	ret
	.size nested_loops, .-nested_loops

	.type two_ends, @function
two_ends:			# a loop with two edges back, and one out of its middle
1:	dec %edi
	js 3f
	test $1, %edi
	je 1b
	call outside
	jmp 1b
3:	ret
	.size two_ends, .-two_ends

	.type entered_twice, @function
entered_twice:			# a circle that is no natural loop
	test %edi, %edi
	je 2f
1:	dec %esi
2:	dec %edi
	jne 1b
	ret
	.size entered_twice, .-entered_twice

	.type calls, @function
calls:
	push %rbx
	call outside
	call *%rdi
	pop %rbx
	jmp outside
	.size calls, .-calls

	.type never_back, @function
never_back:
	test %edi, %edi
	jne 1f
	ret
1:	call outside
	.size never_back, .-never_back

	.type switch_pic, @function
switch_pic:
	cmp $3, %edi
	ja 9f
	lea table_pic(%rip), %rdx
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	jmp *%rax
1:	mov $1, %eax
	ret
2:	call outside
3:	mov $3, %eax
	ret
9:	xor %eax, %eax
	ret
	.size switch_pic, .-switch_pic

	.type labels, @function
labels:				# computed goto, the addresses in data
	mov (%rsi), %rax
	jmp *goto_table(,%rax,8)
one:	add $8, %rsi
	mov (%rsi), %rax
	jmp *goto_table(,%rax,8)
two:	ret
	.size labels, .-labels

	.type tail_by_pointer, @function
tail_by_pointer:
	mov (%rdi), %rax
	jmp *8(%rax)
	.size tail_by_pointer, .-tail_by_pointer

	.type system, @function
system:
	mov $39, %eax
	syscall
	test %rax, %rax
	js 1f
	ret
1:	ud2
	.size system, .-system

	.type has_part, @function
has_part:
	test %edi, %edi
	js has_part.cold
	mov %edi, %eax
1:	ret
	.size has_part, .-has_part

	.type falls_out, @function
falls_out:
	mov %edi, %eax
	.size falls_out, .-falls_out
	.type after, @function
after:
	jrcxz 1f
	loop after
1:	ret
	.size after, .-after

	.type has_part.cold, @function
has_part.cold:
	call outside
	jmp has_part
	.size has_part.cold, .-has_part.cold

	.text
	.type switch_hole, @function
switch_hole:			# the second entry is for what cannot be: it leads to the end
	lea table_hole(%rip), %rdx
	movslq (%rdx,%rdi,4), %rax
	add %rdx, %rax
	jmp *%rax
1:	mov $1, %eax
	ret
2:	mov $2, %eax
	ret
	.size switch_hole, .-switch_hole

	.type walk, @function
walk:				# ways out of a loop, of which a detour counts one
	push %rbx
	mov (%rdi), %rbx
	test %rbx, %rbx
	je 9f
	mov (%rbx), %rsi
	test %rsi, %rsi
	jne 2f
	jmp 9f
1:	mov (%rbx), %rsi
	test %rsi, %rsi
	je 9f
2:	mov (%rsi), %rbx
	call outside
	test %rbx, %rbx
	jne 1b
9:	pop %rbx
	ret
	.size walk, .-walk

	.type perhaps, @function
perhaps:			# what a call returns to is jumped to, too: the detour is in front of it
	sub $8, %rsp
	cmpb $0x44, (%rdi)
	jne 1f
	cmp %rcx, 16(%rdi)
	je 2f
1:	call outside
2:	mov $4, %esi
	call outside
	.size perhaps, .-perhaps

	.type pointers, @function
pointers:			# calls by pointers: in a register, on the stack, in a variable; one by FS is not noted
	push %rbx
	mov %rdi, %rbx
	push %rsi
	call *%rdi
	mov $1, %edi
	call *(%rsp)
	mov $2, %edi
	call *hook(%rip)
	mov $3, %edi
	call *%fs:16
	mov $4, %edi
	pop %rsi
	pop %rbx
	jmp *%rsi
	.size pointers, .-pointers
	.type goto_difference, @function
goto_difference:		# goto *(&&label + table[i]): offsets are not from the table
	lea table_difference(%rip), %rdx
	lea .Llast(%rip), %rcx
	movslq (%rdx,%rdi,4), %rax
	add %rcx, %rax
	jmp *%rax
.Lfirst:
	call outside
	xor %eax, %eax
.Lsecond:
	inc %eax
.Llast:	add %esi, %eax
	ret
	.size goto_difference, .-goto_difference

	.type goto_computed, @function
goto_computed:			# nothing tells that what is behind the first ret is come to
	lea 1f(%rip), %rax
	lea (%rax,%rdi,4), %rax
	jmp *%rax
1:	mov $1, %eax
	ret
	mov $2, %eax
	ret
	.size goto_computed, .-goto_computed

	.type split_stack, @function
split_stack:			# the callee comes back behind the ret, and later to it
	lea -128(%rsp), %r11
	cmp %fs:112, %r11
	jae 1f
	mov $128, %r10
	mov $0, %r11
	call outside
	ret
1:	push %rbp
	mov %rsp, %rbp
	sub $112, %rsp
	call outside
	leave
	ret
	.size split_stack, .-split_stack

	.type data_behind, @function
data_behind:			# what looks like code behind the ret is data
	lea 1f(%rip), %rax
	mov (%rax,%rdi,2), %eax
	ret
1:	.short 0xc801, 0xc301
	.size data_behind, .-data_behind

	.type table_twice, @function
table_twice:			# two jumps by one table, as in interpreters
	mov %edi, %eax
	and $3, %eax
	jmp *table_shared(,%rax,8)
.Ltwice_one:
	shr $2, %edi
	mov %edi, %eax
	and $3, %eax
	jmp *table_shared(,%rax,8)
.Ltwice_two:
	mov %esi, %eax
	ret
	.size table_twice, .-table_twice

	.section .rodata
	.balign 8
goto_table:
	.quad one, two
table_pic:
	.long switch_pic+21-table_pic
	.long switch_pic+27-table_pic
	.long switch_pic+32-table_pic
	.long switch_pic+38-table_pic
	.long 1
table_hole:
	.long switch_hole+16-table_hole
	.long switch_hole+28-table_hole
	.long switch_hole+22-table_hole
	.long 1
table_difference:
	.long .Llast-.Llast, .Lfirst-.Llast, .Lsecond-.Llast
	.long 1

	.balign 8
table_shared:
	.quad .Ltwice_one, .Ltwice_two, .Ltwice_two, .Ltwice_one

	.data
	.balign 8
hook:	.quad outside
