/* Objects that were loaded later and are not counted: the table has a list of them,
 * for all processes of the fork tree. Its room is there from the start, so that it
 * can be written to without a system call.
 *
 *  1. An entry of the object's and the reason's is looked for. It is counted up.
 *  2. There is none: the next one is claimed, by an atomic add, and filled in; the
 *     reason is stored last. Two who come at a time make two entries of it.
 *  3. Beyond the last entry objects are only counted.
 */
#include "base/state.h"
#include "plans/missed.h"

static uint8_t *entry(uint32_t i)
{
	return dp.table + *dp_u64(dp.table, DP_HDR_MISSED + DP_SEC_OFFSET) + (uint64_t)i * DP_MS_ENTRY_SIZE;
}

/* What of a path is kept: its end. */
static const char *kept_of(const char *path)
{
	size_t n = text_len(path);
	return n < DP_MS_PATH_SIZE ? path : path + n - (DP_MS_PATH_SIZE - 1);
}

static int is_of(const uint8_t *e, const char *path, uint32_t reason)
{
	const char *p = (const char *)e + DP_MS_PATH;
	if (__atomic_load_n(dp_u32(e, DP_MS_REASON), __ATOMIC_ACQUIRE) != reason)
		return 0;
	while (*p && *p == *path)
		p++, path++;
	return *p == *path;
}

void dp_miss(const char *path, uint32_t reason)
{
	uint32_t *head = dp_u32(dp.table, DP_HDR_MISSED_HEAD), room = *dp_u32(dp.table, DP_HDR_MISSED + DP_SEC_CAPACITY);
	uint32_t used = __atomic_load_n(head, __ATOMIC_ACQUIRE);
	__atomic_fetch_add(dp_u32(dp.table, DP_HDR_OBJECTS_MISSED), 1, __ATOMIC_RELAXED);
	path = kept_of(path);
	for (uint32_t i = 0; i < used && i < room; i++)
		if (is_of(entry(i), path, reason)) {
			__atomic_fetch_add(dp_u32(entry(i), DP_MS_TIMES), 1, __ATOMIC_RELAXED);
			return;
		}
	if (used >= room || (used = __atomic_fetch_add(head, 1, __ATOMIC_ACQ_REL)) >= room)
		return;
	*dp_u32(entry(used), DP_MS_TIMES) = 1;
	text_copy((char *)entry(used) + DP_MS_PATH, DP_MS_PATH_SIZE, path);
	__atomic_store_n(dp_u32(entry(used), DP_MS_REASON), reason, __ATOMIC_RELEASE);
}
