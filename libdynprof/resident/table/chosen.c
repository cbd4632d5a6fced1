/* See chosen.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/stub.h"
#include "table/allocs.h"
#include "table/awaited.h"
#include "table/brk.h"
#include "table/chosen.h"
#include "table/files.h"
#include "table/heat.h"
#include "table/regions.h"

static const char *number_of(const char *p, uint64_t *n)
{
	for (*n = 0;; p++) {
		if (*p >= '0' && *p <= '9')
			*n = *n << 4 | (uint64_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			*n = *n << 4 | (uint64_t)(*p - 'a' + 10);
		else
			return p;
	}
}

static int same_name(const char *name, const char *text, size_t n) { return text_len(name) == n && same_bytes(name, text, n); }

/* What is behind the names of an object, each of which has a / behind it. */
static const char *behind_names(const char *text, const char *end)
{
	const char *behind = text;
	for (const char *p = text; p < end; p++)
		if (*p == '/')
			behind = p + 1;
	return behind;
}

static const char *base_of(const char *path)
{
	const char *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/')
			base = p + 1;
	return base;
}

/* Whether an object's name is one of those of a text. */
static int is_named(const char *path, const char *text, const char *end)
{
	const char *base = base_of(path);
	for (const char *p = text; p < end; p++)
		if (*p == '/') {
			if (same_name(base, text, (size_t)(p - text)))
				return 1;
			text = p + 1;
		}
	return 0;
}

/* The executable's, which has none in the list of objects; empty if it cannot be known. */
static void executable(char *path, size_t room)
{
	long n = ask(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, room - 1);
	path[failed(n) ? 0 : n] = 0;
}

/* The object that a text up to end names; without names: the executable. That may also be named if
 * another ran before it, which was the one that users start. */
static const struct dp_object *object_of(const struct dp_ctl *ctl, const char *text, const char *end)
{
	static char path[4096];
	const struct dp_object *main = ctl->late || !ctl->objects_count ? 0 : &ctl->objects[0];
	if (text == end)
		return main;
	for (uint32_t i = 0; i < ctl->objects_count; i++)
		if (is_named((const char *)ctl->objects[i].name, text, end))
			return &ctl->objects[i];
	if (!main || !dp_heat_before())
		return 0;
	if (!path[0])
		executable(path, sizeof path);
	return is_named(path, text, end) ? main : 0;
}

enum chosen { IMPOSSIBLE, MADE, NOT_LOADED, OF_ANOTHER };

/* The executable is not the one of which places are that have no names: that ran before in its place. */
static int is_another;

/* Whether the executable is the file of that number and device. Of the first program nobody doubts it. */
static int is_executable(const char *text)
{
	struct stat st;
	uint64_t number, device;
	text = number_of(text, &number);
	if (*text != ':')
		return 0;
	number_of(text + 1, &device);
	return !dp_heat_before() || (ask(SYS_newfstatat, AT_FDCWD, "/proc/self/exe", &st, 0) == 0 && st.st_ino == number && st.st_dev == device);
}

/* The allocation site of that name, or a new one; -1: there can be no more. */
static int site_named(const char *name)
{
	uint64_t number = dp_region_of_site(name);
	return number ? dp_allocs_site(number) : -1;
}

/* Code that begins in [low, low + size), of a choice. Returns 0 if there is no room for more. */
typedef int (*take_code)(void *choice, uint64_t low, uint64_t size);

/* Takes the code at +OFFSET:BYTES,... of an object. */
static enum chosen code_of(const char *plus, const char *end, const struct dp_object *o, take_code take, void *choice)
{
	uint64_t low, size;
	for (const char *p = plus; p < end;) {
		p = number_of(p + 1, &low);
		if (*p != ':')
			return IMPOSSIBLE;
		p = number_of(p + 1, &size);
		if (!take(choice, low + o->bias, size))
			return IMPOSSIBLE;
	}
	return MADE;
}

static int take_site(void *site, uint64_t low, uint64_t size) { return dp_allocs_code(*(int *)site, low, size); }

/* Blocks that the code at OFFSET:BYTES,... of an object asks for. */
static enum chosen choose_site(const char *text, const char *end, const char *name, const struct dp_ctl *ctl)
{
	const char *plus = behind_names(text, end);
	if (text == plus && is_another)
		return OF_ANOTHER;
	if (!dp_allocs_begin())
		return IMPOSSIBLE;
	const struct dp_object *o = object_of(ctl, text, plus);
	if (!o)
		return NOT_LOADED;
	int site = site_named(name);
	return site < 0 ? IMPOSSIBLE : code_of(plus, end, o, take_site, &site);
}

/* What a text says behind an address: :BYTES up to its end; 0: it does not. */
static uint64_t bytes_of(const char *colon, const char *end)
{
	uint64_t size;
	return *colon == ':' && number_of(colon + 1, &size) == end ? size : 0;
}

