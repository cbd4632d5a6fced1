/* See maps.h. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/pages.h"
#include "warm/maps.h"

static uint64_t hex(char **s)
{
	uint64_t n = 0;
	for (;; ++*s) {
		char c = **s;
		if (c >= '0' && c <= '9')
			n = n << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (uint64_t)(c - 'a' + 10);
		else
			return n;
	}
}

static void skip_word(char **s)
{
	while (**s != ' ' && **s != '\n' && **s)
		++*s;
	*s += **s == ' ';
}

/* A line is `start-end rwxp offset major:minor inode   path`, all but the inode in hex.
 * Returns what is behind it. */
static char *read_line(char *s, struct dp_mapping *m)
{
	m->start = hex(&s);
	s += *s == '-';
	m->end = hex(&s);
	s += *s == ' ';
	m->prot = (s[0] == 'r' ? PROT_READ : 0) | (s[1] == 'w' ? PROT_WRITE : 0) | (s[2] == 'x' ? PROT_EXEC : 0);
	skip_word(&s);
	m->offset = hex(&s);
	skip_word(&s);
	skip_word(&s);
	for (m->inode = 0; *s >= '0' && *s <= '9'; s++)
		m->inode = 10 * m->inode + (uint64_t)(*s - '0');
	while (*s == ' ')
		s++;
	m->path = s;
	while (*s && *s != '\n')
		s++;
	if (*s)
		*s++ = 0;
	return s;
}

static uint64_t lines(const char *s)
{
	uint64_t n = 0;
	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* Behind the text, if there is room. */
static int make_list(struct dp_maps *m)
{
	uint64_t size = (m->count + 1) * sizeof *m->list, behind = (m->text.size + sizeof *m->list) & ~7ull;
	if (behind + size <= m->text.room) {
		m->list = (struct dp_mapping *)(m->text.text + behind);
		return 1;
	}
	m->room = pages(size);
	long at = raw(SYS_mmap, 0, m->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	m->list = failed(at) ? 0 : (struct dp_mapping *)at;
	return m->list != 0;
}

int dp_read_maps(struct dp_maps *m)
{
	*m = (struct dp_maps){.text = dp_read_whole("/proc/self/maps")};
	if (!m->text.text)
		return 0;
	m->count = lines(m->text.text);
	if (!make_list(m)) {
		dp_drop_whole(&m->text);
		return 0;
	}
	char *s = m->text.text;
	for (uint64_t i = 0; i < m->count; i++)
		s = read_line(s, &m->list[i]);
	return 1;
}

void dp_drop_maps(struct dp_maps *m)
{
	if (m->room)
		raw(SYS_munmap, m->list, m->room);
	dp_drop_whole(&m->text);
	*m = (struct dp_maps){0};
}
