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

static struct dp_missed *entry(uint32_t i)
{
	return (struct dp_missed *)dp_in_table(dp.table, dp.table->missed.offset) + i;
}

/* What of a path is kept: its end. */
static const char *kept_of(const char *path)
{
	size_t n = text_len(path);
	return n < DP_MS_PATH_SIZE ? path : path + n - (DP_MS_PATH_SIZE - 1);
}

static int is_of(const struct dp_missed *e, const char *path, uint32_t reason)
{
	const char *p = (const char *)e->path;
	if (__atomic_load_n(&e->reason, __ATOMIC_ACQUIRE) != reason)
		return 0;
	while (*p && *p == *path)
		p++, path++;
	return *p == *path;
}

void dp_miss(const char *path, uint32_t reason)
{
	uint32_t *head = &dp.table->missed_head, room = dp.table->missed.capacity;
	uint32_t used = __atomic_load_n(head, __ATOMIC_ACQUIRE);
	__atomic_fetch_add(&dp.table->objects_missed, 1, __ATOMIC_RELAXED);
	path = kept_of(path);
	for (uint32_t i = 0; i < used && i < room; i++)
		if (is_of(entry(i), path, reason)) {
			__atomic_fetch_add(&entry(i)->times, 1, __ATOMIC_RELAXED);
			return;
		}
	if (used >= room || (used = __atomic_fetch_add(head, 1, __ATOMIC_ACQ_REL)) >= room)
		return;
	entry(used)->times = 1;
	text_copy((char *)entry(used)->path, DP_MS_PATH_SIZE, path);
	__atomic_store_n(&entry(used)->reason, reason, __ATOMIC_RELEASE);
}