/* The heap, or the first thread's stack. Those are of the start. */
static enum chosen range(struct dp_extent r, const struct dp_ctl *ctl, struct dp_place *p)
{
	*p = (struct dp_place){r.low, r.high - r.low, 0};
	return ctl->late ? NOT_LOADED : r.low ? MADE : IMPOSSIBLE;
}

static enum chosen place_of(const char *text, const char *end, const struct dp_ctl *ctl, struct dp_place *p)
{
	const char *plus = behind_names(text, end);
	const struct dp_object *o = object_of(ctl, text, plus);
	uint64_t at;
	if (text == plus && plus != end && is_another)
		return OF_ANOTHER;
	if (!o)
		return NOT_LOADED;
	*p = (struct dp_place){o->low, o->high - o->low, o->dynamic};
	if (plus != end) {
		const char *colon = number_of(plus + 1, &at);
		p->low = at + o->bias;
		p->size = bytes_of(colon, end);
	}
	return MADE;
}

/* Where one is whose text is up to end. Of objects that come later only those can be in it that have a name. */
static enum chosen find(const char *what, const char *end, const struct dp_ctl *ctl, struct dp_place *p)
{
	uint64_t at;
	const char *colon;
	switch (what < end ? *what : 0) {
	case '^':
		return range(dp_heap(), ctl, p);
	case '_':
		return range(dp_stack(), ctl, p);
	case '@':
		colon = number_of(what + 1, &at);
		*p = (struct dp_place){at, bytes_of(colon, end), 0};
		return ctl->late ? NOT_LOADED : MADE;
	default:
		return place_of(what, end, ctl, p);
	}
}

struct awaited {
	unsigned number;
	const char *name;
};

static int take_call(void *choice, uint64_t low, uint64_t size)
{
	const struct awaited *a = choice;
	return dp_await_call(a->number, a->name, low, size);
}

/* One that begins when a function is called, OBJECT/+OFFSET:BYTES,...&WHAT. Of each of the two, what is
 * not known yet may come later. */
static enum chosen await(const char *text, const char *end, const char *name, const struct dp_ctl *ctl, unsigned number)
{
	struct awaited a = {number, name};
	struct dp_place p;
	const char *behind = text;
	while (behind < end && *behind != '&')
		behind++;
	if (behind == end || number >= DP_MOST_AWAITED)
		return IMPOSSIBLE;
	const char *plus = behind_names(text, behind);
	if (text == plus && is_another)
		return OF_ANOTHER;
	const struct dp_object *o = object_of(ctl, text, plus);
	enum chosen is = find(behind + 1, end, ctl, &p);
	if (is == MADE)
		dp_await_place(number, name, &p);
	enum chosen called = o ? code_of(plus, behind, o, take_call, &a) : NOT_LOADED;
	return is != MADE ? is : called;
}

/* Makes one, the number'th, whose text is up to end, name=what. */
static enum chosen choose(const char *what, const char *end, const char *name, const struct dp_ctl *ctl, unsigned number)
{
	struct dp_place p;
	switch (what < end ? *what : 0) {
	case '*':
		return choose_site(what + 1, end, name, ctl);
	case '<':
		return ctl->late || dp_files_choose(what + 1, (size_t)(end - what - 1), name) ? MADE : IMPOSSIBLE;
	case '&':
		return await(what + 1, end, name, ctl, number);
	}
	enum chosen is = find(what, end, ctl, &p);
	return is != MADE || dp_region_make(&p, name) ? is : IMPOSSIBLE;
}

void dp_regions_choose(const char *list, const struct dp_ctl *ctl, struct dp_unmade *u)
{
	char name[DP_LOG_SIZE - DP_LOG_NAME];
	unsigned number = 0;
	for (const char *end, *is; *list; list = *end ? end + 1 : end) {
		for (end = list; *end && *end != ';'; end++)
			;
		if (*list == '%')
			dp_regions_record((unsigned)(list[1] - '0'));
		if (*list == '!')
			is_another = !is_executable(list + 1);
		for (is = list; is < end && *is != '='; is++)
			;
		if (is == end)
			continue;
		text_copy(name, (size_t)(is - list) + 1 < sizeof name ? (size_t)(is - list) + 1 : sizeof name, list);
		enum chosen c = choose(is + 1, end, name, ctl, number++);
		if (u && c != MADE)
			text_list(c == NOT_LOADED ? u->absent : c == OF_ANOTHER ? u->others : u->impossible, sizeof u->absent, name);
	}
}

void dp_regions_late(const struct dp_ctl *ctl)
{
	static const char variable[] = "DYNPROF_REGION=";
	if (ctl->remark[0])
		dp_allocs_unled(); /* that is what a planner of later objects says */
	for (uint32_t i = 0; dp_regions_are() && i < ctl->vars_count; i++)
		if (has_prefix((const char *)ctl->vars[i], variable))
			dp_regions_choose((const char *)ctl->vars[i] + sizeof variable - 1, ctl, 0);
}
