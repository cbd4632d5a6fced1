/* Text that is put together in a buffer; what has no room makes it bad. */
#ifndef DYNPROF_TEXT_H
#define DYNPROF_TEXT_H

#include <stdint.h>

#include "base/raw.h"

struct dp_text_buffer {
	char *text; /* room bytes; a NUL is behind what is in it */
	uint64_t room, used;
	int bad;
};

static inline struct dp_text_buffer dp_buffer(char *room, uint64_t size)
{
	room[0] = 0;
	return (struct dp_text_buffer){.text = room, .room = size};
}

static inline void dp_put(struct dp_text_buffer *b, const char *s, uint64_t n)
{
	b->bad |= n >= b->room - b->used;
	for (uint64_t i = 0; i < n && !b->bad; i++)
		b->text[b->used++] = s[i];
	b->text[b->used] = 0;
}

static inline void dp_put_text(struct dp_text_buffer *b, const char *s) { dp_put(b, s, text_len(s)); }

/* In base 10 or 16. */
static inline void dp_put_number(struct dp_text_buffer *b, uint64_t n, unsigned base)
{
	static const char digit[] = "0123456789abcdef";
	char digits[24];
	uint64_t at = sizeof digits;
	do
		digits[--at] = digit[n % base];
	while (n /= base);
	dp_put(b, digits + at, sizeof digits - at);
}

static inline void dp_put_bytes(struct dp_text_buffer *b, const uint8_t *bytes, uint64_t n)
{
	static const char digit[] = "0123456789abcdef";
	for (uint64_t i = 0; i < n; i++) {
		char two[2] = {digit[bytes[i] >> 4], digit[bytes[i] & 15]};
		dp_put(b, two, 2);
	}
}

/* What is behind a path's last slash. */
static inline const char *dp_base_name(const char *path)
{
	const char *base = path;
	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

#endif
