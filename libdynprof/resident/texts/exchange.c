/* Pages that take the place of text. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/pages.h"
#include "base/recordlock.h"
#include "texts/exchange.h"

long dp_map_anonymous(uint64_t size)
{
	return ask(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void dp_copy_words(uint64_t to, uint64_t from, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += 8)
		*(uint64_t *)(to + i) = *(const uint64_t *)(from + i);
}

/* The file's pages for those of the text at at; 0 if there are none to be had. */
static uint64_t file_pages(const struct dp_undo_text *t, uint64_t at, uint64_t size, uint64_t prot)
{
	struct stat st;
	if (ask(SYS_newfstatat, AT_FDCWD, t->file, &st, 0) == 0 && dp_may_be_locked(st.st_ino))
		return 0;
	/* A pipe may have the file's name by now. */
	long fd = ask(SYS_openat, AT_FDCWD, t->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (failed(fd))
		return 0;
	long end = ask(SYS_lseek, fd, 0, 2 /* SEEK_END */); /* a store behind it would raise SIGBUS */
	uint64_t offset = t->offset + (at - t->start);
	long new = failed(end) || offset + size > pages((uint64_t)end) ? -1 : ask(SYS_mmap, 0, size, prot, MAP_PRIVATE, fd, offset);
	ask(SYS_close, fd);
	return failed(new) ? 0 : (uint64_t)new;
}

/* Copies the pages at made that the others differ in. */
static void copy_pages(uint64_t to, uint64_t made, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += DP_PAGE_SIZE)
		if (!same_bytes((const void *)(made + i), (const void *)(to + i), DP_PAGE_SIZE))
			dp_copy_words(to + i, made + i, DP_PAGE_SIZE);
}

int dp_text_anonymous HIDDEN;

/* Mostly the file's will do, which need not become executable (PR_SET_MDWE). */
uint64_t dp_pages_of_text(const struct dp_undo_text *t, uint64_t at, uint64_t made, uint64_t size)
{
	uint64_t new = file_pages(t, at, size, t->prot);
	if (new && same_bytes((const void *)new, (const void *)made, size)) {
		ask(SYS_munmap, made, size);
		return new;
	}
	if (new && ask(SYS_mprotect, new, size, PROT_READ | PROT_WRITE) == 0) {
		copy_pages(new, made, size);
		ask(SYS_munmap, made, size);
		made = new;
	} else if (new) {
		ask(SYS_munmap, new, size);
	}
	if (made != new)
		__atomic_store_n(&dp_text_anonymous, 1, __ATOMIC_RELAXED);
	if (ask(SYS_mprotect, made, size, t->prot) == 0)
		return made;
	ask(SYS_munmap, made, size);
	return 0;
}

/* The kernel refuses this advice, which takes nothing away, for locked memory. */
static int is_locked(uint64_t at, uint64_t size)
{
	enum { ADVICE_COLD = 20 };
	return ask(SYS_madvise, at, size, ADVICE_COLD) == -EINVAL;
}

/* A bit for each page that is locked; 0 if there is no memory for them. */
static uint8_t *note_locked(uint64_t low, uint64_t size)
{
	uint64_t n = size / DP_PAGE_SIZE;
	long bits = dp_map_anonymous(pages(n / 8 + 1));
	for (uint64_t i = 0; !failed(bits) && i < n; i++)
		if (is_locked(low + i * DP_PAGE_SIZE, DP_PAGE_SIZE))
			((uint8_t *)bits)[i / 8] |= (uint8_t)(1 << i % 8);
	return failed(bits) ? 0 : (uint8_t *)bits;
}

/* Without bits all. */
static void lock_again(uint64_t low, uint64_t size, const uint8_t *bits)
{
	uint64_t n = size / DP_PAGE_SIZE;
	for (uint64_t i = 0; i < n; i++)
		if (!bits || bits[i / 8] >> i % 8 & 1)
			ask(SYS_mlock, low + i * DP_PAGE_SIZE, DP_PAGE_SIZE);
}

/* The locks of the pages at low go with them; where memory that is mapped is locked in
 * any case, and in kernels that have no such advice, new pages are as they shall be. */
int dp_exchange(uint64_t low, uint64_t new, uint64_t size)
{
	int locked = is_locked(low, size) && !is_locked(new, size);
	uint8_t *bits = locked ? note_locked(low, size) : 0;
	int done = !failed(ask(SYS_mremap, new, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, low));
	if (!done)
		ask(SYS_munmap, new, size);
	else if (locked)
		lock_again(low, size, bits);
	if (bits)
		ask(SYS_munmap, bits, pages(size / DP_PAGE_SIZE / 8 + 1));
	return done;
}

/* Only then can it be unshared. */
int dp_is_alone(void) { return ask(SYS_unshare, CLONE_VM) == 0; }
