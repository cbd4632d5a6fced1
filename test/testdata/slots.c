/* Calls a library that calls itself by the PLT; then opens the slots, and hooks one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

long slot_target(long x);
long slot_jumps(long x);
const char *slot_call_leads(void), *slot_jump_leads(void);

#ifdef IN_FRONT
long slot_target(long x) { return x - 5; }
#endif

static long (*former)(long);

__attribute__((noinline)) long hooked(long x) { return former(x) + 1000000; }

static long rounds(long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += slot_jumps(i);
	return sum;
}

/* As those do who hook functions. */
static int hook(struct link_map *of)
{
	const Elf64_Rela *relocations = 0;
	const Elf64_Sym *symbols = 0;
	const char *strings = 0;
	uint64_t size = 0;
	for (const Elf64_Dyn *d = of->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			relocations = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			size = d->d_un.d_val;
		else if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			strings = (const void *)d->d_un.d_ptr;
	}
	for (uint64_t i = 0; i < size / sizeof *relocations; i++) {
		uint64_t *slot = (uint64_t *)(of->l_addr + relocations[i].r_offset), page = (uint64_t)slot & ~4095ul;
		if (strcmp(strings + symbols[ELF64_R_SYM(relocations[i].r_info)].st_name, "slot_target") != 0)
			continue;
		if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0)
			return 0;
		former = (long (*)(long))*slot;
		*slot = (uint64_t)hooked;
		return mprotect((void *)page, 4096, PROT_READ) == 0;
	}
	return 0;
}

/* Calls it so many times; then, with one more argument, once more when it is hooked. */
int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1;
	struct link_map *library = 0;
	Dl_info info;
	dladdr1((void *)slot_jumps, &info, (void **)&library, RTLD_DL_LINKMAP);
	printf("%ld %s %s\n", rounds(n), slot_call_leads(), slot_jump_leads());
	if (argc < 3)
		return 0;
	if (!library || !hook(library))
		return 1;
	printf("%ld %s %s\n", rounds(n), slot_call_leads(), slot_jump_leads());
	return 0;
}
