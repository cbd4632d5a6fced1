/* See sink.h. */
#include "warm/sink.h"

static void write_out(struct dp_sink *s, const void *bytes, uint64_t n)
{
	if (s->mapped) {
		dp_copy_bytes(s->mapped + s->at, bytes, n);
		s->at += n;
		return;
	}
	for (const uint8_t *from = bytes; n > 0 && !s->bad;) {
		long put = raw(SYS_pwrite64, s->fd, from, n, s->at);
		s->bad |= put <= 0;
		if (s->bad)
			return;
		from += put;
		s->at += (uint64_t)put;
		n -= (uint64_t)put;
	}
}

int dp_sink_flush(struct dp_sink *s)
{
	write_out(s, s->room, s->used);
	s->used = 0;
	return !s->bad;
}

void *dp_sink_next(struct dp_sink *s, uint64_t n)
{
	if (s->used + n > DP_SINK_ROOM)
		dp_sink_flush(s);
	s->used += n;
	return s->room + s->used - n;
}

void dp_sink_put(struct dp_sink *s, const void *bytes, uint64_t n)
{
	if (n <= DP_SINK_ROOM) {
		dp_copy_bytes(dp_sink_next(s, n), bytes, n);
		return;
	}
	dp_sink_flush(s);
	write_out(s, bytes, n);
}
