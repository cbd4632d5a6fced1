/* What is mapped at an address, and memory that may not be there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "base/filters.h"
#include "base/mapped.h"
#include "base/own.h"

uint64_t dp_far_below(uint64_t size)
{
	enum { STEP = 2 << 20 };
	const uint64_t far = 16ull << 30, room = 1ull << 40, here = (uint64_t)&dp_far_below & ~(uint64_t)(STEP - 1);
	static uint64_t used;
	if (here < far + room || size > room)
		return 0;
	used += (size + STEP) & ~(uint64_t)(STEP - 1);
	used = used > room ? 0 : used;
	return here - far - used;
}

int dp_hold(uint64_t at, uint64_t size)
{
	long got = raw(SYS_mmap, at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (!failed(got) && (uint64_t)got != at)
		raw(SYS_munmap, got, size); /* an old kernel takes the address as a wish */
	return !failed(got) && (uint64_t)got == at;
}

/* The kernel says -EEXIST before it finds that there is no such type of mapping, -EINVAL. One
 * that does not know the flag, before Linux 4.17, says that everywhere. */
static long look(uint64_t at, uint64_t size)
{
	long err = ask(SYS_mmap, at, size, PROT_NONE, MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (!failed(err))
		ask(SYS_munmap, err, size);
	return err;
}

int dp_is_empty(uint64_t at, uint64_t size, uint64_t used) { return look(at, size) == -EINVAL && look(used, 1) == -EEXIST; }

struct piece { const void *base; uint64_t len; };

static void copy_plainly(void *to, const void *from, uint64_t n)
{
	for (uint64_t i = 0; i < n / 8; i++)
		((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
	for (uint64_t i = n & ~7ULL; i < n; i++)
		((uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}

/* A sandbox may refuse to read like this. */
static int refused(long got) { return got == -EPERM || got == -ENOSYS || got == -EACCES || got == REFUSED; }

int dp_read_quietly(void *to, const void *from, uint64_t n)
{
	struct piece l = {to, n}, r = {from, n};
	long task = own_task(), got = failed(task) ? REFUSED : ask(SYS_process_vm_readv, task, &l, 1, &r, 1, 0);
	if (refused(got))
		copy_plainly(to, from, n);
	return refused(got) || got == (long)n;
}

int dp_write_quietly(void *to, const void *from, uint64_t n)
{
	struct piece l = {from, n}, r = {to, n};
	long task = own_task(), got = failed(task) ? REFUSED : ask(SYS_process_vm_writev, task, &l, 1, &r, 1, 0);
	if (refused(got))
		copy_plainly(to, from, n);
	return refused(got) || got == (long)n;
}

int dp_read_argument(void *to, uint64_t from, uint64_t n, uint64_t stack)
{
	if (!dp_on_stack(from, stack))
		return dp_read_quietly(to, (const void *)from, n);
	copy_plainly(to, (const void *)from, n);
	return 1;
}

/* PROCMAP_QUERY of <linux/fs.h> (Linux 6.11): one mapping of /proc/PID/maps. */
struct query {
	uint64_t size, flags, at;
	uint64_t start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
enum { QUERY_EXECUTABLE = 4 };
#define QUERY 0xc0686611u
_Static_assert(sizeof(struct query) == 0x68, "its size is in its number");

/* Reads the lines of /proc/self/maps. */
static int is_executable_in(long fd, uint64_t at)
{
	char text[1024];
	uint64_t low = 0, number = 0;
	int field = 0, found = 0; /* of a line: low, high, permissions, the rest */
	long n;
	while (!found && (n = ask(SYS_read, fd, text, sizeof text)) > 0)
		for (long i = 0; i < n && !found; i++) {
			char c = text[i];
			if (c == '\n') {
				field = 0;
				number = 0;
			} else if (field == 0 && c == '-') {
				low = number;
				number = 0;
				field = 1;
			} else if (field == 1 && c == ' ') {
				field = at >= low && at < number ? 2 : 3;
			} else if (field < 2) {
				number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
			} else if (field == 2) {
				found = c == 'x';
				field = c == ' ' ? 3 : 2;
			}
		}
	return found;
}

/* Whether instructions can be fetched at an address: what /proc/self/maps says,
 * or, where there is none, whether it can be read. */
int dp_is_executable(uint64_t at)
{
	uint8_t byte;
	long fd = dp_open_own("maps", O_RDONLY);
	if (failed(fd))
		return dp_read_quietly(&byte, (const void *)at, 1);
	struct query q = {.size = sizeof q, .flags = QUERY_EXECUTABLE, .at = at};
	long err = ask(SYS_ioctl, fd, QUERY, &q);
	int found = err == 0 || (err != -ENOENT && is_executable_in(fd, at));
	ask(SYS_close, fd);
	return found;
}
