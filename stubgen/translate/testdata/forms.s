# Operands by FS and GS, of 32-bit addresses, with rep, and others.
	.text
	.globl outside
	.type outside, @function
outside:
	ret
	.size outside, .-outside

	.type canary, @function
canary:
	sub $24, %rsp
	mov %fs:0x28, %rax
	mov %rax, 8(%rsp)
	mov %edi, (%rsp)
	xor %eax, %eax
	mov 8(%rsp), %rdx
	sub %fs:0x28, %rdx
	jne 1f
	add $24, %rsp
	ret
1:	ud2
	.size canary, .-canary

	.type locals, @function
locals:
	mov %fs:(%rdi), %eax
	add %eax, %fs:8(%rdi)
	mov %rsi, %fs:-0x40(%rdi,%rsi,8)
	cmp %esi, %edi
	mov %fs:(%rax), %ecx
	mov %cl, %fs:3(%rax,%rdi)
	mov %fs:0x10(%rdx,%rax), %r8
	jl 1f
	setb %al
	mov %fs:(%rsp), %rcx
	mov %fs:-0x123456(%rsp,%r9,2), %rcx
1:	movups %xmm0, %fs:(%r12)
	movups %xmm0, %gs:(%r12)
	incq %gs:4(%r13,%r15,4)
	ret
	.size locals, .-locals

	.type changed, @function
changed:
	mov %fs:(%rdi), %rax
	wrfsbase %rsi
	mov %fs:(%rdi), %rax
	mov %fs:8(%rdi), %rcx
	wrgsbase %rsi
	mov %rcx, %fs:8(%rdi)
	ret
	.size changed, .-changed

	.type round, @function
round:
1:	mov %fs:(%rdi), %rax
	add %rax, %fs:(%rsi,%rcx)
	add $8, %rcx
	dec %edx
	jne 1b
	ret
	.size round, .-round

	.type rows, @function
rows:
	cmp %edi, %esi
	rep movsb
	rep stosq
	repe cmpsb
	lodsw
	jl 1f
	repne scasb
	addr32 rep movsl
1:	bt %rax, (%rdi)
	lock bts %eax, %fs:8(%rdi,%rcx)
	movabs 0x123456789abcdef0, %al
	mov %fs:(%rdx,%rax,8), %ecx
	push %fs:(%edx)
	pop %fs:8(%edx)
	xlat
	addl $1, 0x7fffffff(%rdi)
	lodsb %gs:(%rsi)
	ret
	.size rows, .-rows

	.type short, @function
short:
	mov (%edi), %eax
	mov %rax, 8(%edi)
	movups -8(%edi,%esi,4), %xmm0
	cmp %ecx, %edx
	movups %xmm0, 0x12345(%eax,%eax)
	jne 1f
	setb %cl
	addl $3, 0x7fff0000(%r13d,%r14d,8)
1:	mov %esi, -4(%esp)
	mov (%edi), %eax
	ret
	.size short, .-short

	.type masks, @function
masks:
	vmovdqu8 (%rdi), %zmm17{%k3}
	cmp %edi, %esi
	vpcompressd %zmm1, %fs:4(%rdi){%k1}
	vmaskmovps (%rsi), %ymm1, %ymm2
	jl 1f
	vpgatherdd %ymm1, 4(%rdi,%ymm2,4), %ymm3
	vscatterqpd %zmm1, (%rax,%zmm31,1){%k2}
	vaddps (%rdx){1to16}, %zmm1, %zmm1{%k1}
1:	maskmovdqu %xmm1, %xmm2
	vpermb (%rdi), %zmm1, %zmm1{%k1}
	xsave (%rdi)
	ret
	.size masks, .-masks
