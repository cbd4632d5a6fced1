/* Which file the table gets (internal/table/tabledir). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "warm/output.h"

static int is_directory_of(const char *path, uid_t uid, unsigned forbidden, int flags)
{
	struct stat st;
	return raw(SYS_newfstatat, AT_FDCWD, path, &st, flags) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid && !(st.st_mode & forbidden);
}

/* Makes the default directory if it is missing, and refuses one that others could put
 * files into. */
static int put_default(const struct dp_choice *c, struct dp_text_buffer *b)
{
	uid_t uid = (uid_t)raw(SYS_getuid);
	if (c->runtime_dir && *c->runtime_dir == '/' && is_directory_of(c->runtime_dir, uid, 0, 0)) {
		dp_put_text(b, c->runtime_dir);
		dp_put_text(b, "/dynprof");
	} else {
		dp_put_text(b, "/tmp/dynprof-");
		dp_put_number(b, uid, 10);
	}
	if (b->bad)
		return 0;
	if (raw(SYS_mkdirat, AT_FDCWD, b->text, 0700) == 0)
		raw(SYS_fchmodat, AT_FDCWD, b->text, 0700); /* whatever the umask */
	return is_directory_of(b->text, uid, 077, AT_SYMLINK_NOFOLLOW);
}

/* One harmless word of a file name, of at most 64 bytes. */
static void put_word(struct dp_text_buffer *b, const char *s)
{
	char word[65];
	size_t n = text_copy(word, sizeof word, s);
	int dots = 1;
	for (size_t i = 0; i < n; i++) {
		char c = word[i];
		int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '+' || c == '-';
		b->bad |= !plain; /* a planner knows what becomes of it */
		dots &= c == '.';
	}
	dp_put_text(b, dots ? "unknown" : word);
}

static void put_value(struct dp_text_buffer *b, char what, const struct dp_output *o)
{
	struct utsname host;
	struct timespec now = {0, 0};
	switch (what) {
	case 'e':
		put_word(b, dp_base_name(o->program));
		return;
	case 'p':
		dp_put_number(b, o->pid, 10);
		return;
	case 't':
		raw(SYS_clock_gettime, CLOCK_REALTIME, &now);
		dp_put_number(b, (uint64_t)now.tv_sec, 10);
		return;
	case 'h':
		b->bad |= raw(SYS_uname, &host) != 0;
		if (!b->bad)
			put_word(b, host.nodename);
		return;
	case '%':
		dp_put(b, "%", 1);
		return;
	default:
		b->bad = 1;
	}
}

static void expand(struct dp_text_buffer *b, const char *pattern, const struct dp_output *o)
{
	for (const char *p = pattern; !b->bad && *p; p++)
		if (*p == '%')
			put_value(b, *++p, o);
		else
			dp_put(b, p, 1);
}

/* An absolute path is as it will be shown: without empty, . and .. parts. */
static int is_clean(const char *path)
{
	for (const char *p = path; *p; p++) {
		if (*p != '/')
			continue;
		const char *part = p + 1;
		part += *part == '.';
		part += part != p + 1 && *part == '.';
		if (!*part || *part == '/')
			return 0;
	}
	return *path == '/';
}

/* Where the working directory is no part of the path yet. */
static void put_directory(struct dp_text_buffer *b)
{
	long n = raw(SYS_getcwd, b->text, b->room);
	b->bad |= failed(n) || *b->text != '/';
	b->used = b->bad ? 0 : (uint64_t)n - 1;
	if (b->used > 1)
		dp_put(b, "/", 1);
}

int dp_put_output(struct dp_text_buffer *b, const struct dp_choice *c, const struct dp_output *o)
{
	static const char standard[] = "/%e.%p.dynprof";
	if (!c->output) {
		if (!put_default(c, b))
			return 0;
		expand(b, standard, o);
		return !b->bad && is_clean(b->text);
	}
	if (*c->output != '/')
		put_directory(b);
	expand(b, c->output, o);
	return !b->bad && is_clean(b->text);
}

/* Where the name is taken it gets a number in front of its extension. */
static void put_numbered(struct dp_text_buffer *b, const char *path, unsigned number)
{
	static const char extension[] = ".dynprof";
	size_t n = text_len(path), k = sizeof extension - 1;
	int has = n > k && same_text(path + n - k, extension);
	dp_put(b, path, has ? n - k : n);
	dp_put_text(b, ".");
	dp_put_number(b, number, 10);
	dp_put_text(b, has ? extension : "");
}

long dp_create_output(char *path, uint64_t size)
{
	enum { MOST = 9999 };
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	char first[DP_PATH_MAX];
	text_copy(first, sizeof first, path);
	long fd = raw(SYS_openat, AT_FDCWD, path, flags, 0600);
	for (unsigned n = 2; fd == -EEXIST && n <= MOST; n++) {
		struct dp_text_buffer b = dp_buffer(path, size);
		put_numbered(&b, first, n);
		fd = b.bad ? -ENAMETOOLONG : raw(SYS_openat, AT_FDCWD, path, flags, 0600);
	}
	struct stat st;
	if (!failed(fd) && (raw(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0 || (st.st_mode & 07777) != 0600))
		raw(SYS_fchmod, fd, 0600); /* whatever the umask: it is opened again */
	return fd;
}
