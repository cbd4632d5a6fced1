/* An outsider (outsider.c): it begins where the dynamic linker jumps to when it is
 * told to run this library, and makes itself like a twin for the planner. Whatever
 * fails here, a twin will do. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "base/mapped.h"
#include "base/pages.h"
#include "outsider.h"
#include "session.h"
#include "twin.h"

static int map_at(uint64_t at, uint64_t size, int prot, int flags, int fd)
{
	return raw(SYS_mmap, at, size, prot, flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0) == (long)at;
}

/* Reads the target's memory to the same place here. */
static int fetch(uint64_t at, uint64_t size)
{
	while (size > 0) {
		long n = raw(SYS_pread64, DP_OUT_MEMORY, at, size, at);
		if (failed(n) || n == 0)
			return 0;
		at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 1;
}

static const Elf64_Phdr *next_load(const Elf64_Ehdr *head, int *i)
{
	const Elf64_Phdr *p = (const Elf64_Phdr *)((const uint8_t *)head + head->e_phoff);
	while (*i < head->e_phnum)
		if (p[(*i)++].p_type == PT_LOAD)
			return &p[*i - 1];
	return 0;
}

/* The object whose header lies at bias: first that, which tells how much more. */
static int fetch_object(uint64_t bias)
{
	enum { MOST = 256 << 20 };
	static uint8_t page[DP_PAGE_SIZE] __attribute__((aligned(16)));
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)page;
	uint64_t high = 0;
	if (bias == 0 || raw(SYS_pread64, DP_OUT_MEMORY, page, sizeof page, bias) != (long)sizeof page ||
	    !same_bytes(head->e_ident, ELFMAG, SELFMAG) || head->e_phoff > sizeof page || head->e_phoff + (uint64_t)head->e_phnum * sizeof(Elf64_Phdr) > sizeof page)
		return 0;
	const Elf64_Phdr *p;
	for (int i = 0; (p = next_load(head, &i)) != 0;)
		if (p->p_vaddr + p->p_memsz > high)
			high = p->p_vaddr + p->p_memsz;
	if (high > MOST || !map_at(bias, pages(high), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1))
		return 0;
	for (int i = 0; (p = next_load(head, &i)) != 0;) { /* whole pages: what is behind code matters */
		uint64_t low = p->p_vaddr & ~(uint64_t)(DP_PAGE_SIZE - 1);
		if (p->p_filesz && !fetch(bias + low, pages(p->p_vaddr + p->p_filesz) - low))
			return 0;
	}
	return 1;
}

/* Whether everything of the target is there that a planner looks at. */
static struct dp_ctl *join(const struct dp_out_words *w)
{
	struct dp_ctl *ctl = (struct dp_ctl *)w->ctl;
	if (!map_at(w->ctl, w->ctl_size, PROT_READ | PROT_WRITE, MAP_SHARED, DP_OUT_CTL) ||
	    !map_at(w->reserve, w->reserve_size, PROT_READ, MAP_SHARED, DP_OUT_RESERVE))
		return 0;
	long view = raw(SYS_mmap, 0, w->view_size, PROT_READ | PROT_WRITE, MAP_SHARED, DP_OUT_TABLE, 0);
	if (failed(view))
		return 0;
	ctl->view = (uint64_t)view;
	ctl->view_size = w->view_size;
	for (uint32_t i = 0; i < ctl->objects_count; i++)
		if (!fetch_object(ctl->objects[i].bias))
			return 0;
	for (int fd = DP_OUT_MEMORY; fd <= DP_OUT_RESERVE; fd++) /* names of objects may be /proc/self/fd/N */
		raw(SYS_close, fd);
	return ctl;
}

static int read_words(const char *text, struct dp_out_words *w)
{
	for (unsigned i = 0; i < sizeof *w / sizeof(uint64_t); i++) {
		uint64_t v = 0;
		for (int k = 0; k < 16; k++, text++) {
			if (!((*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f')))
				return 0;
			v = v << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
		}
		((uint64_t *)w)[i] = v;
	}
	return *text == 0;
}

static int add_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(uint64_t *)arg += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

/* The stack is as the kernel makes it: number of arguments, these, the environment,
 * the auxiliary vector. */
__attribute__((used)) _Noreturn void dp_planner_main(uint64_t *stack) HIDDEN;
_Noreturn void dp_planner_main(uint64_t *stack)
{
	char **envp = (char **)stack + stack[0] + 2, **behind = envp;
	struct dp_out_words w;
	struct dp_ctl *ctl = 0;
	uint64_t tls = 0;
	while (*behind)
		behind++;
	if (*envp && has_prefix(*envp, DP_OUT_VARIABLE) && read_words(*envp + sizeof DP_OUT_VARIABLE - 1, &w))
		ctl = join(&w);
	dl_iterate_phdr(add_tls, &tls);
	dp_note_tls(tls);
	if (ctl)
		dp_plan_here(ctl, (const Elf64_auxv_t *)(behind + 1), 0);
	end_process(1);
}

__asm__(".text\n"
	".globl dp_planner_start\n"
	".type dp_planner_start, @function\n"
	"dp_planner_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call dp_planner_main\n"
	"	hlt\n"
	".size dp_planner_start, . - dp_planner_start\n");
