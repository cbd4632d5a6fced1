/* See recordlock.h. */
#include "base/recordlock.h"
#include "base/text.h"
#include "base/whole.h"

int dp_may_be_locked(uint64_t inode)
{
	char number[32];
	struct dp_text_buffer b = dp_buffer(number, sizeof number);
	dp_put_text(&b, ":");
	dp_put_number(&b, inode, 10);
	dp_put_text(&b, " ");
	struct dp_whole locks = dp_read_whole("/proc/locks");
	int met = 0;
	for (uint64_t i = 0; i < locks.size && !met; i++)
		met = has_prefix(locks.text + i, number);
	dp_drop_whole(&locks);
	return met;
}
