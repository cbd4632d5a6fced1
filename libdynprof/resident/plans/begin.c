/* See begin.h. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/pages.h"
#include "base/state.h"
#include "plans/begin.h"
#include "rows/chunks.h"
#include "rows/rows.h"

#define HWCAP2_FSGSBASE (1 << 1)

uint64_t dp_aux(const Elf64_auxv_t *auxv, uint64_t type)
{
	for (; auxv->a_type != AT_NULL; auxv++)
		if (auxv->a_type == type)
			return auxv->a_un.a_val;
	return 0;
}

int dp_has_bases(const Elf64_auxv_t *auxv) { return (dp_aux(auxv, AT_HWCAP2) & HWCAP2_FSGSBASE) != 0; }

/* The vdso's clock_gettime: an event's time without a system call that a
 * seccomp filter may refuse. 0 if there is none. */
static void *vdso_clock(const Elf64_auxv_t *auxv)
{
	const uint8_t *base = (const uint8_t *)dp_aux(auxv, AT_SYSINFO_EHDR);
	if (!base)
		return 0;
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)base;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(base + eh->e_phoff);
	const Elf64_Dyn *dyn = 0;
	uint64_t bias = 0;
	int loaded = 0;
	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && !loaded++)
			bias = (uint64_t)base + ph[i].p_offset - ph[i].p_vaddr;
		if (ph[i].p_type == PT_DYNAMIC)
			dyn = (const Elf64_Dyn *)(base + ph[i].p_offset);
	}
	const Elf64_Sym *symbols = 0;
	const char *names = 0;
	const uint32_t *hash = 0;
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_STRTAB)
			names = (const char *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_HASH)
			hash = (const uint32_t *)(bias + dyn->d_un.d_ptr);
	}
	static const char wanted[] = "__vdso_clock_gettime";
	for (uint32_t i = 0; symbols && names && hash && i < hash[1]; i++) {
		const char *name = names + symbols[i].st_name;
		if (symbols[i].st_shndx != SHN_UNDEF && has_prefix(name, wanted) && !name[sizeof wanted - 1])
			return (void *)(bias + symbols[i].st_value);
	}
	return 0;
}

/* Without MADV_RANDOM the first touch of a hole in the file would read ahead:
 * megabytes of zeroes, milliseconds. A duplicate of the mapping keeps it. */
static void *map_file(long fd, uint64_t offset, uint64_t size)
{
	long at = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (failed(at))
		return 0;
	raw(SYS_madvise, at, size, MADV_RANDOM);
	return (void *)at;
}

/* The discard row has room for as many counters as any row. What is counted there is nobody's,
 * so that it can be shared with children, and is no data by the kernel's count (RLIMIT_DATA):
 * only what says whose row it is has to be the process's own. */
static struct dp_row *map_discard(void)
{
	long at = raw(SYS_mmap, 0, dp.row_stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return 0;
	if (!failed(raw(SYS_mmap, at, pages(DP_ROW_COUNTERS), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)))
		return (struct dp_row *)at;
	raw(SYS_munmap, at, dp.row_stride);
	return 0;
}

/* Maps the table that the planner wrote: its header says how much. */
static int map_table(const struct dp_begin *b, long fd)
{
	struct dp_header copy, *header = &copy;
	if (raw(SYS_pread64, fd, header, sizeof copy, 0) != (long)sizeof copy)
		return 0;
	int mine = 1;
	for (int i = 0; i < 16; i++)
		mine &= header->nonce[i] == b->nonce[i];
	uint64_t head = section_end(&header->events), fired = section_end(&header->fired);
	if (fired > head)
		head = fired;
	uint64_t rows = header->rows.offset;
	dp.row_stride = header->rows.entry_size;
	dp.rows_max = header->rows.capacity;
	dp.counters = header->counters;
	dp.row_used = DP_ROW_COUNTERS + 8 * (uint64_t)dp.counters;
	dp.shared = (header->flags & DP_FLAG_SHARED) != 0;
	dp.translator = (header->flags & DP_FLAG_TRANSLATOR) != 0;
	if (header->flags & DP_FLAG_THRESHOLD)
		dp.threshold_fired = header->fired.offset;
	if (!mine)
		return 0;
	dp.table = map_file(fd, 0, pages(head));
	dp.chunks[0] = map_file(fd, rows, 2 * dp.row_stride);
	dp.discard = map_discard();
	if (!dp.table || !dp.chunks[0] || !dp.discard)
		return 0;
	if (dp.threshold_fired)
		dp.threshold_fired += (uint64_t)dp.table;
	return 1;
}

void dp_take_begin_back(void *unused)
{
	(void)unused;
	if (!dp.shared)
		raw(SYS_arch_prctl, ARCH_SET_GS, 0);
	if (dp.table)
		raw(SYS_munmap, dp.table, pages(section_end(&dp.table->fired)));
	if (dp.chunks[0])
		raw(SYS_munmap, dp.chunks[0], 2 * dp.row_stride);
	if (dp.discard)
		raw(SYS_munmap, dp.discard, dp.row_stride);
	dp = (struct dp_state){0};
}

const char *dp_begin(void *arg)
{
	const struct dp_begin *b = arg;
	long fd = b->table ? raw(SYS_openat, AT_FDCWD, b->table, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : b->fd;
	if (failed(fd))
		return "the count table cannot be opened again";
	int ok = map_table(b, fd);
	raw(SYS_close, fd);
	if (!ok) {
		dp_take_begin_back(0);
		return "the count table cannot be mapped (ulimit -v?)";
	}
	dp.clock_gettime = (int (*)(int, void *))vdso_clock(b->auxv);
	struct dp_row *row = dp_row_at(0);
	dp_rows_start(row);
	if (dp.shared) {
		row->kind = DP_ROW_SHARED;
		return 0;
	}
	dp_have_wrgsbase = dp_has_bases(b->auxv) != 0;
	if (raw(SYS_arch_prctl, ARCH_SET_GS, row) == 0)
		return 0;
	dp_take_begin_back(0);
	return "the GS segment cannot be used";
}
