/* How far planning is, for who has started the program by hotspots run at a terminal and waits for
 * it. It is told from the second second on, and is gone before anything of the program's runs. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "bar.h"
#include "base/filters.h"
#include "base/text.h"

enum { FROM_MS = 2000, EACH_MS = 250, ASKED = 1, SEEN = 2 };

/* Not from the background, nor where that would stop us. */
static int is_seen(void)
{
	struct termios t;
	int group;
	return dp_may(SYS_ioctl, STDERR_FILENO, 0, 0, 0) && dp_may(SYS_poll, 0, 0, 0, 0) && dp_may(SYS_write, STDERR_FILENO, 0, 0, 0) &&
	       raw(SYS_ioctl, STDERR_FILENO, TCGETS, &t) == 0 && !(t.c_lflag & TOSTOP) &&
	       raw(SYS_ioctl, STDERR_FILENO, TIOCGPGRP, &group) == 0 && group == raw(SYS_getpgid, 0);
}

/* Who has stopped the terminal's output waits for it, and not the program. */
static void put(const char *text, uint64_t size)
{
	struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
	if (raw(SYS_poll, &p, 1, 0) == 1 && p.revents == POLLOUT)
		raw(SYS_write, STDERR_FILENO, text, size);
}

void dp_bar_tell(struct dp_bar *b, const struct dp_ctl *ctl, int64_t waited)
{
	if (!ctl->shows || waited < FROM_MS || waited - b->told < EACH_MS)
		return;
	if (!(b->state & ASKED))
		b->state = ASKED | (is_seen() ? SEEN : 0);
	b->told = waited;
	if (!(b->state & SEEN))
		return;
	char text[64];
	struct dp_text_buffer t = dp_buffer(text, sizeof text);
	dp_put_text(&t, "\rdynprof: planning, ");
	dp_put_number(&t, __atomic_load_n(&ctl->percent, __ATOMIC_RELAXED), 10);
	dp_put_text(&t, " % ");
	put(text, t.used);
}

void dp_bar_end(const struct dp_bar *b)
{
	static const char gone[] = "\r                          \r";
	if (b->state & SEEN)
		put(gone, sizeof gone - 1);
}
