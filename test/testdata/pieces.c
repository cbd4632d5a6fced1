/* The text that textgone.c replaces, in the program or in a library. */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>

#include "pieces.h"

long piece_edge(long), piece_hops(long), piece_before(long), piece_loop(long), piece_behind(long), piece_hop_back(long), piece_body(long), piece_last(long), piece_tip(long), piece_call(long);
void piece_third(void);

__attribute__((noipa)) long pieces_run(void)
{
	long sum = 0;
	for (long x = 1; x <= RUNS; x++)
		sum = sum * 3 + piece_edge(x) + piece_hops(x) + piece_before(x) + piece_loop(x % 5) + piece_behind(x) + piece_hop_back(x) + piece_body(x) + piece_last(x) + piece_tip(x) + piece_call(x);
	return sum;
}

static int look(struct dl_phdr_info *i, size_t size, void *arg)
{
	struct pieces *p = arg;
	(void)size;
	p->spare = (char *)piece_third - 4096;
	for (int k = 0; k < i->dlpi_phnum; k++) {
		const ElfW(Phdr) *h = &i->dlpi_phdr[k];
		char *at = (char *)i->dlpi_addr + h->p_vaddr;
		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X) || p->spare < at || p->spare >= at + h->p_memsz)
			continue;
		p->low = (char *)((uintptr_t)at & -4096);
		p->high = (char *)(((uintptr_t)at + h->p_memsz + 4095) & -4096);
		p->offset = (long)h->p_offset & -4096;
		p->file = *i->dlpi_name ? i->dlpi_name : "/proc/self/exe";
		return 1;
	}
	return 0;
}

void pieces_where(struct pieces *p) { dl_iterate_phdr(look, p); }
