/* See whole.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "base/layout.h"
#include "base/own.h"
#include "base/whole.h"

/* Makes twice the room, unless there is some left for more than the NUL. */
static int make_room(struct dp_whole *w)
{
	if (w->size + 1 < w->room)
		return 1;
	uint64_t room = 2 * w->room;
	long at = ask(SYS_mremap, w->text, w->room, room, MREMAP_MAYMOVE);
	if (failed(at))
		return 0;
	*w = (struct dp_whole){(char *)at, w->size, room};
	return 1;
}

static int read_all(struct dp_whole *w, long fd)
{
	long n;
	do {
		n = make_room(w) ? ask(SYS_read, fd, w->text + w->size, w->room - w->size - 1) : -1;
		w->size += n > 0 ? (uint64_t)n : 0;
	} while (n > 0);
	return n == 0;
}

struct dp_whole dp_read_whole(const char *path)
{
	struct dp_whole w = {.room = 16 * DP_PAGE_SIZE}, none = {0};
	long fd = dp_open_kernels(AT_FDCWD, path, O_RDONLY);
	if (failed(fd))
		return none;
	long at = ask(SYS_mmap, 0, w.room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ok = !failed(at);
	if (ok) {
		w.text = (char *)at;
		ok = read_all(&w, fd);
	}
	ask(SYS_close, fd);
	if (ok)
		return w;
	if (w.text)
		dp_drop_whole(&w);
	return none;
}

void dp_drop_whole(struct dp_whole *w)
{
	if (w->text)
		ask(SYS_munmap, w->text, w->room);
	*w = (struct dp_whole){0};
}

uint64_t dp_read_start(const char *path, char *text, uint64_t size)
{
	long fd = dp_open_kernels(AT_FDCWD, path, O_RDONLY);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, size - 1);
	if (!failed(fd))
		ask(SYS_close, fd);
	got = failed(got) ? 0 : got;
	text[got] = 0;
	return (uint64_t)got;
}
