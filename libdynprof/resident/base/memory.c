/* See memory.h.
 *
 *  1. /proc/self/cgroup says which groups the process is in (cgroups(7)).
 *  2. Each group up to the root may have a limit. Left are what is not used of it, and the
 *     pages of files, which the kernel takes back.
 *
 * A group that is not found, or the machine as a whole, is no limit. Of version 2 a group may
 * be ended as a whole (memory.oom.group; Documentation/admin-guide/cgroup-v2.rst): with all
 * that is below it, when a limit of its own, or of one above it, is met.
 *
 * It asks for the start, and for dlopen, by one thread at a time, on a stack that may be small:
 * long texts are static. */
#include "base/memory.h"
#include "base/pages.h"
#include "base/tasks.h"
#include "base/text.h"
#include "base/whole.h"

enum { MARGIN = 8 << 20, /* bytes that the program is left with at least; a planner of little takes as much */
       PATH = 1024 }; /* of a group; what is longer is passed over */

/* The names of a hierarchy's files. They are in place: pointers would have to be relocated. */
struct hierarchy {
	char root[24], limit[24], usage[24], files[2][24], whole[24];
};

static const struct hierarchy
	v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}, ""},
	v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}, "memory.oom.group"};

/* Reads a group's file. */
static uint64_t read_file(const char *group, const char *file, char *text, uint64_t size)
{
	static char path[PATH + 32];
	struct dp_text_buffer b = dp_buffer(path, sizeof path);
	dp_put_text(&b, group);
	dp_put_text(&b, "/");
	dp_put_text(&b, file);
	return b.bad ? 0 : dp_read_start(path, text, size);
}

/* Reads a number of bytes; no number is no limit ("max"). */
static uint64_t read_bytes(const char *group, const char *file)
{
	char text[32];
	const char *s = text;
	return read_file(group, file, text, sizeof text) && *s >= '0' && *s <= '9' ? dp_number(&s) : ~0ull;
}

static const char *behind(const char *s, char c)
{
	while (*s && *s != '\n' && *s != c)
		s++;
	return s + (*s == c);
}

/* The number behind a name, which begins a line. */
static uint64_t value_of(const char *text, const char *name)
{
	for (const char *s = text; *s; s = behind(s, '\n'))
		if (has_prefix(s, name)) {
			s += text_len(name);
			return dp_number(&s);
		}
	return 0;
}

/* Bytes of pages of files. */
static uint64_t reclaimable(const struct hierarchy *h, const char *group)
{
	static char text[2048];
	read_file(group, "memory.stat", text, sizeof text);
	return value_of(text, h->files[0]) + value_of(text, h->files[1]);
}

static int has_room(const struct hierarchy *h, const char *group, uint64_t bytes)
{
	uint64_t limit = read_bytes(group, h->limit);
	if (limit >= ~0ull >> 2) /* v1 says a number near to 2^63 */
		return 1;
	uint64_t usage = read_bytes(group, h->usage), left = limit > usage ? limit - usage : 0;
	return left >= bytes || left + reclaimable(h, group) >= bytes;
}

static int is_ended_whole(const struct hierarchy *h, const char *group) { return *h->whole && read_bytes(group, h->whole) == 1; }

/* All groups from a path up; or those alone that would be ended with all that is below. */
static int have_room(const struct hierarchy *h, const struct dp_text_buffer *path, uint64_t bytes, int all)
{
	char *group = path->text;
	uint64_t root = text_len(h->root);
	int counts = all;
	for (uint64_t n = path->used;; n--) {
		int at_end = n == path->used || group[n] == '/';
		group[n] = at_end ? 0 : group[n];
		if (at_end && (n == root || group[n - 1] != '/')) {
			counts = counts || is_ended_whole(h, group);
			if (counts && !has_room(h, group, bytes))
				return 0;
		}
		if (n == root)
			return 1;
	}
}

/* Whether a line's controllers, which end with a colon, are those of memory. */
static const struct hierarchy *hierarchy_of(const char *controllers)
{
	if (*controllers == ':')
		return &v2;
	for (const char *s = controllers; *s && *s != ':'; s++)
		if ((s == controllers || s[-1] == ',') && has_prefix(s, "memory") && (s[6] == ',' || s[6] == ':'))
			return &v1;
	return 0;
}

/* A line is `number:controllers:path`. */
static int leave_room(const char *groups, uint64_t bytes, int all)
{
	static char path[PATH];
	for (const char *s = groups; *s; s = behind(s, '\n')) {
		const char *controllers = behind(s, ':'), *group = behind(controllers, ':'), *end = group;
		while (*end && *end != '\n')
			end++;
		const struct hierarchy *h = hierarchy_of(controllers);
		if (!h)
			continue;
		struct dp_text_buffer b = dp_buffer(path, sizeof path);
		dp_put_text(&b, h->root);
		dp_put(&b, group, (uint64_t)(end - group));
		if (!b.bad && !have_room(h, &b, bytes, all))
			return 0;
	}
	return 1;
}

static int groups_leave(uint64_t bytes, int all)
{
	static char text[2 * PATH];
	if (dp_read_start("/proc/self/cgroup", text, sizeof text) < sizeof text - 1) /* none: a kernel without them */
		return leave_room(text, bytes + MARGIN, all);
	struct dp_whole groups = dp_read_whole("/proc/self/cgroup");
	int ok = !groups.text || leave_room(groups.text, bytes + MARGIN, all);
	dp_drop_whole(&groups);
	return ok;
}

int dp_has_memory(uint64_t bytes) { return groups_leave(bytes, 1); }

int dp_ends_with_it(uint64_t bytes) { return !groups_leave(bytes, 0); }

/* The second number of /proc/PID/statm (proc(5)). */
uint64_t dp_resident(void)
{
	char text[64];
	dp_read_start("/proc/self/statm", text, sizeof text);
	const char *s = behind(text, ' ');
	return dp_number(&s) * DP_PAGE_SIZE;
}
