/* memtr by the method of its paper (Jokan, Shirakihara: memtr), to be measured beside ours: pages of
 * regions are protected; the handler of the fault writes down the access, opens the page and has the
 * instruction stepped; the handler of the step closes it. One thread. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { MEMTR_PAGE = 4096, MEMTR_TRAP = 0x100, MEMTR_ROOM = 4096, MEMTR_REGIONS = 64, MEMTR_OPEN = 2, MEMTR_IS_WRITE = 2 };

static struct { uint64_t at, instruction; } memtr_records[MEMTR_ROOM];
static struct { uintptr_t from, to; } memtr_regions[MEMTR_REGIONS];
static int memtr_used, memtr_known, memtr_file = -1, memtr_opened;
static uintptr_t memtr_pages[MEMTR_OPEN];

static int memtr_end(void)
{
	ssize_t n = (ssize_t)((size_t)memtr_used * sizeof *memtr_records);
	memtr_used = 0;
	return write(memtr_file, memtr_records, (size_t)n) == n ? 0 : -1;
}

static int memtr_has(uintptr_t at)
{
	for (int i = 0; i < memtr_known; i++)
		if (at - memtr_regions[i].from < memtr_regions[i].to - memtr_regions[i].from)
			return 1;
	return 0;
}

static void memtr_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uintptr_t at = (uintptr_t)info->si_addr;
	if (!memtr_has(at) || memtr_opened == MEMTR_OPEN)
		_exit(128 + signal);
	memtr_records[memtr_used].at = at << 1 | (u->uc_mcontext.gregs[REG_ERR] & MEMTR_IS_WRITE ? 1 : 0);
	memtr_records[memtr_used].instruction = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	if (++memtr_used == MEMTR_ROOM)
		memtr_end();
	uintptr_t page = at & -(uintptr_t)MEMTR_PAGE;
	memtr_pages[memtr_opened++] = page;
	mprotect((void *)page, MEMTR_PAGE, PROT_READ | PROT_WRITE);
	u->uc_mcontext.gregs[REG_EFL] |= MEMTR_TRAP;
}

static void memtr_step(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	while (memtr_opened > 0)
		mprotect((void *)memtr_pages[--memtr_opened], MEMTR_PAGE, PROT_NONE);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~MEMTR_TRAP;
}

static int memtr_init(void)
{
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_flags = SA_SIGINFO;
	a.sa_sigaction = memtr_fault;
	sigaction(SIGSEGV, &a, 0);
	a.sa_sigaction = memtr_step;
	sigaction(SIGTRAP, &a, 0);
	memtr_file = open("memtr.trace", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	return memtr_file < 0 ? -1 : 0;
}

static int memtr_regist(void *at, size_t bytes)
{
	if (memtr_known == MEMTR_REGIONS)
		return -1;
	memtr_regions[memtr_known].from = (uintptr_t)at;
	memtr_regions[memtr_known++].to = (uintptr_t)at + bytes;
	return mprotect(at, bytes, PROT_NONE);
}

static int memtr_remove(void *at)
{
	for (int i = 0; i < memtr_known; i++)
		if (memtr_regions[i].from == (uintptr_t)at)
			return mprotect(at, memtr_regions[i].to - memtr_regions[i].from, PROT_READ | PROT_WRITE);
	return -1;
}
