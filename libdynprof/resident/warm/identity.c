/* See identity.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/whole.h"
#include "warm/identity.h"

/* Field 22 of /proc/PID/stat (proc(5)): the second is the name, in parentheses, which
 * may hold anything. */
static uint64_t start_ticks(void)
{
	enum { BEHIND_NAME = 22 - 2 };
	char text[1024];
	uint64_t n = dp_read_start("/proc/self/stat", text, sizeof text);
	while (n > 0 && text[n - 1] != ')')
		n--;
	const char *s = text + n;
	for (int i = 0; i < BEHIND_NAME && *s; i++) {
		s++; /* the space in front */
		while (i < BEHIND_NAME - 1 && *s && *s != ' ')
			s++;
	}
	uint64_t ticks = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		ticks = 10 * ticks + (uint64_t)(*s - '0');
	return ticks;
}

static void read_boot_id(uint8_t *id)
{
	char text[64];
	dp_read_start("/proc/sys/kernel/random/boot_id", text, sizeof text);
	int digits = 0;
	for (const char *s = text; *s && digits < 32; s++) {
		int digit = *s >= '0' && *s <= '9' ? *s - '0' : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10 : -1;
		if (digit < 0)
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
		digits++;
	}
	for (int i = 0; i < 16 && digits < 32; i++)
		id[i] = 0; /* not known */
}

void dp_identify(struct dp_header *h, uint32_t pid)
{
	struct stat st;
	h->pid = pid;
	h->uid = (uint32_t)raw(SYS_getuid);
	h->start_ticks = start_ticks();
	read_boot_id(h->boot_id);
	h->pid_ns = raw(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 ? st.st_ino : 0;
	h->realtime = dp_now(CLOCK_REALTIME);
	h->monotonic = dp_now(CLOCK_MONOTONIC);
}

/* Whether a line of text says that number after its name. */
static int says(const char *text, const char *name, char number)
{
	for (const char *s = text; *s; s++)
		if ((s == text || s[-1] == '\n') && has_prefix(s, name)) {
			s += text_len(name);
			while (*s == '\t')
				s++;
			return s[0] == number && s[1] == '\n';
		}
	return 0;
}

/* Whether it may more than other processes of its user, who could give it code: what
 * capabilities it has without being root. */
static int may_more(const char *text)
{
	static const char name[] = "\nCapPrm:\t";
	const char *s = text;
	while (*s && !has_prefix(s, name))
		s++;
	for (s += *s ? sizeof name - 1 : 0; *s == '0'; s++)
		;
	return *s != '\n' && raw(SYS_geteuid) != 0;
}

int dp_takes_plans(void)
{
	static char text[4096]; /* dlopen may be called on a small stack, by one thread at a time */
	dp_read_start("/proc/self/status", text, sizeof text);
	return says(text, "TracerPid:", '0') && says(text, "Seccomp:", '0') && !may_more(text);
}
